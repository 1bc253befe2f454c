# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of exceedances and of maxima."""

from collections.abc import Iterator

from schedperf.evidence import caveat_rule, finding
from schedperf.evidence.realtime.record import (
    ExceedanceRow,
    MaximumRow,
    Realtime,
    write_seconds,
    write_share,
)
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.sections import Finding
from schedperf.model.verdict import count_units

ATTRIBUTION = "counted in the output of the benchmark, not used for the verdict"
# Largest number of findings over all points; the section has all rows.
MOST_FINDINGS = 4


@caveat_rule("unequal_samples", Realtime)
def unequal_samples(record: Realtime) -> Iterator[Caveat]:
    """Yield a caveat for each side whose maxima have another number of samples than base's."""
    ratios = {
        row.side: row.samples_new / row.samples_base
        for row in record.maxima
        if row.why_invalid is not None
    }
    for side, ratio in ratios.items():
        yield caveat("unequal-samples", side=side, ratio=ratio)


@finding("realtime", Realtime)
def realtime(record: Realtime) -> Iterator[Finding]:
    """Yield, per latency, the change at the largest changed threshold; then changed maxima.

    At most ``MOST_FINDINGS`` are yielded.
    """
    changed: dict[tuple[str, str, str, str], ExceedanceRow] = {}
    for row in record.exceedances:
        if row.changed:
            changed[row.side, row.workload, row.point, row.metric] = row
    found = [
        *map(_describe_exceedance, changed.values()),
        *(_describe_maximum(row) for row in record.maxima if row.changed),
    ]
    yield from found[:MOST_FINDINGS]


def _describe_exceedance(row: ExceedanceRow) -> Finding:
    shares = [
        f"{write_share(above, samples)} of samples ({above} of {samples})"
        for above, samples in (
            (row.above_base, row.samples_base),
            (row.above_new, row.samples_new),
        )
    ]
    threshold = write_seconds(row.threshold_s)
    return _finding(
        row,
        f"{row.metric} is {threshold} or longer in {shares[1]} instead of {shares[0]}",
        f"{row.metric} of {threshold} or longer",
    )


def _describe_maximum(row: MaximumRow) -> Finding:
    return _finding(
        row,
        f"the longest {row.metric} is {write_seconds(row.new)} instead of "
        f"{write_seconds(row.base)}",
        f"{row.metric} max",
    )


def _finding(row: ExceedanceRow | MaximumRow, clause: str, metric: str) -> Finding:
    low, high = _percent(row.ci_low), _percent(row.ci_high)
    return Finding(
        id=f"realtime#{row.row}",
        side=row.side,
        clause=clause,
        metric=metric,
        value=_percent(row.ratio),
        ci=None if low is None or high is None else (low, high),
        unit="%",
        better="lower",
        n=(row.n_base, row.n_new),
        evidence=(f"realtime#{row.row}",),
        replication=count_units(row.n_base, row.n_new, row.replication),
        attribution=ATTRIBUTION,
    )


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100.0 * (ratio - 1.0)
