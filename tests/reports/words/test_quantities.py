# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

from schedperf_reports.words.clean import clean
from schedperf_reports.words.quantities import (
    MISSING,
    TOO_WIDE,
    format_change,
    format_interval,
    format_p,
    format_percent,
    format_points,
    format_share,
)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.3724, "+37.2%"),
        (0.862, "-13.8%"),
        (1.0, "+0.0%"),
        (31.0, "+3000%"),
        (1e9, "+1e+11%"),
        (None, MISSING),
    ],
)
def test_changes_have_a_sign(ratio: float | None, text: str) -> None:
    assert format_change(ratio) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0839, "0.084"), (1.0, "1"), (3.61e-7, "3.6e-07"), (0.0, "<1e-99"), (None, MISSING)],
)
def test_no_probability_is_zero(p: float | None, text: str) -> None:
    assert format_p(p) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(0.0724, "7.2%"), (297.2, "29720%"), (1e6, "1e+08%"), (None, MISSING)]
)
def test_shares_have_no_sign(fraction: float | None, text: str) -> None:
    assert format_share(fraction) == text


def test_shares_of_samples_have_two_digits_and_their_differences_a_sign() -> None:
    assert (format_percent(7.214), format_percent(None)) == ("7.21", MISSING)
    assert format_points(-0.1, 1.254) == "[-0.10, +1.25]"
    assert format_points(None, None) == MISSING


def test_narrow_intervals_have_a_second_digit() -> None:
    assert format_interval(1.35, 1.395) == "[+35.0%, +39.5%]"
    assert format_interval(1.0004, 1.0012) == "[+0.04%, +0.12%]"
    assert format_interval(None, 1.2) == MISSING


def test_intervals_have_the_sign_of_both_ends() -> None:
    assert format_interval(0.846, 0.879) == "[-15.4%, -12.1%]"
    assert format_interval(0.99, 1.098) == "[-1.0%, +9.8%]"
    assert format_interval(0.01, 1.001) == TOO_WIDE


def test_texts_are_cut_visibly_and_keep_their_blanks() -> None:
    assert clean("  20238 D  x\n", limit=80) == "  20238 D  x "
    assert clean("abcdefgh", limit=4) == "abc…"
    assert clean("\x00" * 9 + "ab", limit=4) == "…"
    assert clean("abcd", limit=4) == "abcd"
