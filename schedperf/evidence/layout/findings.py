# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for layout changes that may affect performance (alarms)."""

from collections.abc import Iterator, Mapping

from schedperf.evidence import finding
from schedperf.evidence.layout.record import Grade, Layout, LayoutAlarm
from schedperf.model.sections import Finding

# Largest number of findings. One inserted variable can raise several alarms; the report's section
# lists all of them.
MOST_FINDINGS = 3

_GRADES: Mapping[Grade, str] = {
    "sampled": "sampled",
    "measured": "published measurement",
    "stated": "stated",
    "inferred": "inferred",
}


@finding("layout_alarms", Layout)
def layout_alarms(layout: Layout) -> Iterator[Finding]:
    """Yield a finding for each of the :data:`MOST_FINDINGS` highest-ranked alarms of each side."""
    for compared in layout.comparisons:
        for alarm in compared.alarms[:MOST_FINDINGS]:
            yield _describe(compared.side, alarm)


def _describe(side: str, alarm: LayoutAlarm) -> Finding:
    cause = alarm.cause
    why = "no single edit explains the change" if cause is None else f"cause: {cause.text}"
    samples = alarm.hitm
    # The published effect, if there is one, then its source.
    basis = tuple(filter(None, (alarm.effect, alarm.reference)))
    support = f"{_GRADES[alarm.grade]}: {basis[0]}"
    return Finding(
        id=f"layout_alarms#{alarm.row}",
        side=side,
        clause=alarm.claim,
        details=f"; {why}",
        metric="shared cache line" if samples is None else "sampled loads that hit a modified line",
        value=samples,
        ci=None,
        unit="",
        better=None if samples is None else "lower",
        n=(1, 1),
        evidence=(f"layout#{alarm.row}",),
        replication="1 build per side",
        attribution="; ".join((support, *basis[1:], "correlated, causation not shown")),
        support=support,
    )
