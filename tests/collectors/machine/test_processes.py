# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes are read whatever their names are, with what they and their children have used."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedperf_collectors.machine.processes import (
    TICKS_PER_S,
    Process,
    all_processes,
    parse_schedstat,
    pids,
    read_process,
    since_boot_us,
)
from tests.collectors.fake_processes import stat_of

Start = Callable[[str], Process]

# It calls itself what its first argument says, and runs the second one.
NAMED = (
    "import sys, time, os\n"
    "open('/proc/self/comm', 'wb').write(os.fsencode(sys.argv[1]))\n"
    "exec(sys.argv[2])\n"
    "print(flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Start a process with a name, let it do something, and read it."""
    started = []

    def run(name: str, source: str = "") -> Process:
        process = subprocess.Popen(
            [sys.executable, "-c", NAMED, name, source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return read_process(process.pid)

    yield run
    for process in started:
        process.communicate()


@pytest.mark.parametrize(
    "name",
    ["two words", "(sd-pam)", "a) R 1 1 1 1", "a) (b", "line\nbreak", ") S 2\n(", " ", "ü"],
)
def test_a_name_may_have_any_character(start: Start, name: str) -> None:
    found = start(name)
    assert found.name == name
    assert (found.parent, found.group) == (os.getpid(), found.pid)


def test_a_name_that_is_cut_inside_a_character_is_read(start: Start) -> None:
    assert start("x" * 14 + "ü").name == "x" * 14 + "\N{REPLACEMENT CHARACTER}"


def test_what_the_process_and_its_children_used_is_told_apart(
    start: Callable[[str, str], Process],
) -> None:
    source = (
        "child = os.fork()\n"
        "while time.process_time() < (0.4 if child else 0.2): pass\n"
        "if not child: os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    found = start("busy", source)
    used, of_children = found.used, found.used_by_children
    # Times are cut to ticks.
    assert used.user_s + used.system_s >= 0.37
    assert of_children.user_s + of_children.system_s >= 0.17
    assert used.minor_faults > of_children.minor_faults > 0


def test_a_process_that_has_ended_is_an_error_until_it_is_left_out() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(OSError, match=f"/proc/{process.pid}/stat"):
        read_process(process.pid)
    assert process.pid not in pids()


def test_a_zombie_is_read(wait_for: Callable[[Callable[[], bool]], None]) -> None:
    process = subprocess.Popen(["true"])
    wait_for(lambda: read_process(process.pid).state == "Z")
    process.wait()


def test_all_processes_have_this_one_and_its_start() -> None:
    [own] = [process for process in all_processes() if process.pid == os.getpid()]
    assert own.parent == os.getppid()
    assert own.group == os.getpgrp()
    assert str(own.began_ticks) in Path("/proc/self/stat").read_text().rpartition(")")[2].split()


@pytest.mark.parametrize("damaged", ["", "7", "7 (a) S 1", "7 (a) S 1 7 x"])
@pytest.mark.parametrize("fields", range(14, 20))
def test_a_damaged_file_leaves_out_its_process_only(
    tmp_path: Path, damaged: str, fields: int
) -> None:
    whole = stat_of(5, "whole", parent=1)
    words = whole.replace("5 (whole)", "6 (cut)").split()
    for number, text in ((5, whole), (6, " ".join(words[: 2 + fields])), (7, damaged)):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "stat").write_text(text)
    assert [process.name for process in all_processes(tmp_path)] == ["whole"]
    for pid in (6, 7):
        with pytest.raises(ValueError, match=r"fields after the name"):
            read_process(pid, tmp_path)


def test_times_of_the_scheduler_are_parsed() -> None:
    assert parse_schedstat("12 34 5\n") == (12, 34)
    with pytest.raises(ValueError, match="unpack"):
        parse_schedstat("12\n")


def test_a_start_is_rounded_down_to_a_tick() -> None:
    before_us = since_boot_us()
    process = subprocess.Popen(["sleep", "99"])
    try:
        after_us = since_boot_us()
        began_us = read_process(process.pid).began_us
    finally:
        process.kill()
        process.wait()
    assert before_us - 1_000_000 // TICKS_PER_S < began_us <= after_us
