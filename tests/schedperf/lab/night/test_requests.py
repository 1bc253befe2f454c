# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests of a lab: which machine takes them, and why they wait."""

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from schedperf.history.questions.durations import Durations
from schedperf.history.store.directory import Directory, open_directory
from schedperf.history.store.requests import LEASE_S, Queue, make_request, open_requests
from schedperf.history.store.tables import LEASE
from schedperf.lab.night import requests
from schedperf.lab.night.lab import Lab, Machine, read_lab
from schedperf.lab.night.machine import Installed
from schedperf.lab.night.requests import Task, find_tasks, is_of_machine, owner_of, request_older
from schedperf.lab.night.state import NightKernel
from tests.histories import MACHINE
from tests.schedperf.history.test_suspects import SLOWER, Nights
from tests.schedperf.lab.night.test_steps import make_context

# Two machines of one class, as the nights of the store have been recorded.
TEXT = f"""\
[site]
store = "store"
[[machine]]
name = "one"
class = "{MACHINE}"
reach = "ssh:root@lab1"
HOURS
[[machine]]
name = "two"
class = "{MACHINE}"
jobs = []
reach = "ssh:root@lab2"
HOURS
[[tree]]
name = "tip"
older = "6.12.*"
BISECT
[[job]]
name = "hackbench"
run = ["hackbench", "-l", "100", "-g", "4"]
"""
Make = Callable[..., Lab]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that makes the lab, whose store has a suspected step."""
    nights = Nights(tmp_path)
    nights.watch(nights.add(0, SLOWER))

    def run(hours: str = "", bisect: str = "") -> Lab:
        hours = f'hours = "{hours}"' if hours else ""
        path = tmp_path / "lab.toml"
        path.write_text(TEXT.replace("HOURS", hours).replace("BISECT", bisect))
        return read_lab(path)

    return run


def _why(lab: Lab) -> list[str]:
    """Return for each machine the kind of the request that it would take, or why it waits."""
    directory = open_directory(lab.store)
    found = [find_tasks(lab, machine, directory) for machine in lab.machines]
    return [each.request.kind if isinstance(each, Task) else each.why for [each] in found]


def test_a_machine_of_the_class_takes_what_the_other_one_has_not(make: Make) -> None:
    lab = make()
    assert _why(lab) == ["retest", "retest"]
    directory = open_directory(lab.store)
    database = directory.database()
    [waiting] = open_requests(database)
    owner = owner_of(lab, lab.machines[0], waiting.request.id)
    assert Queue(database).take_request(waiting.request.id, owner, LEASE_S)
    # The runner itself goes on.
    assert _why(lab) == ["retest", "another runner has it"]
    with database.transaction() as connection:
        connection.execute(update(LEASE).values(until=time.time() - 1.0))
    # It died, and has not renewed its lease.
    assert _why(lab) == ["retest", "retest"]


def test_only_machines_of_the_class_take_a_request(make: Make) -> None:
    lab = make()
    [waiting] = open_requests(open_directory(lab.store).database())
    machine = lab.machines[0]
    assert is_of_machine(waiting.request, machine)
    other = Machine(name="2x4", reach="ssh:root@lab3")
    assert not is_of_machine(waiting.request, other)


@pytest.mark.parametrize(
    ("hours", "why"),
    [
        # Boots of the nights in the store are one minute apart.
        ("12:00-12:10", "32 boots take about 0.5 h, and 0.1 h of 12:00-12:10 are left"),
        ("12:00-18:00", "retest"),
        ("02:00-03:00", "outside the hours of one (02:00-03:00)"),
    ],
)
def test_what_does_not_fit_the_hours_waits(
    make: Make, hours: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(hours)

    class Noon(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Noon":
            del tz
            return cls(2026, 6, 2, 12, 1)

    monkeypatch.setattr(requests, "datetime", Noon)
    monkeypatch.setattr(
        requests, "read_durations", lambda *_: Durations(
            boot_s=50.0, runs_s={"hackbench -l 100 -g 4": 10.0}
        ),
    )  # fmt: skip
    assert _why(lab)[0] == why


def test_what_the_lab_cannot_do_waits_with_the_reason(make: Make) -> None:
    lab = make()
    lab.path.write_text(lab.path.read_text().replace('"100"', '"200"'))
    why = f"no job of {lab.path} records hackbench -l 100 -g 4"
    assert _why(read_lab(lab.path)) == [why, why]
    lab = make()
    directory = open_directory(lab.store)
    _request(directory, "fixed")
    [_, other] = find_tasks(lab, lab.machines[0], directory)
    assert other == requests.Waits(request=other.request, why="the lab cannot carry out a 'fixed'")


def test_the_older_reference_is_requested_once_a_month(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make()
    context = make_context(lab.path.parent, lab.path.read_text())
    directory = open_directory(lab.store)
    context.night.kernels = (NightKernel(name="base", release="6.18.0"),)
    installed = [Installed(release=release, installed_s=1) for release in ("6.12.1", "6.18.0")]
    monkeypatch.setattr(context.target, "kernels", lambda: installed)
    for night in ("2026-11-27", "2026-11-28", "2026-12-01"):
        context.night.id = night
        request_older(context, directory)
    found = [each.request for each in open_requests(directory.database())]
    older = [(each.machine, each.reference, each.new) for each in found if each.kind == "night"]
    assert older == [("one", "6.12.1", "6.18.0")] * 2
    installed.pop(0)
    context.night.id = "2027-01-01"
    request_older(context, directory)
    assert context.night.notes == ("tree.older: no installed kernel before 6.18.0 fits 6.12.*",)


def _request(directory: Directory, kind: str) -> None:
    make_request(
        directory, kind, machine=MACHINE, job="x", boots=1, why="x", say=pytest.fail  # type: ignore[arg-type]
    )  # fmt: skip
