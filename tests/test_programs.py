# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests leave no process behind, and one that does is named."""

import signal
import subprocess

import pytest

from tests.programs import Program, default_hangup, no_process_left

SLEEP = ("sleep", "3600")


def test_a_process_that_is_left_is_named_with_its_test_and_killed() -> None:
    name = r"sleep 3600 \(started by .*::test_a_process_that_is_left_is_named"
    with pytest.raises(AssertionError, match=name), no_process_left(longest_wait_s=0.1):
        process = subprocess.Popen(SLEEP, start_new_session=True)
    assert process.wait(60) == -signal.SIGKILL


def test_what_a_process_leaves_is_found_too() -> None:
    with pytest.raises(AssertionError, match="sleep 3600"), no_process_left(longest_wait_s=0.1):
        subprocess.run(["sh", "-c", "setsid sleep 3600 >&- 2>&- &"], check=True)


def test_a_process_that_is_about_to_end_is_not_left() -> None:
    with no_process_left():
        process = subprocess.Popen(["sleep", "0.2"])
    assert process.wait(60) == 0


def test_a_program_does_not_outlive_a_test_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), Program(SLEEP) as program:
        _ = 1 / 0
    assert program.returncode == -signal.SIGTERM


def test_a_hangup_ends_a_program_of_tests_that_ignore_it() -> None:
    hangs_up = ["sh", "-c", "kill -HUP $$; exit 7"]
    # As nohup does to the tests.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ignores, ends = (
            subprocess.run(hangs_up, preexec_fn=prepare).returncode
            for prepare in (None, default_hangup)
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (ignores, ends) == (7, -signal.SIGHUP)
