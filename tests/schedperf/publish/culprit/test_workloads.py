# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.publish.culprit.workloads: commands at their points, without placeholders."""

import pytest

from schedperf.publish.culprit.workloads import command_of, is_alike, vary
from tests.schedperf.publish.mail.records import make_row


@pytest.mark.parametrize(
    ("workload", "point", "line", "rest"),
    [
        ("hackbench -g {groups}", "groups=16", "hackbench -g 16", ()),
        ("hackbench -g {groups} -f {fds}", "fds=20,groups=4", "hackbench -g 4 -f 20", ()),
        ("hackbench", "groups=16", "hackbench", ("groups=16",)),
        ("sh -c 'echo {a} {{b}}'", "a=1", "sh -c 'echo 1 {b}'", ()),
        ("pipe", "Send/8K-8", "pipe", ("Send/8K-8",)),
        ("", "", "", ()),
        ("a 'b", "", "a ''\"'\"'b'", ()),
        ("hackbench -g {groups}", "groups=$(reboot)", "hackbench -g '$(reboot)'", ()),
    ],
)
def test_commands(workload: str, point: str, line: str, rest: tuple[str, ...]) -> None:
    command = command_of(make_row(workload=workload, point=point))
    assert (command.line, command.rest) == (line, rest)


def test_braces_of_a_command_are_literal_for_schedperf() -> None:
    command = command_of(make_row(workload="sh -c 'echo {{b}}'"))
    assert command.template == "sh -c 'echo {{b}}'"
    assert command_of(make_row(workload="x {groups}", point="groups=4")).template == "x 4"


def test_what_varies() -> None:
    assert vary([("a", "-g", "1"), ("a", "-g", "4")]) == [2]
    assert vary([("a", "1"), ("a", "1")]) == []
    assert vary([("a", "1"), ("b", "1")]) is None
    assert vary([("a", "-x"), ("a", "-y")]) is None
    assert vary([("a",), ("a", "1")]) is None


def test_results_of_one_command_are_alike() -> None:
    one = make_row(workload="hackbench -g {groups}", point="groups=1")
    assert is_alike(one, make_row(workload="hackbench -g 4"))
    assert not is_alike(one, make_row(workload="hackbench -g 4 -f 20"))
    assert not is_alike(one, make_row(workload="pipe -g 4"))
