# SPDX-License-Identifier: GPL-2.0-or-later
"""A printed claim against the printed numbers, and nothing in between."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.tables.consistency import (
    check_claim,
    check_mean,
    find_contradictions,
    parse_change,
    parse_mean,
    printed_step,
)
from schedperf.model.errors import InputError


def contradiction(claimed: str, base: float, new: float) -> str | None:
    found = check_claim(claimed, base, new, base_step=None, new_step=None)
    return None if found is None else found.text


class TestChange:
    @pytest.mark.parametrize(
        ("claimed", "base", "new"),
        [
            ("-10.70%", 1.579, 1.410),
            ("-5.00%", 1.269, 1.205),  # -5.04 %, but both times are rounded to 1 ms
            ("+33.17 %", 1257.546, 1674.684),
            ("-5.42%", 879.23, 831.49),  # -5.4297 %, cut off
            ("+74.96%", 25138.43, 43984.52),  # +74.969 %, cut off
            ("0%", 100.0, 100.4),
            ("~+50%", 10105.0, 15121.0),
            ("~ -3%", 70489.0, 68457.0),
            ("-1%..-3%", 100.0, 97.6),
            ("-3%..-1%", 100.0, 97.6),
            ("-50%", -2.0, -1.0),
        ],
    )
    def test_one_that_can_be_true_is_left_alone(
        self, claimed: str, base: float, new: float
    ) -> None:
        assert contradiction(claimed, base, new) is None

    @pytest.mark.parametrize(
        ("claimed", "base", "new", "actual"),
        [
            ("-4.57%", 1.117, 1.123, "+0.54%"),
            ("+10.70%", 1.579, 1.410, "-10.70%"),  # the sign counts
            ("-5.44%", 879.23, 831.49, "-5.43%"),  # neither rounded nor cut off
            ("~-8%", 45.51, 41.41, "-9.0%"),  # who writes "about" rounds and does not cut off
            ("-8%", 45.51, 40.51, "-11.0%"),
            ("+1%..+2%", 41.80, 40.48, "-3.2%"),
            ("-0.01%", 0.5, 5e9, "+1e+12%"),
        ],
    )
    def test_one_that_cannot_be_true_is_told_with_what_the_numbers_give(
        self, claimed: str, base: float, new: float, actual: str
    ) -> None:
        text = contradiction(claimed, base, new)
        assert text == f"the source states a change of {claimed}, but its numbers yield {actual}"

    def test_coarse_numbers_prove_less(self) -> None:
        fine = check_claim("-8.7%", 45.51, 41.41, base_step=0.01, new_step=0.01)
        coarse = check_claim("-8.7%", 45.51, 41.41, base_step=0.5, new_step=0.5)
        assert fine is not None
        assert coarse is None

    def test_a_share_of_nothing_is_no_contradiction(self) -> None:
        assert contradiction("+5%", 0.0, 3.0) is None
        assert check_claim("+5%", 0.4, 3.0, base_step=1.0, new_step=1.0) is None

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "%",
            "5",
            "five %",
            "nan%",
            "inf%",
            "1e9%",
            "-5,4%",
            "\u22125%",
            "5%%",
            "=1+1%",
            "9" * 99,
            "1%..",
            "..1%",
            "1..2%",
            "\u0663%",
        ],
    )
    def test_what_is_no_percentage_is_refused(self, text: str) -> None:
        with pytest.raises(InputError, match=r"expected a change in percent, e\.g\. -10\.70%"):
            parse_change(text)

    def test_a_message_quotes_the_beginning_only(self) -> None:
        with pytest.raises(InputError) as caught:
            parse_change("x\x1b[31m" * 10_000)
        assert len(str(caught.value)) < 200
        assert "\x1b" not in str(caught.value)

    @pytest.mark.property
    @given(
        base=st.floats(0.1, 1e6),
        ratio=st.floats(0.01, 100.0),
        digits=st.integers(0, 4),
        decimals=st.integers(1, 5),
    )
    def test_a_true_change_printed_by_rounding_or_cutting_off_is_never_flagged(
        self, base: float, ratio: float, digits: int, decimals: int
    ) -> None:
        new = base * ratio
        percent = 100.0 * (new / base - 1.0)
        cut_off = int(abs(percent) * 10**digits) / 10**digits * (-1 if percent < 0 else 1)
        step = 10.0**-decimals
        for claimed in (f"{percent:+.{digits}f}%", f"{cut_off:+.{digits}f}%"):
            shown = round(base, decimals), round(new, decimals)
            assert check_claim(claimed, *shown, base_step=step, new_step=step) is None

    @pytest.mark.property
    @given(base=st.floats(0.1, 1e6), percent=st.floats(-90.0, 500.0), error=st.floats(2.01, 50.0))
    def test_one_that_is_off_by_more_than_two_steps_is_always_flagged(
        self, base: float, percent: float, error: float
    ) -> None:
        new = base * (1.0 + percent / 100.0)
        for wrong in (percent - error, percent + error):
            assert check_claim(f"{wrong:+.0f}%", base, new, base_step=0.0, new_step=0.0)


class TestMean:
    def test_the_arithmetic_mean_is_left_alone(self) -> None:
        runs = (287.254, 285.252, 288.29)
        assert check_mean("286.93", runs, side="base", step=None) is None
        assert check_mean("~287", runs, side="base", step=None) is None

    def test_another_number_is_told(self) -> None:
        found = check_mean("286.39", (287.254, 285.252, 288.29), side="base", step=None)
        assert found is not None
        assert found.text == (
            "the source states a mean of 286.39 for base, but its runs yield 286.932"
        )

    def test_an_enormous_one_is_told_in_short(self) -> None:
        found = check_mean("1.0", (1e150,), side="base", step=None)
        assert found is not None
        assert found.text.endswith("its runs yield 1e+150")

    def test_coarse_runs_prove_less(self) -> None:
        assert check_mean("27.55", (27.5, 27.5, 27.7), side="base", step=None) is None
        assert check_mean("27.55", (27.5, 27.5, 27.7), side="base", step=0.001) is not None

    @pytest.mark.parametrize("text", ["", "x", "1e5", "nan", "5%"])
    def test_what_is_no_number_is_refused(self, text: str) -> None:
        with pytest.raises(InputError, match=r"expected a number, e\.g\. 286\.93"):
            parse_mean(text)


@pytest.mark.parametrize(
    ("value", "step"),
    [(286.93, 0.01), (1.41, 0.01), (12000.0, 1.0), (0.0, 1.0), (1e300, 1.0), (2.5e-7, 1e-8)],
)
def test_the_step_of_a_number_is_that_of_its_last_digit(value: float, step: float) -> None:
    assert printed_step(value) == pytest.approx(step, rel=1e-9)


def table(*rows: dict[str, object]) -> pd.DataFrame:
    common = {
        "workload": "tbench",
        "point": "clients=8",
        "metric": "throughput",
        "unit": "MB/s",
        "better": "higher",
    }
    return pd.DataFrame([{**common, **row} for row in rows])


KEY = ("tbench", "clients=8", "throughput", "MB/s", "higher")


class TestTable:
    def test_claims_stand_on_any_row_of_a_side(self) -> None:
        runs = table(
            {"side": "base", "value": 10.0, "claimed_mean": "12.5"},
            {"side": "base", "value": 12.0, "claimed_mean": None},
            {"side": "new", "value": 12.1, "claimed": ""},
            {"side": "new", "value": 12.1, "claimed": "+40%"},
        )
        found = find_contradictions(runs, base="base")
        assert list(found) == [(0, "new", *KEY)]
        assert [one.text for one in found[0, "new", *KEY]] == [
            "the source states a mean of 12.5 for base, but its runs yield 11.00",
            "the source states a change of +40%, but its numbers yield +10.0%",
        ]

    def test_one_claim_that_is_repeated_is_one_caveat(self) -> None:
        runs = table(
            {"side": "base", "value": 10.0},
            *[{"side": "new", "value": 12.0, "claimed": "+40%"}] * 3,
        )
        assert [len(found) for found in find_contradictions(runs, base="base").values()] == [1]

    def test_means_are_checked_like_runs(self) -> None:
        runs = table(
            {"side": "base", "mean": 10.0}, {"side": "new", "mean": 12.0, "claimed": "+40%"}
        )
        assert len(find_contradictions(runs, base="base")) == 1

    def test_runs_that_failed_have_no_say(self) -> None:
        runs = table(
            {"side": "base", "value": 10.0, "status": "ok"},
            {"side": "new", "value": 12.0, "status": "ok", "claimed": "+20%"},
            {"side": "new", "value": 99.0, "status": "failed", "claimed": None},
        )
        assert find_contradictions(runs, base="base") == {}

    def test_each_comparison_is_checked_for_itself(self) -> None:
        runs = table(
            {"comparison": 1, "side": "base", "value": 10.0},
            {"comparison": 1, "side": "new", "value": 12.0, "claimed": "+40%"},
            {"comparison": 2, "side": "base", "value": 10.0},
            {"comparison": 2, "side": "new", "value": 14.0, "claimed": "+40%"},
        )
        assert list(find_contradictions(runs, base="base")) == [(1, "new", *KEY)]

    def test_steps_that_are_told_count_instead_of_digits(self) -> None:
        runs = table(
            {"side": "base", "value": 10.0, "resolution": 2.0},
            {"side": "new", "value": 12.0, "resolution": 2.0, "claimed": "+40%"},
        )
        assert find_contradictions(runs, base="base") == {}

    def test_without_the_other_side_there_is_nothing_to_check(self) -> None:
        runs = table({"side": "new", "value": 12.0, "claimed": "+40%"})
        assert find_contradictions(runs, base="base") == {}

    def test_a_table_without_claims_has_no_contradiction(self) -> None:
        assert find_contradictions(table({"side": "new", "value": 12.0}), base="base") == {}
        nothing = table({"side": "new", "value": 12.0, "claimed": None})
        assert find_contradictions(nothing, base="base") == {}
