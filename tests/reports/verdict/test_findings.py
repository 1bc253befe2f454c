# SPDX-License-Identifier: GPL-2.0-or-later
"""The sections of reasons and of next steps: ranked, short, with what proves them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison, NextStep
from schedperf.model.sections import Finding, Section
from schedperf.model.sides import SideSummary
from schedperf_reports.blocks import LONGEST_DETAIL, Block, Item, Items, Text
from schedperf_reports.graphics.panels import Fold
from schedperf_reports.sections import shown_sections
from schedperf_reports.verdict.findings import (
    EFFECTS,
    LONGEST_REASON,
    MOST_REASONS,
    NOT_A_CAUSE,
    NOTHING_DECIDED,
    findings,
    in_short,
)
from schedperf_reports.verdict.next_steps import BRIEF_STEPS, next_steps
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]

STEP = NextStep(id="a", what="run it", why="it is missing", commands=("one x", "two 'y z'"))


@pytest.fixture
def reasons(make_comparison: Make) -> tuple[Finding, ...]:
    """Return the record's findings, the second of which has a row that proves it."""
    return make_comparison().findings


def lists(blocks: Sequence[Block]) -> list[tuple[Item, ...]]:
    return [block.items for block in blocks if isinstance(block, Items)]


def texts(blocks: Sequence[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_reasons_are_numbered_and_followed_by_how_far_they_explain(make_comparison: Make) -> None:
    blocks = list(findings(make_comparison()))
    first = blocks[0]
    assert isinstance(first, Items)
    assert first.ordered
    assert first.brief > 0
    assert first.items[1].detail == "5+5 runs"
    assert first.items[1].evidence == ("benchmarks",)
    assert "correlated with the change; causation not shown" in texts(blocks)


@pytest.mark.parametrize(
    ("support", "detail"),
    [
        ("grade B: three of four", "grade B: three of four; 1 build per side"),
        ("", "1 build per side"),
    ],
)
def test_the_support_stands_before_the_replication(
    make_comparison: Make, reasons: tuple[Finding, ...], support: str, detail: str
) -> None:
    graded = replace(reasons[0], support=support)
    [items, *_] = lists(list(findings(make_comparison(findings=(graded,)))))
    assert items[0].detail == detail


def test_a_sample_size_beside_the_interval_is_not_repeated(
    make_comparison: Make, reasons: tuple[Finding, ...]
) -> None:
    stated = replace(reasons[1], change=f" (+5.0% [+4.0%, +6.0%], {reasons[1].replication})")
    items, *_ = findings(make_comparison(findings=(stated,)))
    assert isinstance(items, Items)
    assert items.items[0].detail == ""
    assert reasons[1].replication not in items.whole[0].detail


def test_the_first_screen_has_some_and_the_fold_has_all_of_them_in_full(
    make_comparison: Make, reasons: tuple[Finding, ...]
) -> None:
    long = replace(reasons[1], clause="number 1", details=f"; {'and more ' * 40}")
    blocks = list(findings(make_comparison(findings=(long,) * 7)))
    assert len(lists(blocks)[0]) == MOST_REASONS
    assert lists(blocks)[0][0].text == "number 1"
    fold = blocks[-1]
    assert isinstance(fold, Fold)
    assert fold.caption == "7 findings in full"
    [whole] = lists(fold.blocks)
    assert [item.text for item in whole] == [long.claim] * 7
    # A text of everything has them in full above.
    assert fold.plain() == ()
    assert fold.inner() == fold.blocks
    assert isinstance(blocks[0], Items)
    assert blocks[0].whole == whole


def test_a_long_claim_is_without_its_details(reasons: tuple[Finding, ...]) -> None:
    finding = replace(reasons[1], clause="b is slower", change=", +37%", details="; look at c")
    assert in_short(finding) == "b is slower, +37%; look at c"
    long = replace(finding, details="x" * LONGEST_REASON)
    assert in_short(long) == "b is slower, +37%"


def test_what_went_the_other_way_and_what_was_unseen_are_no_reasons(
    make_comparison: Make, reasons: tuple[Finding, ...]
) -> None:
    against = replace(reasons[0], clause="fewer", bearing="against")
    effect = replace(reasons[0], clause="costs energy", bearing="effect")
    unseen = replace(reasons[0], clause="blind", bearing="unseen", attribution="neither")
    blocks = list(findings(make_comparison(findings=(against, effect, unseen), sections={})))
    assert not any(block.ordered for block in blocks if isinstance(block, Items))
    assert "no finding explains the result" in texts(blocks)
    assert [[item.text for item in items] for items in lists(blocks)] == [
        ["fewer"], ["costs energy"], ["blind"],
    ]  # fmt: skip
    assert "changes in the direction opposite to the verdict" in texts(blocks)
    assert EFFECTS in texts(blocks)
    assert lists(blocks)[2][0].tone == "warning"


def test_analyses_that_were_not_made_are_named_with_where_it_says_why(
    make_comparison: Make,
) -> None:
    absent = Section(schema="x", status="absent", reason="because", data=None)
    sections = dict.fromkeys(("pelt", "c2c", "unknown"), absent)
    [items] = lists(list(findings(make_comparison(findings=(), sections=sections))))
    assert items[0].text == "not recorded: PELT updates; Bouncing cache lines"
    assert items[0].evidence == ("absent-scheduler", "absent-memory")


def test_of_several_sides_each_reason_names_its_side(
    make_comparison: Make, make_side: Callable[..., SideSummary]
) -> None:
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    [items, *_] = lists(list(findings(make_comparison(sides=sides))))
    assert all(item.text.startswith("new: ") for item in items)


def test_all_steps_are_listed(make_comparison: Make) -> None:
    [items] = next_steps(make_comparison(next_steps=(STEP,) * 7))
    assert isinstance(items, Items)
    assert len(items.items) == 7


def test_a_step_has_its_reason_and_its_commands(make_comparison: Make) -> None:
    [steps] = next_steps(make_comparison(next_steps=(STEP,)))
    item = Item(text="run it", detail="it is missing", commands=("one x", "two 'y z'"))
    assert steps == Items(items=(item,), ordered=True, brief=BRIEF_STEPS)
    long = replace(STEP, why="x" * LONGEST_DETAIL, conditions=("boot it first",))
    [steps] = next_steps(make_comparison(next_steps=(long,)))
    assert isinstance(steps, Items)
    assert steps.items[0].detail == f"{'x' * LONGEST_DETAIL}; boot it first"
    assert steps.items[0].short == replace(item, detail="boot it first")


def element_of(text: str, name: str) -> str:
    return text[text.index(f'<section id="{name}"') :].partition("</section>")[0]


@pytest.fixture
def page(make_comparison: Make) -> Callable[..., str]:
    """Draw the page of a record."""
    from schedperf_reports.formats import Options  # noqa: PLC0415
    from schedperf_reports.formats.html import html  # noqa: PLC0415

    def draw(**changes: Any) -> str:
        return html(make_comparison(**changes), Options(width=78, colour=False))

    return draw


def test_the_page_has_boxes_steps_and_folds_without_scripting(page: Callable[..., str]) -> None:
    text = page(next_steps=(STEP, STEP))
    sure, steps = element_of(text, "evidence"), element_of(text, "next_steps")
    assert sure.count('<div class="panel ') == 2
    assert "<h3>comparable: yes <small>58 fields compared" in sure
    assert steps.count('<details class="commands" open>') == 1
    assert "<code>two &#39;y z&#39;</code>" in steps
    assert '<button type="button" class="copy" hidden>' in steps
    assert '<details class="later fold">' in element_of(text, "findings")


def test_markup_in_a_command_is_text(page: Callable[..., str]) -> None:
    evil = replace(STEP, commands=("<script>alert(1)</script>\u202e",))
    text = element_of(page(next_steps=(evil,)), "next_steps")
    assert "<script>" not in text
    assert "<code>&lt;script&gt;alert(1)&lt;/script&gt;</code>" in text


@pytest.mark.parametrize(
    ("word", "title", "text"),
    [
        ("regression", "Reasons", NOT_A_CAUSE),
        ("no-change", "Other changes", NOTHING_DECIDED),
        ("inconclusive", "Findings", NOTHING_DECIDED),
    ],
)
def test_what_is_not_decided_has_no_reasons(
    make_comparison: Make, word: Any, title: str, text: str
) -> None:
    overall = overall_of(word, "because", 0)
    comparison = make_comparison(overall=overall)
    assert title in [section.title for section in shown_sections(comparison)]
    assert text in texts(list(findings(comparison)))
