# SPDX-License-Identifier: GPL-2.0-or-later
"""The account of one run: what a damaged file may hold, and how the time is divided."""

import json
from typing import Any

import pytest

from schedperf.evidence.account.capture import (
    LARGEST_BYTES,
    MOST_OTHERS,
    AccountFile,
    has_short_tasks,
    parse_account,
    parts_of,
)
from schedperf.evidence.account.record import Part
from schedperf.model.errors import BundleError
from schedperf_collectors.account import MOST_OTHERS as MOST_OTHERS_OF_COLLECTOR
from schedperf_collectors.account import SCHEMA
from tests.schedperf.evidence.account.conftest import FILE, SERVER, write_account

USAGE = {"utime_s": 0.8, "stime_s": 0.2}


def parse(**changes: Any) -> AccountFile:
    return parse_account(write_account(**changes).encode(), "run")


def test_the_file_of_the_collector_is_read() -> None:
    file = parse(lost=None, others=[{"command": "a", "cpu_s": 0.5}] * MOST_OTHERS_OF_COLLECTOR)
    assert FILE["schema"] == SCHEMA
    assert (file.lost, file.tasks, file.lifetime_s, file.blocked_s) == (None, 4, 5.0, 1.0)
    assert len(file.others) == MOST_OTHERS_OF_COLLECTOR
    longest = [{"command": "\x01" * 15, "cpu_s": 0.123456789012345678}] * MOST_OTHERS_OF_COLLECTOR
    assert len(json.dumps({**FILE, "others": longest}, indent=1)) < LARGEST_BYTES


def test_unknown_fields_are_ignored_and_long_commands_are_cut() -> None:
    file = parse(new_field={"a": [1]}, others=[{"command": "w" * 9999, "cpu_s": 1, "pids": 3}])
    assert file.others[0].cpu_s == 1.0
    assert len(file.others[0].command) == 300


def test_tasks_are_never_blocked_for_less_than_no_time() -> None:
    # The clocks of the times differ.
    assert parse(lifetime_s=3.9).blocked_s == 0.0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema": "schedperf/account/2"}, r'\$\.schema is "schedperf/account/2" \(expected'),
        ({"schema": "schedperf/load/1"}, r'\$\.schema is "schedperf/load/1" \(expected'),
        ({"schema": None}, r"\$\.schema is null"),
        ({"waiting_s": -0.001}, r"\$\.waiting_s is -0.001 \(expected float >= 0"),
        ({"lifetime_s": 1e13}, r"\$\.lifetime_s is 10000000000000.0 \(expected float <= 1"),
        ({"lifetime_s": 1e999}, r"invalid number Infinity"),
        ({"exec_s": float("nan")}, r"invalid number NaN"),
        ({"recorder_cpu_s": float("-inf")}, r"invalid number -Infinity"),
        ({"user_s": None}, r"\$\.user_s is null"),
        ({"system_s": "1"}, r'\$\.system_s is "1" \(expected float'),
        ({"tasks": -1}, r"\$\.tasks is -1"),
        ({"tasks": 2.5}, r"\$\.tasks is 2.5 \(expected int"),
        ({"lost": 2**63}, r"number too large"),
        ({"left_out": 10**4000}, r"number too large"),
        ({"others": [{"command": "a", "cpu_s": 1.0}] * (MOST_OTHERS + 1)}, r"\$\.others"),
        ({"others": [{"command": 7, "cpu_s": 1.0}]}, r"\$\.others\[0\]\.command is 7"),
        ({"others": [{"command": "a", "cpu_s": -1.0}]}, r"\$\.others\[0\]\.cpu_s is -1.0"),
        ({"others": [{"command": "a"}]}, r"\$\.others\[0\]\.cpu_s is missing"),
        ({"others": {"a": 1.0}}, r"\$\.others is"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(changes: dict[str, Any], problem: str) -> None:
    content = json.dumps({**FILE, **changes})
    with pytest.raises(BundleError, match=problem) as caught:
        parse_account(content.encode(), "run")
    assert str(caught.value).startswith("run: ")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", [*FILE])
def test_a_missing_field_is_named(name: str) -> None:
    content = json.dumps({key: value for key, value in FILE.items() if key != name})
    with pytest.raises(BundleError, match=rf"^run: \$\.{name} is missing"):
        parse_account(content.encode(), "run")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\x00", b"\xff\xfe", b"[" * 5000, b'{"a": 1, "a": 2}']
)
def test_what_is_no_account_is_refused(content: bytes) -> None:
    with pytest.raises(BundleError, match="^run: ") as caught:
        parse_account(content, "run")
    assert len(str(caught.value).splitlines()) == 1


def test_every_truncation_is_refused() -> None:
    content = write_account().encode()
    for end in range(len(content)):
        with pytest.raises(BundleError, match="^run: "):
            parse_account(content[:end], "run")


@pytest.mark.parametrize(
    ("ticks_per_s", "tasks", "are_short"),
    [
        # 250 ticks of 4 tasks divide the time well enough.
        (250, 4, False),
        (250, 25, False),
        (250, 26, True),
        (100, 11, True),
        (1000, 100, False),
        (None, 4, True),
        (250, 0, False),
    ],
)
def test_tasks_with_few_ticks_each_are_short(
    ticks_per_s: int | None, tasks: int, *, are_short: bool
) -> None:
    assert has_short_tasks(USAGE, parse(tasks=tasks), ticks_per_s) == are_short


@pytest.mark.parametrize(("by_ticks", "user_s"), [(False, 0.8), (True, 0.2)])
def test_ticks_of_all_tasks_divide_the_cpu_time(*, by_ticks: bool, user_s: float) -> None:
    parts = parts_of(USAGE, parse(), by_ticks=by_ticks)
    expected: dict[Part, float] = {
        "user": user_s, "system": 1.0 - user_s, "exiting": 0.0, "waiting": 3.0, "blocked": 1.0,
    }  # fmt: skip
    assert parts == pytest.approx(expected)


@pytest.mark.parametrize(
    ("by_ticks", "recorded_s", "expected"),
    [
        # Ticks are 0.2 of user to 0.8.
        (True, 0.75, (0.15, 0.6, 0.25)),
        (False, 0.9, (0.8, 0.1, 0.1)),
        # Exiting tasks run in the kernel only.
        (False, 0.75, (0.8, 0.0, 0.2)),
        # The scheduler's clock may be ahead of the resource usage.
        (False, 1.1, (0.8, 0.2, 0.0)),
    ],
)
def test_cpu_time_without_a_record_is_that_of_exiting_tasks(
    *, by_ticks: bool, recorded_s: float, expected: tuple[float, ...]
) -> None:
    parts = parts_of(USAGE, parse(exec_s=recorded_s), by_ticks=by_ticks)
    found = (parts["user"], parts["system"], parts["exiting"])
    assert found == pytest.approx(expected)
    assert sum(found) == pytest.approx(1.0)


def test_without_any_record_no_task_is_exiting() -> None:
    parts = parts_of(USAGE, parse(exec_s=0.0, tasks=0), by_ticks=False)
    assert (parts["system"], parts["exiting"]) == (0.2, 0.0)


def test_tasks_without_ticks_keep_the_division_of_the_resource_usage() -> None:
    parts = parts_of(USAGE, parse(user_s=0.0, system_s=0.0), by_ticks=True)
    assert (parts["user"], parts["system"]) == (0.8, 0.2)


def test_a_server_adds_to_each_part() -> None:
    alone = parts_of(USAGE, parse(), by_ticks=False)
    both = parts_of(USAGE, parse(server=SERVER), by_ticks=False)
    added = {part: both[part] - alone[part] for part in both}
    assert added == pytest.approx(
        {"user": 1.5, "system": 0.5, "exiting": 0.0, "waiting": 4.0, "blocked": 6.0}
    )


def test_a_server_without_ticks_or_with_clocks_that_differ_has_no_negative_part() -> None:
    file = parse(server={**SERVER, "user_s": 0.0, "system_s": 0.0, "lifetime_s": 5.9})
    assert file.server is not None
    parts = {"user": 2.0, "system": 0.0, "exiting": 0.0, "waiting": 4.0, "blocked": 0.0}
    assert file.server.parts == parts


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ([], r"\$\.server is"),
        ({}, r"\$\.server\.tasks is missing"),
        ({**SERVER, "exec_s": -1.0}, r"\$\.server\.exec_s is -1.0"),
        ({**SERVER, "waiting_s": 1e13}, r"\$\.server\.waiting_s is"),
        ({**SERVER, "tasks": "7"}, r'\$\.server\.tasks is "7"'),
    ],
)
def test_a_damaged_server_is_refused(server: object, problem: str) -> None:
    with pytest.raises(BundleError, match=f"^run: {problem}"):
        parse(server=server)


def test_without_an_account_there_is_cpu_time_only() -> None:
    assert parts_of(USAGE, None, by_ticks=True) == {"user": 0.8, "system": 0.2}


def test_no_part_is_negative_by_rounding() -> None:
    for number in range(1, 200):
        file = parse(tasks=9999, user_s=number / 10, system_s=0.0)
        parts = parts_of({"utime_s": number / 7, "stime_s": 0.1}, file, by_ticks=True)
        assert parts["system"] == 0.0
