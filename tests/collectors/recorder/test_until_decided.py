# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder's side of ``--until-decided``: what it asks, and what it makes of the answers."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from schedperf.commands._zipapp import write_zipapp
from schedperf.inputs.bundle.open import open_bundle

pytestmark = pytest.mark.system

# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 120

QUICK = ("--warmup", "1", "--with", "none")
GO_ON = {"answer": "continue", "text": "open: rate", "warnings": []}
STOP = {"answer": "stop", "text": "decided: rate", "warnings": []}
LOST = {"answer": "lost", "text": "base.tar: is gone", "warnings": []}
SILENT: Mapping[str, object] = {}
DIGEST = "ab" * 32


class Talk:
    """A recorder that asks, and answers to it: the n-th look gets the n-th answer."""

    def __init__(self, recorder: Any, *options: str, workload: Sequence[str] = ("true",)) -> None:
        self.asked: list[Any] = []
        asked, ask = os.pipe()
        told, tell = os.pipe()
        self._questions = os.fdopen(asked, encoding="utf-8")
        self._answers = os.fdopen(tell, "wb", 0)
        head = ("record", "-o", "new.tar", "--until-decided", "--against", "base.tar")
        self.process: subprocess.Popen[str] = recorder.start(
            *head,
            *("--ask-fd", f"{told},{ask}"),
            *(*QUICK, *options),
            *("--", *workload),
            pass_fds=(told, ask),
        )
        os.close(ask)
        os.close(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._questions.close()
        self._answers.close()
        self.process.communicate(timeout=LONGEST_WAIT_S)

    def answer(self, *looks: Mapping[str, object], begin: Any = None, host: Any = None) -> None:
        """Answer until the recorder asks no more, or until an answer is ``SILENT``."""
        left = iter(looks)
        for line in self._questions:
            question = json.loads(line)
            self.asked.append(question)
            answer = {"begin": begin or {**GO_ON, "digest": DIGEST}, "host": host or GO_ON}.get(
                question["ask"]
            ) or next(left, GO_ON)
            if answer is SILENT:
                return
            self._answers.write(json.dumps(answer).encode() + b"\n")

    def leave(self) -> None:
        """Go without an answer, as who is killed does."""
        self._answers.close()

    def end(self) -> str:
        """Wait for the recorder's end; return what it said."""
        _, err = self.process.communicate(timeout=LONGEST_WAIT_S)
        assert "Traceback" not in err
        return err


@pytest.fixture
def talk(recorder: Any) -> Callable[..., Talk]:
    def start(*options: str, workload: Sequence[str] = ("true",)) -> Talk:
        return Talk(recorder, *options, workload=workload)

    return start


def test_it_looks_after_each_block_from_the_third_on(
    talk: Callable[..., Talk], recorder: Any, read_bundle: Any
) -> None:
    with talk("--max-runs", "9", "--point", "x=1,2", workload=("echo", "{x}")) as talking:
        talking.answer(GO_ON, GO_ON, STOP)
        err = talking.end()
    assert talking.process.returncode == 0
    assert [one["ask"] for one in talking.asked] == ["begin", "host", "look", "look", "look"]
    assert [one["runs"] for one in talking.asked[2:]] == [3, 4, 5]
    begun = talking.asked[0]
    assert (begun["against"], begun["workload"]) == ("base.tar", "echo {x}")
    assert (begun["points"], begun["max_runs"]) == (["x=1", "x=2"], 9)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    host = {"ask": "host", "partial": "new.tar.partial", "vary": [], "boot_id": boot_id}
    assert talking.asked[1] == host
    # Two of each block and the two that warm up.
    assert err.splitlines()[1].startswith("run 1 of at most 20 x=")
    assert ", at most " in err.splitlines()[1]
    assert "interim test after 4 runs: open: rate\n" in err
    assert "interim test after 5 runs: decided: rate\nnew.tar: 10 runs" in err
    written = read_bundle(recorder.folder / "new.tar")
    plan = {"against": DIGEST, "first": 3, "max_runs": 9}
    assert written.manifest["sequential"] == {
        **plan,
        "looks": [3, 4, 5],
        "stopped": "decided: rate",
    }
    assert all(run["sequential"] == plan for run in written.runs)
    assert written.manifest["complete"] is True
    assert written.manifest["planned_runs"] == 10


def test_the_budget_ends_it_and_the_last_look_is_taken(
    talk: Callable[..., Talk], recorder: Any
) -> None:
    with talk("-n", "4", "--max-runs", "5", "--point", "x=1,2", workload=("echo", "{x}")) as it:
        it.answer()
        it.end()
    bundle = open_bundle(recorder.folder / "new.tar")
    assert bundle.sequential is not None
    assert bundle.sequential.looks == (4, 5)
    assert bundle.sequential.stopped == "all 5 runs were made; open: rate"
    assert bundle.complete
    assert bundle.planned_runs == 10


def test_no_runs_are_made_against_a_base_that_is_refused(
    talk: Callable[..., Talk], recorder: Any
) -> None:
    refused = {"answer": "refuse", "text": "base.tar: is no bundle; give one", "warnings": []}
    with talk() as talking:
        talking.answer(begin=refused)
        assert talking.end() == "schedperf: error: base.tar: is no bundle; give one\n"
    assert talking.process.returncode == 2
    assert [path.name for path in recorder.folder.iterdir()] == ["tmp"]


def test_a_machine_that_cannot_be_compared_leaves_nothing_behind(
    talk: Callable[..., Talk], recorder: Any
) -> None:
    refused = {"answer": "refuse", "text": "base.tar: cpu.model differs", "warnings": []}
    with talk() as talking:
        talking.answer(host=refused)
        assert talking.end().endswith("schedperf: error: base.tar: cpu.model differs\n")
    assert talking.process.returncode == 4
    assert [path.name for path in recorder.folder.iterdir()] == ["tmp"]


def test_a_warning_at_the_start_is_shown_also_when_quiet(talk: Callable[..., Talk]) -> None:
    warned = {**GO_ON, "warnings": ["base.tar: base has 5 runs"], "digest": DIGEST}
    with talk("-q") as talking:
        talking.answer(STOP, begin=warned)
        assert talking.end() == "schedperf: warning: base.tar: base has 5 runs\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LOST, "base.tar: is gone"),
        ({"answer": "stop"}, "the comparison process has exited"),
        ({"answer": "stop", "text": "x", "warnings": 3}, "the comparison process has exited"),
    ],
)
def test_looks_that_fail_do_not_end_the_recording(
    talk: Callable[..., Talk], recorder: Any, answer: Mapping[str, object], why: str
) -> None:
    with talk("--max-runs", "6") as talking:
        talking.answer(GO_ON, answer, STOP)
        err = talking.end()
    assert talking.process.returncode == 0
    assert [one["runs"] for one in talking.asked[2:]] == [3, 4]
    assert f"schedperf: warning: no further interim tests: {why}; recording all 6 runs\n" in err
    bundle = open_bundle(recorder.folder / "new.tar")
    assert bundle.sequential is not None
    assert bundle.sequential.looks == (3,)
    assert bundle.sequential.stopped == f"no further interim tests: {why}"
    assert bundle.complete
    assert bundle.planned_runs == 6


def test_it_records_on_when_nobody_answers_any_more(
    talk: Callable[..., Talk], recorder: Any
) -> None:
    with talk("--max-runs", "5") as talking:
        talking.answer(SILENT)
        talking.leave()
        err = talking.end()
    assert (
        "warning: no further interim tests: the comparison process has exited; recording all 5 runs"
        in err
    )
    assert len(open_bundle(recorder.folder / "new.tar").runs) == 6


def test_an_interrupt_ends_the_wait_for_an_answer(talk: Callable[..., Talk], recorder: Any) -> None:
    with talk() as talking:
        talking.answer(GO_ON, SILENT)
        talking.process.send_signal(signal.SIGINT)
        err = talking.end()
    assert talking.process.returncode == 130
    assert err.endswith("interrupted after 4 of 30 runs; finished runs are in new.tar\n")
    bundle = open_bundle(recorder.folder / "new.tar")
    assert bundle.sequential is not None
    assert (bundle.sequential.looks, bundle.sequential.stopped) == ((3,), None)
    assert bundle.complete is False


def test_a_workload_that_stays_behind_keeps_no_one_waiting(
    talk: Callable[..., Talk], tmp_path: Path
) -> None:
    left = tmp_path / "left"
    stay = f"os.setsid(); open('{left}', 'a').write(str(os.getpid()) + chr(10)); time.sleep(3600)"
    program = f"import os, time\nif not os.fork(): {stay}"
    with talk(workload=("python3", "-c", program)) as talking:
        # Ends at the recorder's end, not at that of what its workload left.
        talking.answer(STOP)
        assert talking.process.wait(timeout=LONGEST_WAIT_S) == 0
    pids = left.read_text().split()
    assert pids
    assert not [pid for pid in pids if Path("/proc", pid).exists()]


def test_looks_survive_in_what_a_killed_recorder_leaves_and_in_what_is_appended(
    talk: Callable[..., Talk], recorder: Any
) -> None:
    with talk("--max-runs", "12") as talking:
        talking.answer(GO_ON, SILENT)
        talking.process.kill()
        talking.end()
    partial = open_bundle(recorder.folder / "new.tar.partial")
    assert partial.sequential is not None
    assert partial.sequential.max_runs == 12
    assert partial.sequential.looks is None
    (recorder.folder / "new.tar.partial").unlink()
    with talk("--force", "--max-runs", "12") as talking:
        talking.answer(STOP)
        talking.end()
    assert (
        recorder("record", "--append", "new.tar", *QUICK, "-n", "1", "--", "true").returncode == 0
    )
    grown = open_bundle(recorder.folder / "new.tar")
    assert grown.sequential is not None
    assert (grown.sequential.looks, len(grown.runs)) == ((3,), 6)


def test_instrumented_runs_do_not_grow_with_the_budget(
    recorder_with: Callable[[str], Any],
) -> None:
    recorder = recorder_with(
        '''
@collector(scope="run", cost="nothing", intrusive=True)
def heavy(capture):
    """Weigh what runs."""
    (capture.folder / "weight").touch()
    yield
'''
    )
    with Talk(recorder, "--with", "heavy", "--max-runs", "8") as talking:
        talking.answer(GO_ON, GO_ON, STOP)
        talking.end()
    kinds = [run.kind for run in open_bundle(recorder.folder / "new.tar").runs if not run.warmup]
    assert (kinds.count("clean"), kinds.count("instrumented")) == (5, 3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--against", "a.tar"), "--against: only valid with --until-decided; add"),
        (("--max-runs", "9"), "--max-runs: only valid with --until-decided; add"),
        (("--until-decided",), "--until-decided: no bundle to compare with"),
        (
            ("--until-decided", "--against", "./b.tar"),
            "b.tar: given to both -o and --against; give another -o FILE",
        ),
        (
            ("--until-decided", "--against", "a.tar"),
            "--until-decided: not available in the recorder",
        ),
    ],
)
def test_a_slip_is_one_clear_line(
    recorder: Any, arguments: tuple[str, ...], complaint: str
) -> None:
    done = recorder("record", "-o", "b.tar", *arguments, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in recorder.folder.iterdir()] == ["tmp"]


@pytest.mark.parametrize(
    "numbers",
    [("-n", "2"), ("--max-runs", "2"), ("-n", "31"), ("--max-runs", "101"), ("--max-runs", "0")],
)
def test_numbers_that_make_no_looks_are_refused(recorder: Any, numbers: tuple[str, ...]) -> None:
    looks = ("--until-decided", "--against", "a.tar", "--ask-fd", "0,1")
    done = recorder("record", "-o", "b.tar", *looks, *numbers, "--", "true")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "out of range (expected 3 <= n <= max-runs <=" in done.stderr or (
        "invalid number '0'" in done.stderr
    )


def test_a_bundle_that_grows_cannot_be_looked_at(recorder: Any) -> None:
    done = recorder(
        *("record", "--append", "b.tar", "--until-decided", "--against", "a.tar", "--", "true")
    )
    assert done.returncode == 2
    assert (
        "--append: cannot be combined with --until-decided, because interim tests are planned "
        "before the first run"
    ) in done.stderr


def test_the_zipapp_says_what_to_do_instead(tmp_path: Path) -> None:
    program = tmp_path / "collect.pyz"
    write_zipapp(program)
    looks = ("--until-decided", "--against", "a.tar")
    done = subprocess.run(
        ["python3", "-I", str(program), "record", "-o", "b.tar", *looks, "--", "true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "--until-decided: not available in the recorder" in done.stderr
