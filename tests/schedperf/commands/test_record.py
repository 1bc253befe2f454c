# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf record --until-decided``: real recordings that stop when they know enough."""

import contextlib
import io
import json
import os
import pty
import random
import shutil
import signal
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from tests.programs import Program

pytestmark = pytest.mark.system

RULE = ("--metric", "rate[1/s,higher]=rate: ([0-9.]+)")
QUIET = ("--with", "none", "--warmup", "0", "--seed", "1")
# Prints the next line of the file "values"; {x} tells the points apart and does nothing. The run
# that has the number in the file "hold" waits until there is another number in it.
SCRIPT = (
    "sleep $(cat pause); n=$(cat n); while test $n = $(cat hold); do sleep 0.05; done; "
    'echo $((n + 1)) >n; sed -n "$n"p values; : {x}'
)
POINTS = ("--point", "x=1")
# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 120

Prepare = Callable[..., None]


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """Say what the workload will print: numbers around a mean, with this standard deviation."""
    (tmp_path / "work").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))

    def write(mean: float = 1000.0, *, sd: float = 0.5, seed: int = 1) -> None:
        draw = random.Random(seed)  # noqa: S311 # noise, not a secret
        Path("values").write_text(
            "".join(f"rate: {draw.gauss(mean, sd * mean / 100.0):.4f}\n" for _ in range(400))
        )
        Path("n").write_text("1\n")

    Path("pause").write_text("0\n")
    Path("hold").write_text("none\n")
    write()
    return write


def arguments(*options: str, points: tuple[str, ...] = POINTS, script: str = SCRIPT) -> list[str]:
    return ["record", *options, *QUIET, *RULE, *points, "--", "sh", "-c", script]


def record_base(runs: int, points: tuple[str, ...] = POINTS) -> None:
    assert main(arguments("-q", "-o", "base.tar", "-n", str(runs), points=points)) == 0


def until_decided(*options: str, points: tuple[str, ...] = POINTS, script: str = SCRIPT) -> int:
    looks = ("-o", "new.tar", "--until-decided", "--against", "base.tar")
    return main(arguments(*looks, *options, points=points, script=script))


def start_until_decided(stderr: int) -> Program:
    looks = ("-o", "new.tar", "--until-decided", "--against", "base.tar", "--max-runs", "12")
    command = arguments(*looks)
    return Program(
        [sys.executable, "-m", "schedperf", *command],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        stderr=stderr,
    )


def hold_fifth_run_of_new() -> None:
    """Let nothing go on after four runs of new, which follow the ten of base."""
    Path("hold").write_text("15\n")


def read_until(descriptor: int, text: str) -> str:
    said = b""
    deadline = time.monotonic() + LONGEST_WAIT_S
    while text.encode() not in said:
        assert time.monotonic() < deadline, said
        data = os.read(descriptor, 65536)
        assert data, said
        said += data
    return said.decode()


def read_rest(descriptor: int) -> str:
    said = b""
    # On a terminal the end is an error.
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, 65536):
            said += data
    return said.decode()


def test_a_slower_workload_stops_early_with_a_regression(
    prepare: Prepare, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    record_base(10)
    prepare(700.0, seed=4)
    assert until_decided() == 0
    err = capfd.readouterr().err
    new = open_bundle(Path("new.tar"))
    assert new.sequential is not None
    assert new.sequential.against == open_bundle(Path("base.tar")).digest
    made = len(new.runs)
    # One row that was recorded in two blocks needs ten runs, whatever they print.
    assert made == 10
    assert new.sequential.looks == tuple(range(3, made + 1))
    assert f"interim test after {made} runs: decided: rate at x=1: regression, worse: -29.9%" in err
    needed = "no verdict is possible before run 10"
    assert f"interim test after 9 runs: open: rate at x=1 (1 of 1 rows); {needed}\n" in err
    assert new.complete
    assert list((tmp_path / "tmp").iterdir()) == []
    # Whoever compares later finds what the look found.
    (row,) = compare_bundles([open_bundle(Path("base.tar")), new]).rows
    assert row.verdict == "regression"
    assert row.reason in str(new.sequential.stopped)


def test_the_same_workload_stops_with_no_change(prepare: Prepare) -> None:
    record_base(10)
    prepare(seed=3)
    assert until_decided("--max-runs", "20") == 0
    new = open_bundle(Path("new.tar"))
    assert new.sequential is not None
    assert str(new.sequential.stopped).startswith("decided: rate at x=1: no-change, ")
    assert len(new.runs) < 20


def test_what_varies_too_much_ends_with_the_budget(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    prepare(sd=20.0)
    record_base(10)
    assert until_decided("-n", "10", "--max-runs", "12") == 0
    text = "interim test after 12 runs: all 12 runs were made; open: rate at x=1 (1 of 1 rows)"
    assert text in capfd.readouterr().err
    assert len(open_bundle(Path("new.tar")).runs) == 12


def test_a_sweep_stops_when_all_of_its_points_are_decided(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    points = ("--point", "x=1,2,3,4")
    record_base(5, points)
    prepare(700.0, seed=5)
    assert until_decided(points=points) == 0
    new = open_bundle(Path("new.tar"))
    assert new.sequential is not None
    # So many points show together that nothing drifted.
    assert len(new.runs) < 4 * 10
    assert new.sequential.stopped == "all 4 rows decided: 4 regression"
    assert "warning" not in capfd.readouterr().err


def test_a_base_that_can_never_decide_is_warned_of_and_given_up(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    record_base(5)
    prepare(seed=2)
    assert until_decided() == 0
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("schedperf: warning: base.tar: base has 5 runs, but sides recorded")
    assert lines[0].endswith("record at least 10 runs per side, or interleave with `schedperf ab`")
    undecided = "more runs would not give a verdict for rate at x=1 (1 of 1 rows)"
    assert f"interim test after 3 runs: {undecided}" in lines
    assert len(open_bundle(Path("new.tar")).runs) == 3


def test_a_base_that_cannot_be_used_is_refused_before_the_first_run(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    record_base(3)
    whole = Path("base.tar").read_bytes()

    def refused(text: str, *options: str, **kinds: object) -> None:
        assert until_decided(*options, **kinds) == 2  # type: ignore[arg-type] # as it takes them
        err = capfd.readouterr().err
        assert text in err
        assert err.startswith("schedperf: error: base.tar: ")
        assert err.count("\n") == 1
        assert not list(Path().glob("new.tar*"))

    refused("contains runs of 'sh -c", script=SCRIPT + "; true")
    refused(
        "0 runs of rate at x=2 (expected at least 3); record more runs", points=("--point", "x=1,2")
    )
    refused(
        "recorded with different --metric options (size differs)",
        "--metric",
        "size[B,lower]=size: (.*)",
    )
    Path("base.tar").write_bytes(whole[: len(whole) // 2])
    refused("truncated")
    stdout = whole.index(b"rate: ")
    Path("base.tar").write_bytes(whole[:stdout] + b"fate: " + whole[stdout + 6 :])
    refused("boots/0/runs/000/stdout does not match its checksum")
    Path("base.tar").write_bytes(b"\x00no tar\n" * 1000)
    refused("invalid tar archive")
    Path("base.tar").unlink()
    refused("no such file")
    prepare()
    record_base(2)
    refused("2 runs of rate at x=1 (expected at least 3); record more runs with the same command")
    Path("values").write_text("done\n" * 9)
    Path("n").write_text("1\n")
    Path("base.tar").unlink()
    record_base(3)
    refused(
        "the runs printed no primary metric; record both sides with --metric, e.g. --metric "
        "'rate[1/s,higher]=rate=([0-9.]+)'"
    )


def test_points_that_only_base_has_are_refused(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    del prepare
    record_base(3, ("--point", "x=1,2"))
    assert until_decided() == 2
    err = capfd.readouterr().err
    problem = "contains rate at x=2, which this command does not record; give the same "
    assert f"base.tar: {problem}" in err


def test_another_machine_is_refused_before_the_first_run(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    record_base(10)
    change_machine(Path("base.tar"))
    prepare()
    assert until_decided() == 4
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1].startswith("schedperf: error: base.tar: cpu.model differs")
    assert not list(Path().glob("new.tar*"))
    assert not any(line.startswith("run ") for line in lines)
    assert until_decided("--vary", "cpu.model") == 0


def test_a_base_of_another_boot_is_warned_of_before_the_first_run(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    record_base(10)
    change_member(Path("base.tar"), "run.json", lambda run: run.update(boot_id="another"))
    prepare(1010.0)
    assert until_decided() == 0
    lines = capfd.readouterr().err.splitlines()
    [warning] = [line for line in lines if "one boot, which is not" in line]
    assert warning.startswith("schedperf: warning: base.tar: base has one boot, which is not the ")
    assert "only changes of about 32% or more can be decided" in warning
    assert lines.index(warning) < min(
        number for number, line in enumerate(lines) if line.startswith("run ")
    )


def change_machine(path: Path) -> None:
    """Give a bundle another CPU."""
    change_member(path, "host.json", lambda host: host["cpu"].update(model="Another 9000"))


def change_member(path: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change JSON of a bundle; the manifest goes, for it has the checksum of what was there."""
    with tarfile.open(path) as old:
        members = [(info, old.extractfile(info)) for info in old]
        contents = [(info, file.read()) for info, file in members if file is not None]
    with tarfile.open(path, "w") as new:
        for info, content in contents:
            data = content
            if info.name.endswith(name):
                fields = json.loads(content)
                change(fields)
                data = json.dumps(fields).encode()
            if info.name != "manifest.json":
                info.size = len(data)
                new.addfile(info, io.BytesIO(data))


def test_a_base_that_breaks_meanwhile_ends_the_looks_and_not_the_recording(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    # The fourth run of new, which is the fourteenth of all, is what breaks it.
    script = "test $(cat n) = 14 && truncate -s 20000 base.tar; " + SCRIPT
    assert main(arguments("-q", "-o", "base.tar", "-n", "10", script=script)) == 0
    assert until_decided("--max-runs", "6", script=script) == 0
    err = capfd.readouterr().err
    assert "interim test after 3 runs: open" in err
    assert "schedperf: warning: no further interim tests: base.tar: " in err
    assert "recording all 6 runs\n" in err
    new = open_bundle(Path("new.tar"))
    assert len(new.runs) == 6
    assert new.complete
    del prepare


def test_an_interrupt_keeps_every_finished_run(prepare: Prepare) -> None:
    prepare(sd=20.0)
    record_base(10)
    hold_fifth_run_of_new()
    ours, theirs = os.pipe()
    with start_until_decided(theirs) as process:
        os.close(theirs)
        said = read_until(ours, "interim test after 4 runs: open")
        process.send_signal(signal.SIGINT)
        said += read_rest(ours)
    os.close(ours)
    assert process.returncode == 130
    assert "Traceback" not in said
    new = open_bundle(Path("new.tar"))
    assert new.sequential is not None
    assert new.complete is False
    assert len(new.runs) == 4
    assert new.sequential.stopped is None


def test_a_killed_parent_ends_the_recorder_and_keeps_every_finished_run(prepare: Prepare) -> None:
    prepare(sd=20.0)
    record_base(10)
    hold_fifth_run_of_new()
    ours, theirs = os.pipe()
    with start_until_decided(theirs) as process:
        os.close(theirs)
        read_until(ours, "interim test after 4 runs: open")
        process.kill()
        process.wait(LONGEST_WAIT_S)
        said = read_rest(ours)
    os.close(ours)
    assert "Traceback" not in said
    new = open_bundle(Path("new.tar"))
    assert len(new.runs) == 4
    assert not new.complete


def test_a_terminal_shows_how_many_runs_there_can_be(prepare: Prepare) -> None:
    record_base(10)
    prepare(700.0, seed=4)
    # The bar is drawn ten times a second.
    Path("pause").write_text("0.3\n")
    ours, theirs = pty.openpty()
    with start_until_decided(theirs) as process:
        os.close(theirs)
        drawn = read_rest(ours)
    os.close(ours)
    assert process.returncode == 0
    assert " of at most 12 " in drawn
    assert "at most " in drawn
    assert "interim test after 3 runs: open: rate at x=1" in drawn
    assert "interim test after 10 runs: decided: rate at x=1: regression" in drawn


def test_hackbench_against_itself_ends_and_says_why(prepare: Prepare) -> None:
    del prepare
    if shutil.which("hackbench") is None:
        pytest.skip("hackbench is not installed; apt-get install rt-tests")
    command = ("--with", "none", "--", "hackbench", "-l", "100", "-g", "1")
    assert main(["record", "-q", "-o", "base.tar", "-n", "10", *command]) == 0
    looks = ("--until-decided", "--against", "base.tar", "--max-runs", "14")
    assert main(["record", "-q", "-o", "new.tar", *looks, *command]) == 0
    new = open_bundle(Path("new.tar"))
    assert new.sequential is not None
    last = max(new.sequential.looks or ())
    assert sum(not run.warmup for run in new.runs) == last >= 10
    assert str(new.sequential.stopped).startswith(
        "decided: " if last < 14 else ("decided: ", "all 14 runs were made; open:")
    )
