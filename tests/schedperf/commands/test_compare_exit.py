# SPDX-License-Identifier: GPL-2.0-or-later
"""The exit status of ``schedperf compare``; where a signal makes it, of a process of its own."""

import os
import signal
import subprocess
import sys
import time
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
    done = subprocess.run(
        [*COMPARE, base, slower], stdout=theirs, stderr=subprocess.PIPE, timeout=60
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.system
def test_an_interrupt_is_130_and_leaves_no_file(base: str, slower: str, tmp_path: Path) -> None:
    record = tmp_path / "out.json"
    with subprocess.Popen(
        [*COMPARE, base, slower, "--json", str(record)], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # The file is there before the work begins.
        while not record.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "schedperf: interrupted\n"
        assert process.wait(60) == 130
    assert not record.exists()


@pytest.mark.system
@pytest.mark.parametrize("seconds", [0.0, 0.005, 0.02, 0.1, 0.4])
def test_a_ctrl_c_at_any_moment_of_a_page_is_130_and_leaves_no_file(
    base: str, slower: str, tmp_path: Path, seconds: float
) -> None:
    page = tmp_path / "out.html"
    with subprocess.Popen(
        [*COMPARE, base, slower, "--html", str(page)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while not page.exists():
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(seconds)
        # As a terminal does: to all that belong to the command.
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.read() == "schedperf: interrupted\n"
        # Interrupted in an import, Python ends by the signal: 130 to a shell.
        assert process.wait(60) in {130, -signal.SIGINT}
    assert not page.exists()
