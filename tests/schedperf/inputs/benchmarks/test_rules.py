# SPDX-License-Identifier: GPL-2.0-or-later
"""The user's own metrics: expressions of strangers, with limits."""

import sys
import time

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement
from schedperf.inputs.bundle.open import MetricRule
from schedperf.runs.metric_rules import LONGEST_REGEX, TIME_LIMIT_S, Allowance, parse_rules


def apply(expression: str, text: str, unit: str = "1/s") -> Measurement | BadLine | None:
    rule = MetricRule(name="rate", unit=unit, better="higher", regex=expression)
    found = list(parse_rules([rule], text, "stdout", Allowance()))
    assert len(found) <= 1
    return found[0] if found else None


def problem(expression: str, text: str = "rate 1") -> str:
    found = apply(expression, text)
    assert isinstance(found, BadLine)
    return found.problem


def test_the_last_match_counts() -> None:
    found = apply(r"^rate (\S+)$", "rate 1\nrate 2\nrate 3.50\nend\n")
    assert isinstance(found, Measurement)
    assert (found.value, found.line_number, found.resolution) == (3.5, 3, 0.01)


def test_the_direction_and_unit_are_the_users() -> None:
    found = apply(r"rate (\S+)", "rate 1", unit="transactions")
    assert isinstance(found, Measurement)
    assert (found.metric.better, found.metric.unit, found.metric.family) == (
        "higher",
        "transactions",
        "primary",
    )


def test_milliseconds_become_seconds() -> None:
    found = apply(r"took (\S+) ms", "took 12.5 ms", unit="ms")
    assert isinstance(found, Measurement)
    assert found.value == pytest.approx(0.0125)
    assert found.metric.unit == "s"
    assert found.resolution == pytest.approx(1e-4)


def test_a_count_is_exact() -> None:
    found = apply(r"(\d+) migrations", "12 migrations", unit="count")
    assert isinstance(found, Measurement)
    assert found.resolution is None


def test_no_match_is_no_measurement() -> None:
    assert apply(r"rate (\d+)", "nothing here") is None


def test_no_group_is_a_bad_line() -> None:
    assert problem(r"rate \d+") == (
        "stdout: rule 'rate': no capture group in the regular expression (expected the number in "
        "parentheses)"
    )


def test_a_group_that_took_no_part_is_a_bad_line() -> None:
    assert problem(r"rate 1|(\d+) x") == "stdout:1: rate: invalid number ''"


def test_text_instead_of_a_number_is_a_bad_line() -> None:
    assert problem(r"rate (\S+)", "\nrate fast") == "stdout:2: rate: invalid number 'fast'"


@pytest.mark.parametrize(
    "expression", ["(", "[", "(?P<a>", "*", "(a)" * 101, "x" * (LONGEST_REGEX + 1)]
)
def test_a_broken_expression_is_a_bad_line(expression: str) -> None:
    assert problem(expression).startswith("stdout: rule 'rate': invalid regular expression (")


def test_deeply_nested_groups_are_refused_at_each_limit_of_recursion() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * before)
    try:
        found = problem("(" * 490 + ")" * 490)
    finally:
        sys.setrecursionlimit(before)
    assert found.startswith("stdout: rule 'rate': invalid regular expression (more than 100 groups")


@pytest.mark.parametrize(
    "expression",
    ["((a{1000}){1000}){1000}", "(a{99999999999999999999})", "((a{2,100}){,100}){100}"],
)
def test_repeats_that_would_fill_the_memory_are_refused(expression: str) -> None:
    assert "product of repeat counts exceeds 1000" in problem(expression)


def test_an_expression_without_end_is_stopped() -> None:
    start = time.process_time()
    assert problem(r"((a+)+)$", "a" * 100_000 + "b") == (
        f"stdout: rule 'rate': timeout after {TIME_LIMIT_S:g} s; simplify the regular expression"
    )
    assert time.process_time() - start < 5.0 * TIME_LIMIT_S


def test_the_expressions_of_one_bundle_share_their_time() -> None:
    rule = MetricRule(name="rate", unit="1/s", better="higher", regex=r"((a+)+)$")
    allowance = Allowance(left_s=0.1)
    start = time.process_time()
    for _ in range(5):
        [found] = parse_rules([rule], "a" * 100_000 + "b", "stdout", allowance)
        assert isinstance(found, BadLine)
    assert time.process_time() - start < TIME_LIMIT_S


def test_one_bad_rule_does_not_cost_the_others() -> None:
    rules = [
        MetricRule(name="bad", unit="s", better="lower", regex="("),
        MetricRule(name="good", unit="s", better="lower", regex=r"rate (\d+)"),
    ]
    found = list(parse_rules(rules, "rate 7", "stdout", Allowance()))
    assert [type(item) for item in found] == [BadLine, Measurement]
