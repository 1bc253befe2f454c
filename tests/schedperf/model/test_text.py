# SPDX-License-Identifier: GPL-2.0-or-later
"""Text of strangers, made safe to show."""

import pytest

from schedperf.model.text import clean, clean_line


@pytest.mark.parametrize(
    "unsafe",
    [
        "\x1b",
        "\x00",
        "\x07",
        "\r",
        "\x7f",
        "\x9b",
        "\u061c",
        "\u200b",
        "\u200f",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\U000e0041",
        "\udcff",
    ],
    ids=ascii,
)
def test_characters_that_drive_a_terminal_or_deceive_are_stripped(unsafe: str) -> None:
    assert clean(f"a{unsafe}b") == "ab"
    assert unsafe not in clean_line(f"a{unsafe}b")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("a ##[add-mask]b", "a #[add-mask]b"),
        ("##vso[task.setvariable]", "#vso[task.setvariable]"),
        ("###\x1b#[set-env]", "#[set-env]"),
        ("## [x] #[x]", "## [x] #[x]"),
    ],
)
def test_commands_of_ci_systems_lose_a_character(printed: str, expected: str) -> None:
    assert clean(printed) == expected


def test_letters_of_all_scripts_tabs_and_newlines_stay() -> None:
    text = "ümlaut עברית 漢字 → 12.68%\tx\n"
    assert clean(text) == text


def test_a_line_has_no_breaks() -> None:
    assert clean_line("  a\n\tb\u2028c\x85d ") == "a b c d"
