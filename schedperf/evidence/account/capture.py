# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse ``account.json``, and divide the time of a run's tasks into parts.

The CPU time is that of the resource usage, which is exact. ``account.json`` has the time that tasks
waited for a CPU; for the rest of their lifetime they were blocked. The kernel writes the record of
a task before the task has ended; the CPU time that no record has is that of exiting tasks. The
times of a server that was started before the run are all from ``account.json``. Linux divides the
CPU time of a task into user and system by ticks, and counts a task without ticks as user. If tasks
are short, the ticks of all tasks together divide it better; they are then used for all runs that
are compared.

>>> account = parse_account(
...     b'{"schema": "schedperf/account/1", "lost": 0, "left_out": 0, "unresolved": 0, "tasks": 2,'
...     b' "lifetime_s": 5, "exec_s": 1, "waiting_s": 3, "user_s": 0.5, "system_s": 0.5,'
...     b' "minor_faults": 0, "major_faults": 0, "recorder_cpu_s": 0, "others_cpu_s": 0,'
...     b' "others": []}', "account.json",
... )
>>> parts_of({"utime_s": 0.8, "stime_s": 0.2}, account, by_ticks=False)
{'user': 0.8, 'system': 0.2, 'exiting': 0.0, 'waiting': 3.0, 'blocked': 1.0}
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.evidence.account.record import Part
from schedperf.evidence.needs import COMMANDS
from schedperf.inputs.bundle.json import Count, Sentence, decode
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError

FOLDER = "account"
FILE = "account.json"
# Of imported traces.
TRACED_FILE = "traced.json"
LARGEST_BYTES = 1 << 16
MOST_OTHERS = 100
MOST_COMMANDS = 1_000
# With fewer ticks per task, their division into user and system is wrong.
LEAST_TICKS = 10.0

Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class Other(Struct, frozen=True, kw_only=True):
    """CPU time of the processes with one command that are not of the workload."""

    command: Sentence
    cpu_s: Seconds


class ServerUse(Struct, frozen=True, kw_only=True):
    """What the tasks of a server that was started before a run used during this run.

    :param tasks: how many existed
    :param exec_s: CPU time as the scheduler counts it
    :param user_s: CPU time in user mode by ticks
    """

    tasks: Count
    lifetime_s: Seconds
    exec_s: Seconds
    waiting_s: Seconds
    user_s: Seconds
    system_s: Seconds
    minor_faults: Count
    major_faults: Count

    @property
    def parts(self) -> dict[Part, float]:
        """Thread-time in s by part; without ticks, all CPU time counts as user, as in Linux."""
        ticks_s = self.user_s + self.system_s
        user_s = self.exec_s * (self.user_s / ticks_s) if ticks_s > 0.0 else self.exec_s
        return {
            "user": user_s,
            "system": self.exec_s - user_s,
            "exiting": 0.0,
            "waiting": self.waiting_s,
            "blocked": max(0.0, self.lifetime_s - self.exec_s - self.waiting_s),
        }


class AccountFile(Struct, frozen=True, kw_only=True):
    """The account of one run; keys as in docs/bundle.md.

    :param exits: messages about tasks that ended, of all tasks of the machine; None if unknown
    :param lost: messages that the kernel dropped; None if unknown
    :param left_out: tasks that were too many to be stored
    :param unresolved: tasks whose parent was not found
    :param commands: names of the workload's tasks; None if not recorded
    :param exec_s: CPU time as far as it was accounted when a task ended
    :param user_s: CPU time in user mode by ticks; None if unknown, as ``system_s`` and the faults
    :param others_cpu_s: CPU time of other commands; None if the tasks are all tasks
    :param server: what a server of the workload used; None without one
    """

    schema: str
    exits: Count | None = None
    lost: Count | None
    left_out: Count
    unresolved: Count
    tasks: Count
    lifetime_s: Seconds
    exec_s: Seconds
    waiting_s: Seconds
    recorder_cpu_s: Annotated[float, Meta(ge=-1e12, le=1e12)]
    others: Annotated[tuple[Other, ...], Meta(max_length=MOST_OTHERS)]
    user_s: Seconds | None = None
    system_s: Seconds | None = None
    minor_faults: Count | None = None
    major_faults: Count | None = None
    others_cpu_s: Seconds | None = None
    commands: Annotated[tuple[Sentence, ...], Meta(max_length=MOST_COMMANDS)] | None = None
    server: ServerUse | None = None

    @property
    def ticks_s(self) -> float:
        """CPU time by ticks in s; 0 if unknown."""
        return (self.user_s or 0.0) + (self.system_s or 0.0)

    @property
    def blocked_s(self) -> float:
        """Time that the tasks were neither running nor waiting for a CPU."""
        return max(0.0, self.lifetime_s - self.exec_s - self.waiting_s)


class _Collected(AccountFile, frozen=True, kw_only=True):
    schema: Literal["schedperf/account/1"]
    user_s: Seconds
    system_s: Seconds
    minor_faults: Count
    major_faults: Count
    others_cpu_s: Seconds


class _Traced(AccountFile, frozen=True, kw_only=True):
    schema: Literal["schedperf/traced_account/1"]


def parse_account(content: bytes, where: str) -> AccountFile:
    """Parse account.json.

    :param where: bundle and member, for messages
    :raises BundleError: the file is damaged
    """
    return decode(content, _Collected, where)


def _parse_traced(content: bytes, where: str) -> AccountFile:
    return decode(content, _Traced, where)


def read_account(side: Side, run: Run) -> AccountFile | None:
    """Return the account of a run; None if it has none.

    :raises InputError: the file is damaged
    """
    for file, parse in ((FILE, parse_account), (TRACED_FILE, _parse_traced)):
        name = f"{run.folder}/{FOLDER}/{file}"
        if side.bundle.size(name) is not None:
            content = side.bundle.read(name, LARGEST_BYTES)
            return parse(content, f"{side.bundle.path}: {name}")
    return None


@COMMANDS.provide
def commands_of_tasks(side: Side, run: Run) -> Sequence[str] | None:
    """Return the names of the workload's tasks in a run; None if not recorded or damaged."""
    try:
        file = read_account(side, run)
    except InputError:
        # The section of the account reports the error.
        return None
    return None if file is None else file.commands


def has_short_tasks(
    usage: Mapping[str, float], account: AccountFile, ticks_per_s: int | None
) -> bool:
    """Return whether the tasks have too few ticks each for their division into user and system.

    :param usage: as for :func:`parts_of`
    :param ticks_per_s: CONFIG_HZ of the kernel; None if unknown
    """
    cpu_s = usage["utime_s"] + usage["stime_s"]
    return ticks_per_s is None or cpu_s * ticks_per_s < LEAST_TICKS * account.tasks


def parts_of(
    usage: Mapping[str, float], account: AccountFile | None, *, by_ticks: bool
) -> dict[Part, float]:
    """Return the thread-time of a run in s, by part; parts that were not measured are left out.

    The tasks of a server of the workload are included.

    :param usage: the resource usage of run.json: "utime_s" and "stime_s", or only their sum "cpu_s"
    :param by_ticks: whether the ticks of all tasks together divide the CPU time
    """
    if "cpu_s" in usage:
        return {"cpu": usage["cpu_s"], **({} if account is None else _not_running(account))}
    user_s, system_s = usage["utime_s"], usage["stime_s"]
    if account is None:
        return {"user": user_s, "system": system_s}
    cpu_s, ticks_s = user_s + system_s, account.ticks_s
    # Without any record, e.g. because all messages were lost, nothing is known of exiting tasks.
    exiting_s = max(0.0, cpu_s - account.exec_s) if account.tasks else 0.0
    if by_ticks and ticks_s > 0.0:
        # This order of operations never exceeds the CPU time.
        user_s = (cpu_s - exiting_s) * ((account.user_s or 0.0) / ticks_s)
        system_s = cpu_s - user_s
    exiting_s = min(exiting_s, system_s)
    parts: dict[Part, float] = {
        "user": user_s,
        "system": system_s - exiting_s,
        "exiting": exiting_s,
        **_not_running(account),
    }
    if account.server is None:
        return parts
    return {part: seconds + account.server.parts[part] for part, seconds in parts.items()}


def _not_running(account: AccountFile) -> dict[Part, float]:
    return {"waiting": account.waiting_s, "blocked": account.blocked_s}
