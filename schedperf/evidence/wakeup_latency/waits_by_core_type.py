# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare percentiles of the waits of all commands, per type of CPU core that the tasks ran on."""

from collections.abc import Iterator

from msgspec.structs import replace

from schedperf.evidence.wakeup_latency.capture import WakeupCapture
from schedperf.evidence.wakeup_latency.compare import why_not
from schedperf.evidence.wakeup_latency.measure import pool, statistics
from schedperf.evidence.wakeup_latency.record import Event, Statistic, WakeupTypeRow
from schedperf.model.counted import Basis
from schedperf.model.run import SideOf
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

_Key = tuple[Event, str, Statistic]


def compare_core_types(
    base: SideOf[WakeupCapture], new: SideOf[WakeupCapture] | None
) -> Iterator[WakeupTypeRow]:
    """Yield the rows of each type of core.

    There are none on machines with one type, or if the sides are not comparable (:func:`why_not`).

    :param new: None if there is only base
    """
    if new is not None and why_not(base, new) is not None:
        # The reason is in the rows of the commands.
        return
    rates = compare_rates(_measured(base), None if new is None else _measured(new))
    side = (new or base).name
    for index, (question, rate) in enumerate(rates.items()):
        event, core_type, quantile = question.key
        yield WakeupTypeRow(
            row=f"{side}-type-{index}",
            side=side,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            event=event,
            core_type=core_type,
            quantile=quantile,
            **rate.as_fields(),
        )


def _measured(side: SideOf[WakeupCapture]) -> SideOf[Measures[_Key]]:
    return side.having(lambda run: dict(_measures(run.content)))


def _measures(capture: WakeupCapture) -> Iterator[tuple[tuple[_Key, Basis], Measure]]:
    for core_type in dict.fromkeys(capture.types.values()):
        waits = tuple(
            each
            for each in capture.waits
            if each.cpu is not None and capture.types.get(each.cpu) == core_type
        )
        # Nodes have separate rows.
        for subject, pooled in pool(replace(capture, waits=waits, nodes={})).items():
            for name, value in statistics(pooled) if not subject.command else ():
                yield (
                    ((subject.event, core_type, name), "share"),
                    Measure(value, "s", is_maximum=name == "max"),
                )
