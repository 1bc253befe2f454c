# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs whose tasks were accounted, and rows of what their section says."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.account.record import Account, AccountRow, Kind
from schedperf.evidence.account.section import account

Analyse = Callable[..., Account]
Run = dict[str, Any]

# Times of a run in s: 1 s on CPUs, 3 s waiting, 1 s blocked.
FILE: Mapping[str, Any] = {
    "schema": "schedperf/account/1", "lost": 0, "left_out": 0, "unresolved": 0, "tasks": 4,
    "lifetime_s": 5.0, "exec_s": 1.0, "waiting_s": 3.0, "user_s": 0.2, "system_s": 0.8,
    "minor_faults": 10, "major_faults": 0, "recorder_cpu_s": 0.1, "others_cpu_s": 0.5,
    "others": [{"command": "kworker/0:1", "cpu_s": 0.3}],
}  # fmt: skip


# A server on CPUs for 2 s.
SERVER: Mapping[str, Any] = {
    "tasks": 6, "lifetime_s": 12.0, "exec_s": 2.0, "waiting_s": 4.0, "user_s": 0.6,
    "system_s": 0.2, "minor_faults": 7, "major_faults": 1,
}  # fmt: skip


def write_account(**changes: Any) -> str:
    """Return account.json."""
    return json.dumps({**FILE, **changes})


WAITS: Mapping[str, Any] = {
    "schema": "schedperf/bpf_account/1", "seconds": 1.5, "tasks": 4, "left_out": 0,
    "unfinished": 0, "missed": 0, "migrations": 7,
}  # fmt: skip
# How often tasks waited, or were blocked, for each reason.
EVENTS = 100


def write_waits(
    *,
    preempted: float | None = 2.0,
    woken: float | None = 1.0,
    yielded: float | None = 0.0,
    throttled: float | None = 0.0,
    io: float = 0.25,
    other: float = 0.75,
    **changes: Any,
) -> str:
    """Return waits.json with these times in s; the kernel does not show those that are None."""
    times = {
        "preempted": preempted, "woken": woken, "yielded": yielded, "throttled": throttled,
        "io": io, "other": other,
    }  # fmt: skip
    parts = {
        name: None if time_s is None else {"seconds": time_s, "count": EVENTS}
        for name, time_s in times.items()
    }
    return json.dumps({**WAITS, "parts": parts, **changes})


def divided_run(**waits: Any) -> Run:
    """Return an instrumented run with 1 s on CPUs, and with these waits."""
    files = {"bpf_account/waits.json": write_waits(**waits)}
    return {"kind": "instrumented", "rusage": usage_of(0.2, 0.8), "files": files}


def divided_runs(part: str, values: Sequence[float], **waits: Any) -> list[Run]:
    """Return instrumented runs of which one reason has these times in s."""
    return [divided_run(**{part: value}, **waits) for value in values]


def usage_of(user_s: float, system_s: float) -> dict[str, float]:
    return {
        "utime_s": user_s, "stime_s": system_s, "maxrss_bytes": 4096, "minflt": 10, "majflt": 0,
        "nvcsw": 50, "nivcsw": 5,
    }  # fmt: skip


def run_of(
    *,
    user: float = 0.2,
    system: float = 0.8,
    waiting: float | None = 3.0,
    blocked: float = 1.0,
    changes: Mapping[str, Any] | None = None,
    **others: Any,
) -> Run:
    """Return a run of bundles; without account.json if ``waiting`` is None.

    :param changes: to account.json
    """
    run = {"rusage": usage_of(user, system), **others}
    if waiting is None:
        return run
    times = {
        "lifetime_s": user + system + waiting + blocked, "exec_s": user + system,
        "waiting_s": waiting, "user_s": user, "system_s": system,
    }  # fmt: skip
    return {**run, "files": {"account/account.json": write_account(**times, **(changes or {}))}}


def runs_of(part: str, values: Sequence[float], **others: Any) -> list[Run]:
    """Return runs of which one part of the time has these values in s."""
    return [run_of(**{part: value, **others}) for value in values]


def row_of(data: Account, kind: Kind, **fields: object) -> AccountRow:
    """Return the row of a kind."""
    [row] = [
        row
        for row in data.rows
        if row.kind == kind and all(getattr(row, name) == value for name, value in fields.items())
    ]
    return row


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(account)
