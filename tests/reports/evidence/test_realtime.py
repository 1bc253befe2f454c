# SPDX-License-Identifier: GPL-2.0-or-later
"""The report counts late samples above thresholds, and says when maxima cannot be compared."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.realtime.section import realtime as analyse
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.realtime import realtime
from tests.schedperf.evidence.realtime.conftest import tail_runs

Describe = Callable[..., list[Block]]
FEW = (3, 5, 4, 2, 6, 4)
MANY = (30, 36, 28, 33, 35, 31)


@pytest.fixture
def describe(
    tmp_path: Path,
    make_bundle: Callable[..., Path],
    make_comparison: Callable[..., Comparison],
) -> Describe:
    def run(*sides: Sequence[dict[str, Any]]) -> list[Block]:
        paths = [
            make_bundle(tmp_path / f"{number}.tar", runs=runs) for number, runs in enumerate(sides)
        ]
        data = analyse(name_sides([open_bundle(path) for path in paths]))
        return list(realtime(make_comparison(sections={data.section: Section.of(data)})))

    return run


def tables(blocks: list[Block]) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def test_late_samples_are_listed_by_threshold(describe: Describe) -> None:
    counted, maxima = tables(describe(tail_runs(FEW), tail_runs(MANY)))
    assert counted.brief
    assert counted.caption.startswith(
        "samples of at least a threshold, new vs base: 5 of 6 rows changed significantly; 60000 "
        "samples of base, 60000 of new"
    )
    row = next(row for row in counted.rows if row[1].text == "100 us")
    assert [cell.text for cell in row[2:4]] == ["30", "199"]
    assert row[6].text == "* +563.3%"
    none = counted.rows[-1]
    assert [cell.text for cell in none[1:4]] == ["200 us", "0", "0"]
    assert none[4].text.startswith("[0, ")
    assert [cell.text for cell in maxima.rows[0][1:3]] == ["155 us", "155 us"]


def test_a_change_from_zero_has_a_lower_bound(describe: Describe) -> None:
    [counted, _] = tables(describe(tail_runs(FEW), tail_runs(MANY, longest_us=300)))
    row = next(row for row in counted.rows if row[1].text == "200 us")
    assert [cell.text for cell in row[2:4]] == ["0", "6"]
    assert row[6].text == "* from 0"
    assert row[7].text.startswith("above +")


def test_why_maxima_of_few_runs_have_no_ci_is_said(describe: Describe) -> None:
    assert "no CI of maxima: " in " ".join(texts(describe(tail_runs(FEW[:4]), tail_runs(FEW[:4]))))
    assert "no CI of maxima: " not in " ".join(texts(describe(tail_runs(FEW), tail_runs(FEW))))


def test_maxima_of_unequal_runs_have_a_warning(describe: Describe) -> None:
    blocks = describe(tail_runs(FEW), tail_runs(FEW, samples=20_000))
    [warning] = [text for text in texts(blocks) if text.startswith("maxima are not compared: ")]
    assert "a maximum grows with the number of samples" in warning
    assert tables(blocks)[-1].rows[0][3].text == "-"


def test_no_column_is_a_mean(describe: Describe) -> None:
    blocks = describe(tail_runs(FEW), tail_runs(MANY))
    for table in tables(blocks):
        words = [table.caption, *(column.title + column.explains for column in table.columns)]
        assert not any("mean" in word or "average" in word for word in words)


def test_without_latencies_the_section_says_so(
    make_comparison: Callable[..., Comparison],
) -> None:
    [text] = realtime(make_comparison(sections={}))
    assert isinstance(text, Text)
    assert text.text == "not analysed"
