# SPDX-License-Identifier: GPL-2.0-or-later
"""The exit status of ``schedperf compare``; where a signal makes it, of a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main

MakeBundle = Callable[..., Path]
RunCli = Callable[..., subprocess.CompletedProcess[str]]
TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)
SLOWER = [{"time_s": 1.3 * seconds} for seconds in TIMES]


COMPARE = [sys.executable, "-m", "schedperf", "compare"]


FASTER = [{"time_s": 0.7 * seconds} for seconds in TIMES]
EQUAL = [{"time_s": seconds} for seconds in (0.599, 0.611, 0.606, 0.608, 0.600)]
NOISY = [{"time_s": seconds} for seconds in (0.5, 0.7, 0.65)]


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"runs": SLOWER}, 1),
        ({"runs": FASTER}, 0),
        ({"runs": EQUAL}, 0),
        ({"runs": NOISY}, 3),
        ({"runs": EQUAL, "host": {"cpu": {"microcode": "1"}}}, 4),
    ],
)
def test_strict_changes_the_exit_status_of_undecided_results_alone(
    base: str, make_bundle: MakeBundle, tmp_path: Path, facts: dict[str, Any], status: int
) -> None:
    new = str(make_bundle(tmp_path / "other.tar", label="new", **facts))
    assert main(["compare", base, new, "--strict"]) == status


@pytest.mark.parametrize("arguments", [["absent.tar"], ["--format", "pdf"], ["--no-such-option"]])
def test_trouble_is_status_2_and_one_line(base: str, arguments: list[str], run_cli: RunCli) -> None:
    done = run_cli("compare", base, base, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("schedperf: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.system
def test_a_pipe_that_nobody_reads_is_141(base: str, slower: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([*COMPARE, base, slower], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


# The command, interrupted at the nth audit event of a kind after it opened its output, as by a
# terminal: all that belong to it get the signal. Events come in the same order on each machine.
INTERRUPTED = """
import os, signal, sys
from schedperf.cli import main

kind, left, out = sys.argv[1], int(sys.argv[2]), sys.argv[-1]
is_open, own = False, os.getpid()

def interrupt(event, details):
    global is_open, left
    is_open = is_open or (event == "open" and details[0] == out)
    if is_open and event == kind and os.getpid() == own:
        left -= 1
        if left == 0:
            os.killpg(0, signal.SIGINT)

sys.addaudithook(interrupt)
sys.exit(main(["compare", *sys.argv[3:]]))
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("option", "kind", "number"),
    [
        ("--json", "import", 1),
        ("--html", "import", 1),
        ("--html", "import", 100),
        ("--html", "import", 200),
        ("--html", "os.fork", 1),
        # The page and the text beside it are complete, and are written.
        ("--html", "os.truncate", 1),
        ("--html", "os.truncate", 2),
    ],
)
def test_a_ctrl_c_at_any_moment_is_130_and_leaves_no_file(
    base: str, slower: str, tmp_path: Path, *, option: str, kind: str, number: int
) -> None:
    if kind == "os.fork" and len(os.sched_getaffinity(0)) == 1:
        pytest.skip("needs two CPUs, so that workers are started")
    words = [kind, str(number), base, slower, option, str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert (done.stderr, done.returncode) == ("schedperf: interrupted\n", 130)
    assert not list(tmp_path.glob("out*"))
