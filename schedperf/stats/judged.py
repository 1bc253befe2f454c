"""One row as the statistics leave it: its numbers, its verdict, and why it has it."""

from dataclasses import dataclass

from schedperf.model.comparison import RowNumbers
from schedperf.stats.verdicts import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow(RowNumbers):
    """One metric of one point, base against one new side.

    :param comparison: which of the comparisons in the table it belongs to
    :param reason: in its parts, of which the record makes text
    """

    comparison: object
    reason: Reason
