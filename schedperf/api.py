# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the functions that ``import schedperf`` offers; paths may be ``str``."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.bundle.open import open_bundle as _open_bundle
from schedperf.inputs.tables.read import read_table as _read_table
from schedperf.model.comparison import Comparison
from schedperf.publish.culprit.files import load_comparison, load_culprit
from schedperf.publish.culprit.record import Culprit

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

StrPath = str | PathLike[str]


def open_bundle(path: StrPath, *, salvage: bool = False) -> Bundle:
    """Open a bundle: plain, gz, xz or zst, whatever its suffix.

    :param salvage: read as much of a damaged bundle as possible
    :raises InputError: the file cannot be read, is not a bundle, exceeds a limit, has a newer major
        format version, or is damaged; with ``salvage``, damage is an error only if nothing can be
        read
    """
    return _open_bundle(Path(path), salvage=salvage)


def read_table(path: StrPath) -> "pd.DataFrame":
    """Read a CSV file of results in the form that :func:`compare_runs` accepts (docs/tables.md).

    :raises InputError: the file cannot be read, or a row is invalid; the message names its line and
        column
    """
    return _read_table(Path(path))


def read_comparison(path: StrPath) -> Comparison:
    """Read a file that ``schedperf compare --json`` wrote.

    :raises InputError: the file cannot be read, is damaged, or is of another version
    """
    return load_comparison(Path(path))


def read_culprit(path: StrPath) -> Culprit:
    """Read a record that ``schedperf culprit new`` wrote.

    :raises InputError: the file cannot be read, is damaged, or is of another version
    """
    return load_culprit(Path(path))


def figure(comparison: Comparison, kind: Literal["results", "runs", "sweep"]) -> "go.Figure":
    """Return a Plotly figure for notebooks and dashboards.

    :param kind: "results" are the changes of all results with their 95% CIs, "runs" the values of
        all runs in the order of the recording, "sweep" the changes over the points of each sweep
    :raises InputError: the comparison has nothing to draw, or the kind is unknown
    """
    from schedperf_reports.figures import draw_figure  # noqa: PLC0415 # plotly is slow to import

    return draw_figure(comparison, kind)
