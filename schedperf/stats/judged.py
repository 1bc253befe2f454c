"""One row as the statistics leave it: its numbers, its verdict, and why it has it."""

from dataclasses import dataclass

from schedperf.model.caveats import Caveat
from schedperf.model.comparison import Better, Family, Replication, Verdict
from schedperf.stats.verdicts import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow:
    """One metric of one point, base against one new side.

    Fields that :class:`schedperf.model.comparison.Row` has, too, are described there.

    :param comparison: which of the comparisons in the table it belongs to
    :param reason: in its parts, of which the record makes text
    :param caveats: what weakens it, what holds of whole sides included
    """

    comparison: object
    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    family: Family
    n_base: int | None
    n_new: int | None
    base: float | None
    new: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    verdict: Verdict
    mde: float | None
    more_runs: int | None
    method: str
    reason: Reason
    caveats: tuple[Caveat, ...]
    replication: Replication
    icc: float | None
    design_effect: float | None
    p_rank: float | None
    rank_ratio: float | None
    rank_low: float | None
    rank_high: float | None

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What is asked, whatever the side: workload, point, metric, unit and direction."""
        return self.workload, self.point, self.metric, self.unit, self.better
