"""/proc/pressure/{cpu,memory,io,irq}: how long tasks stalled, since the boot.

::

    some avg10=6.17 avg60=1.70 avg300=0.38 total=1333957
    full avg10=0.00 avg60=0.00 avg300=0.00 total=0

``some``: at least one task waited; ``full``: all that were not idle did. The total is in
microseconds (Documentation/accounting/psi.rst).

    >>> parse_pressure(["some avg10=6.17 avg60=1.70 avg300=0.38 total=1333957"], "cpu")
    (Pressure(kind='some', total_us=1333957),)
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from schedperf.evidence.system._counters import SHOWN, parse_count
from schedperf.model.errors import InputError

_LINE = re.compile(r"(some|full) (?:[a-z0-9]{1,20}=[0-9.]{1,20} ){0,8}total=([0-9]{1,20})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pressure:
    """One line.

    :param kind: "some" or "full"
    :param total_us: stalled since the boot, in microseconds
    """

    kind: str
    total_us: int


def parse_pressure(lines: Iterable[str], label: str) -> tuple[Pressure, ...]:
    """Read the stall times of one resource.

    :raises InputError: a line is damaged or there twice, or there is none
    """
    found: dict[str, Pressure] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or match[1] in found:
            raise InputError(f"{label}:{number}: no stall time: {line[:SHOWN]!r}; record again")
        total = parse_count(match[2], f"{label}:{number}")
        found[match[1]] = Pressure(kind=match[1], total_us=total)
    if not found:
        raise InputError(f"{label}: empty; record again")
    return tuple(found.values())
