"""Cells of rates: readable numbers, no interval that says nothing, and why there is none."""

from typing import Any

from schedperf_reports._rate_cells import (
    change_of,
    describe_rate,
    explain_gaps,
    interval_of,
    split_twins,
    zeros_table,
)

RATE: dict[str, Any] = {
    "name": "forks",
    "field": "count",
    "basis": "operation",
    "unit": "1/message",
    "base": 0.0001375,
    "new": 7.19e-05,
    "ratio": 0.5229,
    "ci_low": 0.4,
    "ci_high": 0.7,
}


def test_small_counts_are_of_a_thousand_operations() -> None:
    assert describe_rate(RATE) == ("1000 messages", "0.1375", "0.0719")
    assert describe_rate({**RATE, "base": 0.2}) == ("message", "0.2", "7.19e-05")
    assert describe_rate({**RATE, "new": None}) == ("1000 messages", "0.1375", "-")


def test_times_an_operation_and_rates_a_second_keep_their_unit() -> None:
    time = {**RATE, "unit": "s/message"}
    assert describe_rate(time) == ("message", "137.5 us", "71.9 us")
    second = {**RATE, "basis": "time", "unit": "task/s", "base": 0.05, "new": 0.02}
    assert describe_rate(second) == ("second", "0.05", "0.02")


def test_shares_means_and_levels_say_what_they_are() -> None:
    share = {**RATE, "basis": "share", "unit": ""}
    assert describe_rate(share)[0] == "share"
    assert describe_rate({**share, "unit": "Hz"})[0] == "mean"
    assert describe_rate({**share, "unit": "s", "field": "p99"})[0] == "quantile"


def test_the_same_count_a_second_is_a_twin_and_watts_are_none() -> None:
    second = {**RATE, "basis": "time", "unit": "1/s"}
    alone = {**second, "name": "execs"}
    watts = {**RATE, "basis": "time", "unit": "W", "name": "power"}
    joules = {**RATE, "unit": "J/message", "name": "power"}
    assert split_twins([second, RATE, alone, watts, joules]) == (
        [RATE, alone, watts, joules],
        [second],
    )


def test_an_interval_that_spans_everything_is_no_number_and_says_why() -> None:
    assert interval_of(RATE) == "-60.0..-30.0"
    wide = {**RATE, "ci_low": 0.0, "ci_high": 23900.0}
    assert interval_of(wide) == "-"
    [text] = explain_gaps([RATE, wide])
    assert text.text.endswith("too few runs or boots")
    assert list(explain_gaps([RATE])) == []


def test_a_change_from_nothing_says_why_it_has_no_number() -> None:
    none = {**RATE, "base": 0.0, "ratio": None, "ci_low": None, "ci_high": None}
    assert change_of(none) == interval_of(none) == "-"
    [text] = explain_gaps([none])
    assert text.text.startswith("no change where a run or a boot has 0")


def test_what_is_not_compared_or_alone_needs_no_reason() -> None:
    invalid = {**RATE, "status": "invalid", "ratio": None, "ci_low": None, "ci_high": None}
    assert change_of(invalid) == "invalid"
    assert list(explain_gaps([invalid, {**invalid, "status": "ok", "new": None}])) == []


def test_zeros_are_a_number_on_a_terminal_and_names_on_the_page() -> None:
    assert list(zeros_table([])) == []
    [table] = zeros_table(["execs", "forks"])
    assert table.caption == "0 in all runs: 2 counts"
