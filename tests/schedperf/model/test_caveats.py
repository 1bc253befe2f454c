# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts of caveats: counts agree with their nouns."""

import re
from string import Formatter

import pytest

from schedperf.model.caveats import SHORT_TEXTS, TEXTS, caveat

COUNTED: dict[str, tuple[dict[str, object], str, str]] = {
    "failed-runs": ({"failed": 1, "side": "new"}, "total", "run"),
    "discarded-runs": ({"discarded": 1, "side": "new", "reason": "a"}, "total", "run"),
    "unpaired": ({"side": "new"}, "count", "run"),
    "unbalanced": ({"sides": 3, "cycle": 6}, "rounds", "round"),
    "history": ({}, "count", "earlier recording"),
    "unlisted-members": ({"bundle": "new.tar", "first": "a"}, "count", "member"),
    "unfinished-runs": ({"bundle": "new.tar", "first": "a"}, "count", "run"),
    "work-not-done": ({"side": "new", "problem": "a"}, "count", "run"),
    "bad-lines": ({"label": "new", "problem": "a"}, "count", "line"),
    "left-behind": ({"side": "new", "names": "sleep"}, "count", "run"),
    "lost-events": ({"side": "new", "collector": "bpf_locks", "lost": 1}, "total", "event"),
    "output-left-out": ({"side": "new", "bytes": 40, "first": "a"}, "count", "run"),
    "no-number": ({"side": "new", "first": "a"}, "count", "run"),
}


@pytest.mark.parametrize("code", COUNTED)
def test_noun_agrees_with_count(code: str) -> None:
    numbers, name, noun = COUNTED[code]
    one, many = (caveat(code, **numbers, **{name: count}).text for count in (1, 12))
    assert f"1 {noun}" in one
    assert f"1 {noun}s" not in one
    assert many == one.replace(f"1 {noun}", f"12 {noun}s")


def test_all_counted_texts_are_tested() -> None:
    counted = {code for code, text in TEXTS.items() if re.search(r":[a-z ]{2,}}", text)}
    assert counted == COUNTED.keys()


def test_format_specs_of_numbers_are_unchanged() -> None:
    text = caveat("coarse", step=0.001, unit="s", percent=12).text
    assert text == "the benchmark prints with a resolution of 0.001 s, 12.0% of the value"


@pytest.mark.parametrize("code", SHORT_TEXTS)
def test_a_short_text_states_a_part_of_the_text(code: str) -> None:
    short, whole = SHORT_TEXTS[code], TEXTS[code]
    assert len(short) < len(whole)
    assert fields_of(short) <= fields_of(whole)


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_caveats_of_earlier_versions_keep_their_text() -> None:
    modes = caveat("modes", base="2 of 16", new="9 of 16", side="new", p=0.029, within="-0.1%")
    assert modes.text == modes.short
    assert modes.text.endswith("(p = 0.029); within-mode change -0.1%")
