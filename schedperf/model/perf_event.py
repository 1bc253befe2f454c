# SPDX-License-Identifier: GPL-2.0-or-later
"""An event of perf: its name, its PMU, and what of the machine it is limited to.

Two events of one name are the same only where all of it is: ``cycles:k`` counts the kernel alone.

    >>> parse_event("cpu_core/cycles/uk")
    PerfEvent(name='cycles', pmu='cpu_core', modifiers='uk', host=None, guests=None)
"""

import re
from dataclasses import dataclass
from typing import Annotated

# Modifiers that say what is counted, in the order of `man perf-list`; those that say how (pinned,
# exclusive, weak …) are left out.
LEVELS, IDLE, PRECISE = "ukh", "I", "pP"

_WITH_PMU = re.compile(r"(?P<pmu>[\w.-]+)/(?P<name>[^/]*)/:?(?P<modifiers>[A-Za-z]*)")
# Tracepoints have a colon of their own: "sched:sched_switch:u".
_PLAIN = re.compile(r"(?P<name>.+?)(?::(?P<modifiers>[ukhIGHpPSDWebR]+))?", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class PerfEvent:
    """What perf was asked to count or to sample."""

    name: Annotated[str, "without PMU and modifiers: `cycles`"]
    pmu: Annotated[str | None, "which counts it: `cpu_core`; null: not recorded"]
    modifiers: Annotated[
        str,
        "what is counted, in perf's letters: of user space (u), kernel (k) and hypervisor (h) "
        "those that are named, or all where none is; I: not while idle; a p per precise level, P: "
        "the highest that there is",
    ]
    host: Annotated[bool | None, "is the host counted? null: not recorded"]
    guests: Annotated[bool | None, "are guests counted? null: not recorded"]


def parse_event(text: str) -> PerfEvent:
    """Read an event as perf prints it: ``cycles:ppp``, ``cpu_core/cycles/u``."""
    found = _WITH_PMU.fullmatch(text) or _PLAIN.fullmatch(text)
    parts = found.groupdict(default="") if found else {"name": text}
    letters = parts.get("modifiers", "")
    is_said = "G" in letters or "H" in letters
    return PerfEvent(
        # A PMU with one event alone has no name for it: "ibs_op//".
        name=parts["name"] or parts.get("pmu", ""),
        pmu=parts.get("pmu"),
        modifiers="".join(letter * letters.count(letter) for letter in (*LEVELS, *IDLE, *PRECISE)),
        host="H" in letters if is_said else None,
        guests="G" in letters if is_said else None,
    )
