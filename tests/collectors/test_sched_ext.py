# SPDX-License-Identifier: GPL-2.0-or-later
"""sched_ext: its files around a run, and runs that lost their scheduler."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors import sched_ext as sched_ext_module
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture
from schedperf_collectors.recorder.service import Service, ServiceFailed, Watched
from schedperf_collectors.sched_ext import (
    MOST_CHARACTERS,
    SchedulerWatch,
    State,
    capture_sched_ext,
    exit_reason,
    read_state,
)

FOLDER = "sys/kernel/sched_ext"
# As Linux 7.2.13 has them.
IDLE = {
    "state": "disabled\n",
    "enable_seq": "0\n",
    "switch_all": "0\n",
    "nr_rejected": "0\n",
    "hotplug_seq": "1\n",
}
LOADED = {
    **IDLE,
    "state": "enabled\n",
    "enable_seq": "1\n",
    "switch_all": "1\n",
    "root/ops": "fifo\n",
}

MakeSystem = Callable[[Mapping[str, str]], System]

# A scheduler: what the kernel does when it is loaded and ejected is done by the program itself.
PROGRAM = """\
#!/bin/sh
[ "$1" != --version ] || { echo "scx_fake 1.0.20"; exit; }
unload() {
    trap '' INT USR1
    echo disabled >$FAKE/state; rm -f $FAKE/root/ops; echo "EXIT: $1"; exit 0
}
trap 'unload "unregistered from user space"' INT
trap 'unload "runnable task stall (stall-me[258] failed to run for 2.692s)"' USR1
[ "$1" != --broken ] || { echo "Error: BPF program is too large" >&2; exit 1; }
mkdir -p $FAKE/root
echo $(($(cat $FAKE/enable_seq) + 1)) >$FAKE/enable_seq
echo fake >$FAKE/root/ops
echo $$ >$FAKE/pid
echo enabled >$FAKE/state
while :; do sleep 0.02; done
"""


def files(state: Mapping[str, str]) -> dict[str, str]:
    return {f"{FOLDER}/{name}": text for name, text in state.items()}


def captured(system: System, capture: Capture) -> tuple[Any, Any]:
    steps = capture_sched_ext(system, capture)
    next(steps)
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    return json.loads((capture.folder / "sched_ext.json").read_text()), end.value.value


def test_the_state_is_recorded_before_and_after(make_system: MakeSystem, capture: Capture) -> None:
    record, hint = captured(make_system(files(LOADED)), capture)
    assert record["before"] == record["after"] == {
        "state": "enabled",
        "enable_seq": "1",
        "ops": "fifo",
        "switch_all": "1",
        "nr_rejected": "0",
        "hotplug_seq": "1",
    }  # fmt: skip
    assert hint is None


def test_a_kernel_without_sched_ext_has_no_state(make_system: MakeSystem, capture: Capture) -> None:
    record, hint = captured(make_system({}), capture)
    assert set(record["before"].values()) == {None}
    assert "CONFIG_SCHED_CLASS_EXT=y" in hint


def test_hostile_texts_are_bounded(make_system: MakeSystem) -> None:
    texts = {"state": "x" * 10_000, "enable_seq": "", "root/ops": "a\0b\u202e\r\n\r\n"}
    state = read_state(make_system(files(texts)))
    assert state == State(state="x" * MOST_CHARACTERS, ops="a\0b\u202e")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", None),
        ("EXIT: \nstopped\n", None),
        ("EXIT: unregistered from user space", "unregistered from user space"),
        (
            "x\nEXIT: runtime error (invalid CPU 9)\r\nEXIT: later\n",
            "runtime error (invalid CPU 9)",
        ),
        ("12:00 [INFO] EXIT: disabled by sysrq-S\n", "disabled by sysrq-S"),
        ("BREXIT: no\n", None),
        ("EXIT: " + "x" * 1_000_000, "x" * 400),
    ],
)
def test_the_first_exit_reason_is_read(output: str, reason: str | None) -> None:
    assert exit_reason(output) == reason


def watch(
    make_system: MakeSystem, states: tuple[Mapping[str, str], ...], *command: str, **options: str
) -> tuple[SchedulerWatch, list[bool]]:
    """Let a watch see the states when it is made, when it is asked, before and after the run."""
    root = make_system({}).root
    made, ready, before, after = states

    def show(state: Mapping[str, str]) -> System:
        for name in (*IDLE, "root/ops"):
            path = root / FOLDER / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(state[name]) if name in state else path.unlink(missing_ok=True)
        return System(root)

    watching = SchedulerWatch(command, options, show(made))
    show(ready)
    answers = [watching.is_ready()]
    show(before)
    watching.begin()
    show(after)
    watching.end()
    answers.append(watching.is_over())
    return watching, answers


def test_a_scheduler_that_stays_is_kept(make_system: MakeSystem) -> None:
    watching, answers = watch(make_system, (IDLE, LOADED, LOADED, LOADED), "/opt/scx_fifo", "-v")
    assert watching.awaits == "sched_ext to be enabled"
    assert watching.why_discard("") is None
    # It is still there until it is stopped.
    assert answers == [True, False]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (IDLE | {"enable_seq": "1\n"}, "sched_ext: fifo -> disabled"),
        (LOADED | {"enable_seq": "2\n"}, "sched_ext: fifo -> fifo, enable_seq 1 -> 2"),
    ],
)
def test_a_scheduler_that_was_ejected_or_restarted_discards_the_run(
    make_system: MakeSystem, after: Mapping[str, str], said: str
) -> None:
    watching, _ = watch(make_system, (IDLE, LOADED, LOADED, after), "scx_fifo")
    assert watching.why_discard("no reason") == f"scx_fifo was ejected ({said})"
    reason = "runnable task stall (make[7] failed to run for 30.1s)"
    assert watching.why_discard(f"EXIT: {reason}\n") == f"scx_fifo was ejected ({reason})"


def test_an_ejection_before_the_workload_discards_the_run(make_system: MakeSystem) -> None:
    gone = IDLE | {"enable_seq": "1\n"}
    watching, _ = watch(make_system, (IDLE, LOADED, gone, gone), "scx_fifo")
    assert watching.why_discard("") == "scx_fifo was ejected (sched_ext: fifo -> disabled)"


def test_a_run_without_a_service_is_discarded_if_the_scheduler_changes(
    make_system: MakeSystem,
) -> None:
    watching, answers = watch(make_system, (IDLE, IDLE, IDLE, LOADED))
    assert (watching.awaits, answers) == (None, [True, True])
    assert watching.why_discard("") == (
        "another program changed the scheduler during the run (sched_ext: disabled -> fifo, "
        "enable_seq 0 -> 1)"
    )


def test_a_setup_may_load_a_scheduler(make_system: MakeSystem) -> None:
    watching, _ = watch(make_system, (IDLE, IDLE, LOADED, LOADED))
    assert watching.why_discard("") is None


def test_a_kernel_without_sched_ext_discards_nothing(make_system: MakeSystem) -> None:
    watching, answers = watch(make_system, ({}, {}, {}, {}))
    assert answers == [True, True]
    assert watching.why_discard("") is None


def test_a_loaded_scheduler_of_another_program_is_not_the_service(make_system: MakeSystem) -> None:
    _, answers = watch(make_system, (LOADED, LOADED, LOADED, LOADED), "scx_fifo")
    assert answers[0] is False


@pytest.mark.parametrize(
    ("command", "service", "is_scheduler"),
    [
        (("scx_lavd",), None, True),
        (("./my_sched",), None, False),
        (("./my_sched",), "yes", True),
        (("scx_loader",), "no", False),
        ((), "yes", False),
    ],
)
def test_a_scheduler_is_known_by_its_name_or_the_option(
    make_system: MakeSystem,
    command: tuple[str, ...],
    service: str | None,
    is_scheduler: bool,  # noqa: FBT001 # a parameter of the case
) -> None:
    options = {} if service is None else {"service": service}
    made = SchedulerWatch(command, options, make_system(files(IDLE)))
    assert (made.awaits is not None) == is_scheduler


def test_a_kernel_without_sched_ext_is_told_at_once(make_system: MakeSystem) -> None:
    message = r"--service scx_lavd: this kernel cannot load schedulers in BPF \(no /sys/kernel/"
    with pytest.raises(RecordError, match=message):
        SchedulerWatch(("scx_lavd",), {}, make_system({}))


def test_an_unclear_declaration_is_refused(make_system: MakeSystem) -> None:
    message = r"--set sched_ext.service: invalid value 'true' \(expected yes or no\)"
    with pytest.raises(RecordError, match=message):
        SchedulerWatch(("./my_sched",), {"service": "true"}, make_system({}))


@pytest.fixture
def fake(tmp_path: Path, make_system: MakeSystem, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the sysfs directory of a machine whose sched_ext the program ``scx_fake`` drives."""
    root = make_system(files(IDLE)).root
    monkeypatch.setattr(sched_ext_module, "System", lambda: System(root))
    monkeypatch.setenv("FAKE", str(root / FOLDER))
    program = tmp_path / "scx_fake"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return root / FOLDER


def run(tmp_path: Path, arguments: str = "", ejects: Path | None = None) -> Watched:
    """Watch a run with the service; it is ejected if ``ejects`` has its number."""
    folder = tmp_path / "output"
    folder.mkdir()
    with Watched("new", Service(f"{tmp_path}/scx_fake {arguments}"), folder, {}) as watched:
        watched.begin()
        if ejects is not None:
            os.kill(int((ejects / "pid").read_text()), signal.SIGUSR1)
            while (ejects / "state").read_text() != "disabled\n":
                pass
        watched.end()
    return watched


def test_the_recorder_waits_for_the_scheduler_and_for_its_end(tmp_path: Path, fake: Path) -> None:
    with signals:
        watched = run(tmp_path)
    assert (fake / "state").read_text() == "disabled\n"
    assert watched.why_discard() is None
    described = watched.describe()
    assert described is not None
    assert (described["version"], described["end"]) == ("scx_fake 1.0.20", "exit status 0")
    assert watched.output.read_text() == "EXIT: unregistered from user space\n"


def test_an_ejected_run_names_the_reason_of_the_kernel(tmp_path: Path, fake: Path) -> None:
    with signals:
        watched = run(tmp_path, ejects=fake)
    assert watched.why_discard() == (
        "scx_fake was ejected (runnable task stall (stall-me[258] failed to run for 2.692s))"
    )


def test_a_scheduler_that_does_not_load_stops_the_recording(tmp_path: Path, fake: Path) -> None:
    assert fake.is_dir()
    message = (
        r"service of new failed: waiting for sched_ext to be enabled, but the program ended \(exit "
        r"status 1: Error: BPF program is too large\); run it by hand to see why"
    )
    with signals, pytest.raises(ServiceFailed, match=message):
        run(tmp_path, "--broken")
