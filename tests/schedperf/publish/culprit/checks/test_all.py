# SPDX-License-Identifier: GPL-2.0-or-later
"""All checks of a record: one that is in order passes, and one without its comparisons fails."""

from msgspec.structs import replace

from schedperf.publish.culprit.checks import CHECKS, check_evidence, with_checks
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.records import make_evidence, measured

NAMES = ["retested", "boots", "hardware", "culprit", "size", "comparable"]


def test_a_record_in_order_passes() -> None:
    checks = with_checks(make_evidence()).checks
    assert [check for check in checks if not check.passed] == []
    assert [check.name for check in checks] == NAMES


def test_each_check_is_named_like_its_module() -> None:
    assert [check.__module__.rpartition(".")[2] for check in CHECKS.values()] == NAMES


def test_a_check_without_its_comparison_fails() -> None:
    evidence = make_evidence()
    rest = {
        name: each
        for name, each in evidence.comparisons.items()
        if name != measured("revert").comparison
    }
    failed = [
        each for each in check_evidence(replace(evidence, comparisons=rest)) if not each.passed
    ]
    assert [each.name for each in failed] == ["culprit"]
    assert "copy its JSON file to" in failure(failed[0])
