# SPDX-License-Identifier: GPL-2.0-or-later
"""A collector that never returns costs its own capture, and nothing else of a recording."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle

pytestmark = pytest.mark.system

COLLECTORS = '''
from schedperf_collectors.plugin import BEGUN, PREPARED
from schedperf_collectors.recorder.isolate import Isolated

# The real limits are minutes; these are enough for a loaded machine.
Isolated.__init__.__kwdefaults__.update(startup_limit_s=8.0, finish_limit_s=8.0)


def hang(step):
    """Ignore SIGTERM, with a child in a session of its own that does so, too."""
    # The trial before the first run finds no file.
    if step != STEP or os.path.exists("tried") == IN_TRIAL:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; while :; do sleep 1414.21; done"])
    while True:
        time.sleep(100)


@collector(scope="run", cost="nothing", intrusive=True)
def hanging(capture):
    """Hang in a step."""
    hang("start")
    yield PREPARED
    hang("begin")
    yield BEGUN
    hang("stop")
    (capture.folder / "text").write_text("ended")


@collector(scope="run", cost="nothing", intrusive=True)
def whole(capture):
    """Return at once."""
    yield
    (capture.folder / "text").write_text("whole\\n")


@collector(scope="boot", cost="nothing")
def boot(capture):
    """Hang before the first run."""
    hang("boot")
    (capture.folder / "text").write_text("boot\\n")
'''


CHANGING = '''
import pathlib
from schedperf_collectors.machine.changed import changed_for_now


@collector(scope="run", cost="nothing", intrusive=True)
def changing(capture):
    """Hang while a setting is changed."""
    with changed_for_now(pathlib.Path("setting"), b"changed"):
        yield
        (capture.folder / "text").write_text("changed")
        hang("stop")
'''


STEPS = ("start", "begin", "stop")


@pytest.mark.parametrize(
    ("step", "in_trial"),
    [("boot", True), *((step, in_trial) for step in STEPS for in_trial in (True, False))],
)
def test_a_collector_that_never_returns_is_ended_and_said_once(
    recorder_with: Callable[[str], Any],
    is_running: Callable[[str], bool],
    read_bundle: Callable[[Path], Any],
    step: str,
    in_trial: bool,  # noqa: FBT001 # a parameter of the test
) -> None:
    source = COLLECTORS.replace("STEP", repr(step)).replace("IN_TRIAL", str(in_trial))
    recorder = recorder_with(source)
    how = ("record", "-o", "b.tar", "-n", "1", "--instrumented", "2", "--warmup", "0")
    done = recorder(*how, "--", "sh", "-c", "touch tried; echo result")
    assert done.returncode == 0
    [line] = [line for line in done.stderr.splitlines() if "hung" in line]
    if in_trial:
        name = "boot" if step == "boot" else "hanging"
        assert line == f"{name} failed: the collector hung and was killed"
    else:
        killed = "the collector hung and was killed; the next runs are recorded without it"
        assert line == f"schedperf: warning: hanging: {killed}"
    assert not is_running("1414.21")
    bundle = open_bundle(recorder.folder / "b.tar")
    assert bundle.complete
    assert [bundle.read_text(f"{run.folder}/stdout") for run in bundle.runs] == ["result\n"] * 3
    instrumented = [run for run in bundle.runs if run.kind == "instrumented"]
    whole = [bundle.read_text(f"{run.folder}/whole/text") for run in instrumented]
    assert whole == ["whole\n"] * 2
    # It is not waited for again.
    failed = [
        capture
        for run in read_bundle(recorder.folder / "b.tar").runs
        for capture in run["captures"]
        if capture["collector"] == "hanging" and capture["status"] != "ok"
    ]
    assert len(failed) == (0 if in_trial else 1)


def test_what_a_hanging_collector_has_changed_is_restored(
    recorder_with: Callable[[str], Any], wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    source = (COLLECTORS + CHANGING).replace("STEP", "'stop'").replace("IN_TRIAL", "False")
    recorder = recorder_with(source)
    setting = recorder.folder / "setting"
    setting.write_text("before")
    how = ("record", "-o", "b.tar", "-n", "1", "--warmup", "0", "--with", "changing")
    done = recorder(*how, "--", "sh", "-c", "touch tried; cat setting")
    assert "warning: changing: the collector hung and was killed" in done.stderr
    wait_for(lambda: setting.read_text() == "before")
    bundle = open_bundle(recorder.folder / "b.tar")
    shown = {run.kind: bundle.read_text(f"{run.folder}/stdout") for run in bundle.runs}
    assert shown == {"clean": "before", "instrumented": "changed"}
