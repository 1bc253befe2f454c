# SPDX-License-Identifier: GPL-2.0-or-later
"""Nights of a machine made of processes: recorded, compared, retested, killed, and continued."""

import os
from datetime import datetime, timedelta

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.store.requests import open_requests
from schedperf.lab.night.state import AFTER, STEPS
from tests.schedperf.lab.night.machines import Lab, kill

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]


@pytest.mark.slow
def test_planted_regression_is_reproduced_in_spite_of_kills(lab: Lab) -> None:
    lab.write_mails()
    night = lab.start()
    lab.await_boot("2*/night")
    kill(night)
    for name in ("compare", "history", "requests"):
        night = lab.start()
        lab.await_step(name)
        kill(night)
    night = lab.start()
    lab.await_boot("requests/*/*/retest")
    kill(night)
    night = lab.start()
    lab.await_step("publish")
    kill(night)
    status, errors = lab.run()
    assert status == 0, errors
    (state,) = lab.states()
    assert state["outcome"].startswith("regression: score: worse: +")
    assert state["verdict"] == "regression"
    assert not state["failed"]
    assert "score: worse: +" in state["steps"]["compare"]["result"]
    assert state["notes"] == []
    assert lab.count_runs("2*/night-base") == lab.count_runs("2*/night-new") == 4
    for name in ("base", "new"):
        assert lab.count_runs(f"requests/*/lab/retest-{name}") >= 8
    with open_history(lab.out / "history") as history:
        [series] = history.series()
        [stored] = history.nights(series)
        [step] = history.steps()
        requests = open_requests(history.database)
    assert (stored.new_boots, stored.reference_boots) == (2, 2)
    assert (step.state, step.direction) == ("range known", "worse")
    # The lab has no repository.
    assert [each.request.kind for each in requests] == ["bisect"]
    assert (lab.out / "steps" / step.id / "culprit.json").exists()
    # The machine is free, and runs its default kernel.
    assert (lab.machine.folder / "release").read_text() == "one\n"
    assert not (lab.machine.folder / "lib/schedperf/boots/claim.json").exists()
    (mail,) = (lab.folder / "outbox").glob("held/*report*.eml")
    assert "score" in mail.read_text()
    assert list((lab.out / "pages").glob("r/*/index.html"))
    assert (
        'href="https://lab.example/schedperf/atom.xml"'
        in (lab.out / "pages" / "atom.xml").read_text()
    )
    screen = lab.status()
    assert screen.returncode == 0
    assert max(map(len, screen.stdout.splitlines())) <= 80
    assert "4 of 4 boots" in screen.stdout
    assert "request: bisect" in screen.stdout
    assert "tree.repo is not set" in " ".join(screen.stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="/proc/cpuinfo has another form")
def test_emulated_night_acts_only_if_the_lab_says_so(lab: Lab) -> None:
    lab.write_mails()
    lab.emulate()
    status, errors = lab.run()
    assert status == 0, errors
    (state,) = lab.states()
    assert state["outcome"].startswith("emulated, so no verdict; slower: score +")
    assert "plan.act_on_emulated is not set" in state["outcome"]
    assert state["steps"]["history"]["result"] == "steps: none new"
    assert state["verdict"] is None
    lab.write_job(plan="act_on_emulated = true\n")
    status, errors = lab.run("--again")
    assert status == 0, errors
    with open_history(lab.out / "history") as history:
        [step] = history.steps()
        states = [each.state for each in history.step_changes(step.id)]
    assert states[:2] == ["suspected", "reproduced"]
    assert "hardware" in lab.states()[-1]["steps"]["draft"]["result"].partition(" by: ")[2].split(
        ", "
    )
    (path,) = (lab.folder / "outbox").glob("held/*report*.json")
    assert "emulat" in path.read_text()


def test_one_night_at_a_time_and_a_signal(lab: Lab) -> None:
    lab.slow("none")
    lab.write_job(boots=1)
    # The second boot waits, so that the recording is not over before the status is read.
    hold = lab.machine.folder / "hold"
    hold.touch()
    wait = '[ "$n" -le 2 ] || while [ -e "$MACHINE/hold" ]; do sleep 0.05; done\nscore='
    lab.program.write_text(lab.program.read_text().replace("score=", wait, 1))
    night = lab.start()
    lab.await_boot("2*/night")
    status, errors = lab.run()
    assert status == 2
    assert "another night runs (process" in errors
    assert lab.run("--unfinished") == (0, "")
    screen = lab.status().stdout
    # The second boot may have begun.
    assert "1 of 2 boots" in screen or "2 of 2 boots" in screen
    assert "running: record: boot the kernels alternately" in screen
    hold.unlink()
    night.terminate()
    _, errors = night.communicate()
    assert night.returncode == 143
    assert errors.splitlines()[-1].startswith("schedperf: error: interrupted; run the night again")
    (state,) = lab.states()
    assert state["steps"]["record"]["failures"] == 0
    assert "go on with: schedperf night run" in lab.status().stdout
    status, errors = lab.run("--unfinished")
    assert status == 0, errors
    (state,) = lab.states()
    assert list(state["steps"]) == [*STEPS]
    assert state["outcome"].startswith("inconclusive")
    assert lab.run("--unfinished") == (0, "")
    assert len(lab.states()) == 1


def test_same_kernels_as_in_the_night_before(lab: Lab) -> None:
    lab.install_kernels()
    lab.slow("none")
    lab.write_job(boots=1)
    status, errors = lab.run()
    assert status == 0, errors
    status, errors = lab.run()
    assert status == 0, errors
    first, second = lab.states()
    assert list(second["steps"]) == ["prepare", *AFTER]
    assert not second["failed"]
    assert second["outcome"].startswith(
        f"same kernels as in the night {first['id']} (base one, new two), so nothing is recorded"
    )
    # The night before has no result of its own, but stands for the one before it.
    assert lab.run()[0] == 0
    assert list(lab.states()[-1]["steps"]) == ["prepare", *AFTER]
    night = lab.start("--again")
    lab.await_step("record", of=3)
    kill(night)


def test_kernel_that_does_not_boot_is_a_lost_night(lab: Lab) -> None:
    lab.write_job(boots=1)
    (lab.machine.folder / "broken").write_text("two\n")
    status, errors = lab.run()
    assert status == 1
    assert "failed in record" in errors
    assert "one booted, expected two" in errors
    (state,) = lab.states()
    assert state["failed"]
    assert lab.status().returncode == 1
    log = (lab.out / "history" / "decisions.jsonl").read_text()
    assert f'"night":"{state["id"]}","outcome":"failed in record: ' in log


def test_night_that_cannot_be_added_to_the_history_says_how(lab: Lab) -> None:
    lab.out.mkdir()
    (lab.out / "history").write_text("")
    # Three tries of the night, whose last one also tries to add it.
    assert [lab.run_here()[0] for _ in range(4)] == [75, 75, 75, 75]
    assert "running: history" not in lab.status().stdout
    assert "not running; next: history: add the night to the history" in lab.status().stdout
    status, errors = lab.run_here()
    assert status != 0
    (state,) = lab.states()
    assert state["outcome"].startswith("failed in prepare: ssh:root@lab: not reachable")
    [note] = state["notes"]
    assert note.startswith("history: given up: ")
    assert f"schedperf history add --store {lab.out}/history {lab.out}/2" in note
    assert note in errors
    # A long path is wrapped.
    assert "".join(note.split()) in "".join(lab.status().stdout.split())


def test_outside_the_hours_nothing_is_booted(lab: Lab) -> None:
    begin = datetime.now() + timedelta(hours=2)  # noqa: DTZ005 # hours are local
    hours = f"{begin:%H:%M}-{begin + timedelta(hours=1):%H:%M}"
    lab.write_job(machine=f'hours = "{hours}"\n')
    for _ in range(4):
        status, errors = lab.run()
        assert status == 1, errors
        assert f"lab: outside its hours ({hours})" in errors
    (state,) = lab.states()
    assert state["outcome"] is None
    assert not list(lab.out.glob("2*/night*"))
    assert "waiting" in lab.status().stdout


def test_program_that_changes_during_the_night(lab: Lab) -> None:
    lab.write_job(boots=1)
    night = lab.start()
    lab.await_boot("2*/night")
    lab.program.write_text(lab.program.read_text() + "# another one\n")
    _, errors = night.communicate()
    assert night.returncode == 1, errors
    assert "the program changed on lab during the night" in errors
    (state,) = lab.states()
    assert state["failed"]
    assert lab.count_runs("2*/night-base") == 2


def test_unreachable_machine_ends_the_third_try(lab: Lab) -> None:
    for status in (75, 75, 1):
        found, errors = lab.run_here()
        assert found == status
        assert "ssh:root@lab: not reachable" in errors
    (state,) = lab.states()
    assert state["failed"]
    assert state["outcome"].startswith("failed in prepare")


@pytest.mark.slow
def test_disk_that_fills_stops_the_recording(lab: Lab) -> None:
    lab.out.mkdir()
    lab.run_there("mount", "-t", "tmpfs", "-o", "size=64m", "none", str(lab.out))
    night = lab.start()
    lab.await_there(f"{lab.out}/*/night.boots/state.json")
    lab.run_there("dd", "if=/dev/zero", f"of={lab.out}/old", "bs=1M", "count=59")
    _, errors = night.communicate()
    # The steps after the result wait for space.
    assert night.returncode == 75, errors
    assert "of the disk free (expected 10% or more)" in errors
    assert "boots recorded" in errors
