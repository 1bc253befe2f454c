# SPDX-License-Identifier: GPL-2.0-or-later
"""Quantities in the units and with the digits that people read."""

import pytest

from schedperf.model.units import (
    MISSING,
    Scale,
    cost_scale,
    format_measure,
    format_number,
    percent,
    scale_for,
    signed,
)


@pytest.mark.parametrize(
    ("unit", "values", "expected"),
    [
        ("s", (0.000612, 0.00084), ["612", "840", "us"]),
        ("s", (0.9996, 1.2), ["0.9996", "1.2", "s"]),
        ("s", (7.21e-9,), ["7.21", "ns"]),
        ("s", (3e-12,), ["0.003", "ns"]),
        ("s", (0.0,), ["0", "s"]),
        ("count", (0.0,), ["0", ""]),
        ("s", (None, 0.5), [MISSING, "500", "ms"]),
        ("B", (3 * 2**20,), ["3", "MiB"]),
        ("1/s", (138700.0,), ["138.7", "k/s"]),
        ("count", (12.0,), ["12", ""]),
        ("frobs", (61240.4,), ["61240", "frobs"]),
        ("s", (), ["s"]),
    ],
)
def test_values_of_a_row_share_the_unit_of_the_largest(
    unit: str, values: tuple[float | None, ...], expected: list[str]
) -> None:
    scale = scale_for(unit, *values)
    assert [*map(scale.format, values), scale.unit] == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (612.34, "612.3"),
        (999.96, "1000"),
        (1234567.0, "1234567"),
        (-0.00012345, "-0.0001234"),
        (1e300, "1e+300"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("unit", "values", "expected"),
    [
        ("cycles per message", (21_400.0, 7_790.0), ["21.4", "7.79", "k cycles per message"]),
        ("cycles per run", (3.2e9,), ["3.2", "G cycles per run"]),
        ("ns per message", (1250.0, None), ["1.25", MISSING, "us per message"]),
        ("ns per message", (85.0,), ["85", "ns per message"]),
    ],
)
def test_costs_have_one_unit_for_all_values(
    unit: str, values: tuple[float | None, ...], expected: list[str]
) -> None:
    scale = cost_scale(unit, *values)
    assert [*map(scale.format, values), scale.unit] == expected


@pytest.mark.parametrize(
    ("value", "unit", "other", "text"),
    [
        (0.84, "", 0.1, "84.0%"),
        (104.0, "W", 90.0, "104 W"),
        (0.0031, "J/message", 0.00025, "3.1 mJ"),
        (0.00025, "J/message", 0.0031, "0.25 mJ"),
        (2.1e9, "Hz", None, "2.1 GHz"),
        (0.0, "s/s", 0.5, "0 ms"),
        (12.5, "1/s", 9e9, "12.5"),
        (3.0, "1/switch", None, "3"),
        (None, "W", 90.0, MISSING),
    ],
)
def test_a_measure_has_its_unit_without_what_it_is_divided_by(
    value: float | None, unit: str, other: float | None, text: str
) -> None:
    assert format_measure(value, unit, other) == text


def test_a_change_has_a_sign() -> None:
    scale = scale_for("s", 0.002)
    changes = [scale.format_change(value) for value in (0.0015, -0.0015, None)]
    assert changes == ["+1.5", "-1.5", MISSING]


def test_a_change_that_rounds_to_zero_has_one_form() -> None:
    # The last bits of a sum depend on the processor.
    assert {signed(fraction) for fraction in (0.0, -0.0, 1e-17, -1e-17, 4e-5)} == {"+0.0%"}
    assert (signed(6e-4), signed(-6e-4), percent(-6e-5)) == ("+0.1%", "-0.1%", "-0.01%")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.412, 0.4133, 2.1094], ["0.412", "0.413", "2.109"]),
        ([0.0522, 3.1], ["0.0522", "3.1000"]),
        ([61240.0, 523.4], ["61240", "523"]),
        ([1.0, 0.0, None], ["1.000", "0.000", "-"]),
        # The sizes differ too much: each has its own digits.
        ([0.00123, 512.0], ["0.00123", "512"]),
        ([1.0, 1e9], ["1", "1e+09"]),
        ([float("nan"), 1.0], ["nan", "1"]),
        ([0.0, None], ["0", "-"]),
        ([], []),
    ],
)
def test_values_of_a_column_have_equally_many_decimals(
    values: list[float | None], shown: list[str]
) -> None:
    assert Scale(factor=1.0, unit="s").format_alike(values) == shown
