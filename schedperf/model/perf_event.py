# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a perf event: its name, PMU and modifiers.

Events with different modifiers are not comparable: ``cycles:k`` counts the kernel only.

    >>> parse_event("cpu_core/cycles/uk")
    PerfEvent(name='cycles', pmu='cpu_core', modifiers='uk', host=None, guests=None)
"""

import re
from collections.abc import Collection
from typing import Annotated

from msgspec import Struct

from schedperf.model.text import join_names

# Modifiers that limit what is counted, in the order of `man perf-list`; others (pinned, exclusive,
# weak …) are dropped.
LEVELS, IDLE, PRECISE = "ukh", "I", "pP"

_WITH_PMU = re.compile(r"(?P<pmu>[\w.-]+)/(?P<name>[^/]*)/:?(?P<modifiers>[A-Za-z]*)")
# Tracepoints have a colon of their own: "sched:sched_switch:u".
_PLAIN = re.compile(r"(?P<name>.+?)(?::(?P<modifiers>[ukhIGHpPSDWebR]+))?", re.DOTALL)


class PerfEvent(Struct, frozen=True, kw_only=True):
    """An event that perf counts or samples."""

    name: Annotated[str, "event name without PMU and modifiers, e.g. `cycles`"]
    pmu: Annotated[str | None, "PMU of the event, e.g. `cpu_core`; null if not recorded"]
    modifiers: Annotated[
        str,
        "perf event modifiers: u (user space), k (kernel) and h (hypervisor), all three if none "
        "is set; I: not while idle; p, pp or ppp: precise level, P: highest precise "
        "level",
    ]
    host: Annotated[bool | None, "true if the host is counted; null if not recorded"]
    guests: Annotated[bool | None, "true if guests are counted; null if not recorded"]

    @property
    def has_kernel(self) -> bool:
        """Return whether the event counts the kernel."""
        return counts_level(self.modifiers, "k")


def counts_level(modifiers: str, level: str) -> bool:
    """Return whether an event with these modifiers counts a level: "u", "k" or "h".

    >>> counts_level("pp", "k"), counts_level("upp", "k")
    (True, False)
    """
    return level in modifiers or not {*LEVELS} & {*modifiers}


def kernel_not_counted(names: Collection[str]) -> str:
    """State that events do not count the kernel, e.g. because of the modifier u.

    >>> kernel_not_counted(["cycles:u"])
    'cycles:u does not count the kernel'
    """
    return f"{join_names(names)} {'does' if len(names) == 1 else 'do'} not count the kernel"


def parse_event(text: str) -> PerfEvent:
    """Parse an event as perf prints it: ``cycles:ppp``, ``cpu_core/cycles/u``.

    Modifiers other than u, k, h, I, p, P, H and G are dropped. An event of a PMU without an event
    name, ``ibs_op//``, is named after the PMU.
    """
    match = _WITH_PMU.fullmatch(text) or _PLAIN.fullmatch(text)
    parts = match.groupdict(default="") if match else {"name": text}
    letters = parts.get("modifiers", "")
    is_said = "G" in letters or "H" in letters
    return PerfEvent(
        # A PMU with a single event has no event name: "ibs_op//".
        name=parts["name"] or parts.get("pmu", ""),
        pmu=parts.get("pmu"),
        modifiers="".join(letter * letters.count(letter) for letter in (*LEVELS, *IDLE, *PRECISE)),
        host="H" in letters if is_said else None,
        guests="G" in letters if is_said else None,
    )
