"""A changed rate as a finding: its change in per cent, the interval, and what it rests on."""

from schedperf.model.comparison import Better, Finding
from schedperf.model.counted import RateRow
from schedperf.stats.verdicts import count_units

CO_OCCURS = "co-occurs; not shown to cause the change"


def rate_finding(
    row: RateRow,
    *,
    rule: str,
    section: str,
    claim: str,
    metric: str,
    better: Better | None = None,
    attribution: str = CO_OCCURS,
) -> Finding:
    """Return the finding that a row proves.

    :param rule: the finding rule's name
    :param section: whose row it is
    """
    return Finding(
        id=f"{rule}#{row.row}",
        side=row.side,
        claim=claim,
        metric=metric,
        value=None if row.ratio is None else _percent(row.ratio),
        ci=_interval(row),
        unit="%",
        better=better,
        n=(row.n_base, row.n_new),
        evidence=(f"{section}#{row.row}",),
        replication=count_units(row.n_base, row.n_new, row.replication),
        attribution=attribution,
    )


def describe_interval(row: RateRow, *remarks: str) -> str:
    """Return `` (95 % interval +1..+2 %, remark)``; "" where neither is known."""
    interval = _interval(row)
    known = "" if interval is None else f"95 % interval {interval[0]:+.0f}..{interval[1]:+.0f} %"
    details = ", ".join(filter(None, (known, *remarks)))
    return f" ({details})" if details else ""


def _interval(row: RateRow) -> tuple[float, float] | None:
    if row.ci_low is None or row.ci_high is None:
        return None
    return _percent(row.ci_low), _percent(row.ci_high)


def _percent(ratio: float) -> float:
    return 100.0 * (ratio - 1.0)
