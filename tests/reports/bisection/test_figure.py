# SPDX-License-Identifier: GPL-2.0-or-later
"""The Plotly figure of a bisection shows the levels of its record."""

import json
from pathlib import Path
from typing import Any

import pytest

import schedperf
from schedperf.model.json_text import to_json
from tests.bisections import CAUSE, HOSTILE, Search, make_commits, named


def draw(document: schedperf.BisectDocument) -> Any:
    return schedperf.figure(document, "bisect")


def test_levels_and_boots_are_those_of_the_record(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(to_json(named()))
    document = schedperf.read_bisection(path)
    levels, boots = draw(document).data
    assert [*levels.x] == [tested.commit.hash[:12] for tested in document.tested]
    errors = levels.error_y
    known_levels = [tested.level for tested in document.tested]
    for known, y, high, low in zip(
        known_levels, levels.y, errors.array, errors.arrayminus, strict=True
    ):
        assert known is not None
        assert y == known.mean
        assert (y + high, y - low) == pytest.approx((known.ci_high, known.ci_low))
    used = [boot.value for tested in document.tested for boot in tested.boots if boot.is_used]
    assert [*boots.y] == used


def test_a_line_marks_each_named_commit() -> None:
    document = named()
    figure = draw(document)
    names = [tested.commit for tested in document.tested]
    commit = make_commits()[CAUSE]
    assert [shape.x0 for shape in figure.layout.shapes] == [names.index(commit) - 0.5]
    assert [note.text for note in figure.layout.annotations] == [commit.hash[:12]]
    assert figure.layout.title.text == (
        f"first bad commit: {commit.hash[:12]} sched: change {CAUSE}"
    )


def test_subjects_are_not_html_or_tex() -> None:
    text = json.dumps(draw(named(subject=HOSTILE)).to_dict(), default=str, ensure_ascii=False)
    assert "&lt;/script&gt;" in text
    assert not {"<", "$", "\u202e"}.intersection(text)
    assert "u001b" not in text


@pytest.mark.parametrize(
    ("steps", "boots", "title"),
    [({CAUSE: 0.92}, 25, "more boots are needed"), ({}, 999, "good and bad do not differ")],
)
def test_an_open_search_is_drawn_without_lines(
    steps: dict[int, float], boots: int, title: str
) -> None:
    figure = draw(Search(make_commits(), steps).finish(boots))
    assert figure.layout.title.text == title
    assert not figure.layout.shapes


def test_what_cannot_be_drawn_is_one_line() -> None:
    with pytest.raises(schedperf.InputError, match="unknown kind 'runs' of a bisection"):
        schedperf.figure(named(), "runs")  # type: ignore[call-overload] # what is tested
    with pytest.raises(schedperf.InputError, match="no commit has a used boot"):
        draw(Search(make_commits(), {}).judge())
