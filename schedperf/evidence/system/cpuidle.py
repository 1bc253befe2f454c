"""Idle states of all CPUs: a table that the collector made of /sys/devices/system/cpu/cpu*/cpuidle.

::

    cpu  state  name  usage    time_us      above  below  rejected
    0    1      C1    9036313  19721279633  740    0      0

``usage`` counts entries, ``time_us`` the time in the state, ``above`` entries that were too short
for it, ``below`` those long enough for a deeper one, ``rejected`` those that the hardware refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from schedperf.evidence.system._counters import optional_count, parse_cpu, read_table
from schedperf.model.errors import InputError

COLUMNS = ("cpu", "state", "name", "usage", "time_us", "above", "below", "rejected")
LONGEST_NAME = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleState:
    """What one CPU has counted of one state since the boot; None where the kernel does not.

    :param state: its number, the shallowest is 0
    :param name: of the driver: "POLL", "C1", "C6"
    """

    cpu: int
    state: int
    name: str
    usage: int | None
    time_us: int | None
    above: int | None
    below: int | None
    rejected: int | None


def parse_cpuidle(lines: Iterable[str], label: str) -> tuple[IdleState, ...]:
    """Read the table.

    :raises InputError: it is damaged, or a state is there twice
    """
    states: dict[tuple[int, int], IdleState] = {}
    for where, row in read_table(lines, COLUMNS, label):
        cpu, state = parse_cpu(row["cpu"], where), parse_cpu(row["state"], where)
        if (cpu, state) in states:
            raise InputError(f"{where}: state {state} of cpu{cpu} a second time; record again")
        states[cpu, state] = IdleState(
            cpu=cpu,
            state=state,
            name=(row["name"] or f"state{state}")[:LONGEST_NAME],
            usage=optional_count(row, "usage", where),
            time_us=optional_count(row, "time_us", where),
            above=optional_count(row, "above", where),
            below=optional_count(row, "below", where),
            rejected=optional_count(row, "rejected", where),
        )
    return tuple(states.values())
