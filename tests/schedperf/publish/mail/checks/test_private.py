# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``private``: host names, paths, kernel parameters and private trees are held."""

import pytest
from msgspec.structs import replace

from schedperf.publish.culprit.record import Tree
from schedperf.publish.mail.checks.private import check
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context
from tests.schedperf.publish.mail.records import (
    HOST,
    make_culprit,
    make_evidence,
    make_row,
    make_side,
    make_site,
)

CMDLINE = {"cmdline": "quiet netconsole=@10.0.0.7/eth0"}


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("hackbench --on epyc-7.lab.internal", "contains 'epyc-7.lab.internal'"),
        ("hackbench --on EPYC-7.lab.internal", "contains 'EPYC-7.lab.internal'"),
        ("hackbench --on epyc-7", "contains 'epyc-7'"),
        ("hackbench bdcf3983-3bba-42e4-a3b5-636ab0bccadf", "contains 'bdcf3983"),
        ("hackbench netconsole=@10.0.0.7/eth0", "contains 'netconsole=@10.0.0.7/eth0'"),
        ("/home/ada/bin/hackbench", "path or address /home/ada/bin/hackbench: record a"),
        ("/opt/acme/hackbench", "address /opt/acme/hackbench"),
        ("hackbench -o ~ada/out", "address ~ada/out"),
        ("../acme/hackbench", "address ../acme/hackbench"),
        ("netperf -H 10.0.0.9 -l 60", "address 10.0.0.9"),
        ("netperf -H bench@client", "address bench@client"),
    ],
)
def test_private_strings_are_held(workload: str, said: str) -> None:
    host = {**HOST, "kernel": CMDLINE}
    sides = (make_side("base", host=host), make_side("new", host=host))
    assert said in failure(
        check(make_context(make_evidence(make_row(workload=workload), sides=sides)))
    )


@pytest.mark.parametrize(
    "workload",
    ["./hackbench -g 4", "/usr/local/bin/hackbench", "cat /proc/sched_debug", "perf bench n/a 1/s"],
)
def test_public_commands_pass(workload: str) -> None:
    assert check(make_context(make_evidence(make_row(workload=workload)))).passed


def test_a_path_in_a_subject_is_public() -> None:
    bad = replace(make_culprit().bad, subject="selftests: Write to /tmp/sched/x")
    assert check(make_context(make_evidence(culprit=make_culprit(bad=bad)))).passed


def test_a_host_with_a_common_word_as_name_is_held_until_it_is_public() -> None:
    host = {**HOST, "system": {"hostname": "time"}}
    evidence = make_evidence(sides=(make_side("base", host=host), make_side("new", host=host)))
    assert "add it to public in mail.toml" in failure(check(make_context(evidence)))
    assert check(make_context(evidence, site=make_site(public=("Time",)))).passed


def test_a_private_tree_is_held() -> None:
    evidence = make_evidence(culprit=make_culprit(tree=Tree(name="secret", private=True)))
    assert failure(check(make_context(evidence))) == "the tree secret is private"
