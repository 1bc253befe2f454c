# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare where tasks ran and how long they waited, per type of CPU core.

The rows are run time and timeslices of each type, as shares of the sums over all types, and mean
waits and timeslices. The kernel counts them per CPU even if kernel.sched_schedstats is 0.
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from schedperf.evidence.schedstat.measure import SHARES, Key, SchedCounts, shares_of, totals_of
from schedperf.evidence.schedstat.record import CoreTypeRow
from schedperf.model.run import SideOf
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

# Counters that are summed per type, with the meaning of their shares.
_DISTRIBUTED: Mapping[str, str] = {
    "rq_cpu_time": "share of the run time of all tasks",
    "pcount": "share of the timeslices of all tasks",
}
_MEANS = ("wait_mean", "slice_mean")
_FIELDS = (*_DISTRIBUTED, *_MEANS)

# Type of core and field.
_Key = tuple[str, str]


def compare_core_types(
    base: SideOf[SchedCounts],
    new: SideOf[SchedCounts] | None,
    cpus: Collection[int] | None = None,
) -> Iterator[CoreTypeRow]:
    """Yield the rows of each type of core; none on machines with one type.

    :param new: None if there is only base
    :param cpus: CPUs to include; None for all
    """
    sides = [
        None if side is None else side.having(lambda run: _measures(run.content, cpus))
        for side in (base, new)
    ]
    assert sides[0] is not None
    rates = compare_rates(sides[0], sides[1])
    side = (new or base).name
    for index, (question, rate) in enumerate(rates.items()):
        core_type, field = question.key
        yield CoreTypeRow(
            row=f"{side}-type-{index}",
            side=side,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            core_type=core_type,
            field=field,
            meaning=_DISTRIBUTED.get(field) or SHARES[field].meaning,
            **rate.as_fields(),
        )


def _measures(counts: SchedCounts, cpus: Collection[int] | None) -> Measures[_Key]:
    totals = {
        name: _totals(counts, {cpu for cpu in of_type if cpus is None or cpu in cpus})
        for name, of_type in counts.cpus_of_types.items()
    }
    measures: dict[_Key, Measure] = {}
    for field in _DISTRIBUTED:
        amounts = {name: of_type.get(Key("", "", field)) for name, of_type in totals.items()}
        total = sum(amount or 0.0 for amount in amounts.values())
        # Shares are unknown if one type is missing.
        if None not in amounts.values() and total:
            for name, amount in amounts.items():
                measures[name, field] = Measure((amount or 0.0) / total, "")
    for name, of_type in totals.items():
        shares = shares_of(of_type)
        for field in _MEANS:
            if (share := shares.get(Key("", "", field))) is not None:
                measures[name, field] = Measure(share, SHARES[field].unit)
    ordered = sorted(measures.items(), key=lambda item: _FIELDS.index(item[0][1]))
    return {(key, "share"): measure for key, measure in ordered}


def _totals(counts: SchedCounts, cpus: Collection[int]) -> dict[Key, float]:
    # Domains span CPUs of several types, so only counters of CPUs are used.
    return totals_of(replace(counts, levels=()), {}, cpus)
