# SPDX-License-Identifier: GPL-2.0-or-later
"""A second workload runs beside the first, and ends with it, whatever it does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.load import load

pytestmark = pytest.mark.system

# Prints the number of its argument when it is interrupted, as benchmarks do.
INTERRUPTIBLE = "sh -c 'trap \"echo load of $0; exit 0\" INT; while :; do sleep 0.01; done' {n}"
# Ends after the workload has begun, which waits until it is a zombie.
EARLY = "sh -c 'echo $$ >pid; until test -e begun; do sleep 0.01; done; echo no memory >&2; exit 3'"
WAIT_FOR_EARLY = 'touch begun; until grep -q ") Z " /proc/$(cat pid)/stat; do sleep 0.01; done'
STUBBORN = (
    "sh -c 'trap : INT TERM; setsid sleep 86401 & sleep 86402 & while :; do sleep 0.05; done'"
)


def record(recorder: Any, load_command: str, *command: str, **options: str) -> Any:
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return recorder(
        "record", "-o", "b.tar", "-n", "1", "--warmup", "0", "--with", "none", *words,
        "--with-load", load_command, "--", *command,
    )  # fmt: skip


def test_a_load_runs_at_each_point_and_its_output_is_kept(
    recorder: Any, read_bundle: Callable[[Path], Any]
) -> None:
    done = record(recorder, INTERRUPTIBLE, "true", point="n=1,2")
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(recorder.folder / "b.tar")
    for run in bundle.runs:
        folder = f"boots/0/runs/{run['run']:03d}/load"
        assert bundle.members[f"{folder}/stdout"].decode() == f"load of {run['point']['n']}\n"
        kept = bundle.json(f"{folder}/load.json")
        assert (kept["ended_by"], kept["exit_status"], kept["killed"]) == ("SIGINT", 0, [])
        assert kept["command"][-1] == run["point"]["n"]
        assert kept["wall_s"] > run["wall_s"]
        assert run["load"] == bundle.manifest["load"] == INTERRUPTIBLE
    [recording] = bundle.manifest["recordings"]
    assert INTERRUPTIBLE in recording["command"]
    # Runs beside another load, or without one, are another experiment.
    for words in ((), ("--with-load", "sleep 9")):
        refused = recorder("record", "--append", "b.tar", "-n", "1", *words, "--", "true")
        assert refused.returncode == 2
        assert "b.tar: recorded beside another load; give --with-load 'sh -c" in refused.stderr


def test_both_sides_of_ab_have_the_load(recorder: Any, read_bundle: Callable[[Path], Any]) -> None:
    done = recorder(
        "ab", "-o", "s", "-n", "1", "--warmup", "0", "--with", "none", "--with-load", "sleep 99",
        "--", "true",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("s-base.tar", "s-new.tar"):
        bundle = read_bundle(recorder.folder / name)
        assert bundle.manifest["load"] == "sleep 99"
        kept = bundle.json("boots/0/runs/000/load/load.json")
        assert (kept["command"], kept["signal"]) == (["sleep", "99"], 2)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program", "--with-load: the load did not start: no-such-program: no such file"),
        ("false", "--with-load: the load ended before the run (exit status 1); give a command"),
        ("true", "--with-load: the load ended before the run (exit status 0); give a command"),
        ("", "--with-load: invalid command '' (expected a command, e.g. 'stress-ng --cpu 2')"),
        ("sleep 'x", '--with-load: "sleep \'x": no closing quotation; quote it'),
        ("sleep {s}", "command: {s} has no values; add --point s=1,2"),
    ],
)
def test_a_load_that_cannot_run_stops_the_recording_before_its_first_run(
    recorder: Any, command: str, message: str
) -> None:
    done = record(recorder, command, "touch", "ran")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (recorder.folder / "ran").exists()
    assert not (recorder.folder / "b.tar").exists()


def test_a_run_that_its_load_did_not_outlast_is_discarded(
    recorder: Any, read_bundle: Callable[[Path], Any]
) -> None:
    done = record(recorder, EARLY, "sh", "-c", WAIT_FOR_EARLY)
    assert done.returncode == 2
    assert "the load ended before the run (exit status 3: no memory)" in done.stderr
    [run] = read_bundle(recorder.folder / "b.tar").runs
    assert run["exit_status"] == 0
    assert run["discarded"] == "the load ended before the run (exit status 3: no memory)"
    [capture] = [entry for entry in run["captures"] if entry["collector"] == "load"]
    assert capture["status"] == "failed"


@pytest.mark.slow
def test_a_load_that_ignores_signals_is_killed_with_all_that_it_started(
    recorder: Any, read_bundle: Callable[[Path], Any], is_running: Callable[[str], bool]
) -> None:
    done = record(recorder, STUBBORN, "true")
    assert done.returncode == 0, done.stderr
    kept = read_bundle(recorder.folder / "b.tar").json("boots/0/runs/000/load/load.json")
    assert (kept["ended_by"], kept["signal"], kept["killed"]) == ("SIGKILL", 9, ["sleep"])
    assert not is_running("sleep 86401".replace(" ", "\0"))
    assert not is_running("sleep 86402".replace(" ", "\0"))


def test_an_interrupted_recording_leaves_nothing_of_the_load(
    recorder: Any, is_running: Callable[[str], bool], wait_for: Callable[[Any], None]
) -> None:
    command = "sh -c 'setsid sleep 86403 & wait'"
    arguments = ("record", "-o", "b.tar", "--with", "none", "--with-load", command)
    with recorder.start(*arguments, "--", "sh", "-c", "touch ran; sleep 99") as process:
        wait_for((recorder.folder / "ran").exists)
        process.send_signal(2)
        process.communicate(timeout=240)
    assert process.returncode == 130
    assert not is_running("sleep\x0086403")


def test_long_output_of_a_load_is_shortened(
    recorder: Any, read_bundle: Callable[[Path], Any]
) -> None:
    command = "sh -c 'yes | head -c 20000000; touch printed; sleep 99'"
    done = record(recorder, command, "sh", "-c", "until test -e printed; do sleep 0.01; done")
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(recorder.folder / "b.tar")
    size = len(bundle.members["boots/0/runs/000/load/stdout"])
    assert size == 12 << 20
    left_out = bundle.json("boots/0/runs/000/load/load.json")["output_left_out"]
    assert left_out == {"stdout": 20_000_000 - size}


def test_without_a_command_there_is_no_load(run_here: Callable[..., str]) -> None:
    assert run_here(load) == "no command given"
