# SPDX-License-Identifier: GPL-2.0-or-later
"""Only a valid wakeups.json is read; all others are one error that names the field."""

import json
from typing import Any

import pytest

from schedperf.evidence.wakeup_latency.capture import OTHERS, parse_wakeups
from schedperf.model.errors import BundleError
from tests.schedperf.evidence.wakeup_latency.conftest import WAKEUPS, waits_row, with_tail


def parse(document: Any) -> Any:
    return parse_wakeups(json.dumps(document).encode(), "wakeups.json")


def test_what_the_collector_wrote_is_read() -> None:
    found = parse({**with_tail(900), "lost": {"calls of x": 0, "perf records": 2}})
    assert found.source == "bpf"
    assert found.nodes == {0: 0, 1: 0, 2: 1, 3: 1}
    assert [(each.command, each.cpu, each.count) for each in found.waits] == [
        ("hackbench", 0, 1000), ("hackbench", 2, 1000), ("kworker", 1, 50), ("cron", 1, 1),
    ]  # fmt: skip
    assert found.lost == {"perf records": 2}


def test_commands_without_room_have_a_name_of_their_own() -> None:
    [found] = parse({**WAKEUPS, "rows": [waits_row("", 0, {1000: 1})]}).waits
    assert found.command == OTHERS


def test_a_command_that_never_waited_is_left_out() -> None:
    row = {"command": "sh", "cpu": 0, "bins": [], "sum_ns": 0, "max_ns": 0}
    assert parse({**WAKEUPS, "rows": [row]}).waits == ()


ROW = waits_row("sh", 0, {1000: 5})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"schema": "schedperf/wakeup_latency/2"}, "schema"),
        ({"mechanism": "ftrace"}, "mechanism"),
        ({"seconds": 0}, "seconds"),
        ({"seconds": float("nan")}, "NaN"),
        ({"nodes": {"x": 0}}, "nodes"),
        ({"nodes": {"9000": 0}}, "nodes"),
        ({"rows": {}}, "rows"),
        ({"rows": [{**ROW, "bins": [[512, 1]]}]}, "bins"),
        ({"rows": [{**ROW, "bins": [[-1, 1]]}]}, "bins"),
        ({"rows": [{**ROW, "bins": [[1, 2, 3]]}]}, "bins"),
        ({"rows": [{**ROW, "bins": [[1, -2]]}]}, "bins"),
        ({"rows": [{**ROW, "bins": [[1, 2], [1, 3]]}]}, "two counts of one bin"),
        ({"rows": [ROW, ROW]}, "two rows of one command and CPU"),
        ({"rows": [{**ROW, "command": "x" * 65}]}, "command"),
        ({"rows": [{**ROW, "cpu": 8192}]}, "cpu"),
        ({"rows": [{**ROW, "max_ns": 1e99}]}, "max_ns"),
        ({"lost": {"x": -1}}, "lost"),
        ({"notes": [1]}, "notes"),
    ],
)
def test_an_invalid_file_is_one_error(changed: Any, problem: str) -> None:
    with pytest.raises(BundleError, match=problem) as error:
        parse({**WAKEUPS, **changed})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\0" * 99, b'{"schema": "\xff'])
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(BundleError, match="wakeups.json"):
        parse_wakeups(content, "wakeups.json")
