# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Comparison`, the record that the analysis writes and all reports read.

HTML, mail, terminal and JSON are rendered from the same frozen values, so they cannot disagree.
Missing is ``None``, never 0. Values are in base units (s, B, 1/s, count).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from schedperf.model.caveats import Caveat
from schedperf.model.data_frame import data_frame
from schedperf.model.row_groups import FamilySummary, Mover, SideBySide, Sweep, TwoByTwo
from schedperf.model.rows import Row, Verdict
from schedperf.model.sections import Data, Finding, Section, data_of
from schedperf.model.sides import Comparability, SideSummary

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "schedperf/compare/2"


class Overall(Struct, frozen=True, kw_only=True):
    """The verdict of the whole comparison.

    :param reason_short: the first part of the reason, without advice
    :param exit_status: what ``schedperf compare`` exits with, before ``--strict``
    """

    verdict: Verdict
    reason: str
    reason_short: str
    exit_status: int


class NextStep(Struct, frozen=True, kw_only=True):
    """One suggested next step.

    :param id: name of the rule that suggests it: "more-runs"
    :param what: what to do, in a few words
    :param why: the reason
    :param commands: shell commands, quoted; the reader replaces words in capitals
    :param conditions: what must be done before the commands can run
    """

    id: str
    what: str
    why: str
    commands: tuple[str, ...]
    conditions: tuple[str, ...] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of two or more bundles or tables.

    :param side_by_side: the results of three or more sides, a column per side; () for two
    :param two_by_two: None if the sides do not cross kernels with two settings
    :param movers: significant steps of three or more sides: primary results first, then the largest
    :param command: command line that reproduces the comparison, one word per item; () if unknown
    """

    schema: str
    id: Annotated[str, "SHA-256 over the schema, the digests of the sides and the options"]
    tool_version: str
    sides: tuple[SideSummary, ...]
    comparability: Comparability
    rows: tuple[Row, ...]
    sweeps: tuple[Sweep, ...]
    families: tuple[FamilySummary, ...]
    findings: tuple[Finding, ...]
    sections: Mapping[str, Section]
    caveats: tuple[Caveat, ...]
    overall: Overall
    side_by_side: tuple[SideBySide, ...] = ()
    movers: tuple[Mover, ...] = ()
    two_by_two: TwoByTwo | None = None
    next_steps: tuple[NextStep, ...] = ()
    command: tuple[str, ...] = ()

    def section(self, kind: type[Data]) -> Data | None:
        """Return the data of a section, by the type of its data; None if missing or without data.

        ``comparison.section(schedperf.Schedstat).rows``
        """
        return data_of(self.sections, kind)

    def frame(self) -> "pd.DataFrame":
        """Return the results as a DataFrame: a row per result and new side, a column per field."""
        return data_frame(self, "rows")
