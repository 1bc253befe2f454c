# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the functions that ``import schedperf`` offers; paths may be ``str``."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.bundle.open import open_bundle as _open_bundle
from schedperf.inputs.tables.read import read_table as _read_table
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.json import load_bisection
from schedperf.model.comparison import Comparison
from schedperf.publish.culprit.files import load_comparison, load_culprit
from schedperf.publish.culprit.record import Culprit

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from schedperf.history.questions.history import History

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


def read_bisection(path: StrPath) -> BisectDocument:
    """Read a file that ``schedperf bisect next --json`` wrote.

    :raises InputError: the file cannot be read, is damaged, or is of another version
    """
    return load_bisection(Path(path))


def open_history(store: StrPath) -> "History":
    """Open a history for reading; see docs/history.md.

    :param store: directory of the store, or URL of its database
    :raises InputError: no store, or its database cannot be used
    """
    # SQLAlchemy is slow to import.
    from schedperf.history.questions.history import open_history as _open  # noqa: PLC0415

    return _open(str(store))


@overload
def figure(record: Comparison, kind: Literal["results", "runs", "sweep"]) -> "go.Figure": ...
@overload
def figure(record: BisectDocument, kind: Literal["bisect"]) -> "go.Figure": ...
@overload
def figure(record: "History", kind: str) -> "go.Figure": ...
def figure(record: "Comparison | BisectDocument | History", kind: str) -> "go.Figure":
    """Return a Plotly figure for notebooks and dashboards.

    :param kind: of a comparison, "results" are the changes of all results with their 95% CIs,
        "runs" the values of all runs in the order of the recording, "sweep" the changes over the
        points of each sweep; of a bisection, "bisect" are the levels of the tested commits; of a
        history, the key or name of a series
    :raises InputError: the record has nothing to draw, or the kind is unknown
    """
    # plotly is slow to import.
    from schedperf_reports.bisection.figure import draw_bisection  # noqa: PLC0415
    from schedperf_reports.figures import draw_figure  # noqa: PLC0415

    if isinstance(record, BisectDocument):
        return draw_bisection(record, kind)
    if isinstance(record, Comparison):
        return draw_figure(record, kind)
    # As open_history.
    from schedperf.history.questions.timeline import timeline_of  # noqa: PLC0415
    from schedperf_reports.history.figure import draw_timeline  # noqa: PLC0415

    return draw_timeline(timeline_of(record, record.find(kind)))
