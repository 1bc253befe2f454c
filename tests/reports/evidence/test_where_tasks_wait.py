# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's locks, preemptions and blocked times: a table of each kind, in all formats."""

from collections.abc import Callable, Iterator

import pytest

from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.evidence.blocking.section import analyse_sides as analyse_blocking
from schedperf.evidence.locks.capture import parse_locks
from schedperf.evidence.locks.section import analyse_sides as analyse_locks
from schedperf.evidence.preemption.capture import parse_preemption
from schedperf.evidence.preemption.section import analyse_sides as analyse_preemption
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section, SectionData
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.blocking import blocking
from schedperf_reports.evidence.locks import locks
from schedperf_reports.evidence.preemption import preemption
from tests.stack_documents import (
    blocking_document,
    locks_document,
    preemption_document,
    side_of,
)

STEPS = (0, 2, -1, 1, -2)
FACTOR = 3


def locks_data(*factors: int) -> SectionData:
    documents = [[locks_document(10 * each, step) for step in STEPS] for each in factors]
    names = ("base", "new")[: len(factors)]
    return analyse_locks(
        [side_of(name, runs, parse_locks) for name, runs in zip(names, documents, strict=True)]
    )


def preemption_data(*factors: int) -> SectionData:
    documents = [[preemption_document(99 * each, step) for step in STEPS] for each in factors]
    names = ("base", "new")[: len(factors)]
    sides = [
        side_of(name, runs, parse_preemption) for name, runs in zip(names, documents, strict=True)
    ]
    return analyse_preemption(sides, [250] * len(sides))


def blocking_data(*factors: int) -> SectionData:
    documents = [[blocking_document(110 * each, step) for step in STEPS] for each in factors]
    names = ("base", "new")[: len(factors)]
    return analyse_blocking(
        [side_of(name, runs, parse_blocking) for name, runs in zip(names, documents, strict=True)]
    )


KINDS: dict[
    str, tuple[Callable[..., SectionData], Callable[[Comparison], Iterator[Block]], str, str]
] = {
    "locks": (locks_data, locks, "mutex in fdget_pos(): wait time", "waits for locks"),
    "preemption": (
        preemption_data,
        preemption,
        "LWLockAcquire [postgres] < clear_page_erms() (kernel: page fault): wait",
        "preemptions by function",
    ),
    "blocking": (blocking_data, blocking, "pipe in read_all [postgres]: blocked", "by function"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_of_the_cause_is_marked(
    kind: str, make_comparison: Callable[..., Comparison]
) -> None:
    make, describe, name, title = KINDS[kind]
    data = make(1, FACTOR)
    blocks = list(describe(make_comparison(sections={kind: Section.of(data)})))
    tables = [block for block in blocks if isinstance(block, Table) and title in block.caption]
    rows = {row[0].text: row for table in tables for row in table.rows}
    assert any(cell.text.startswith("* +") for cell in rows[name])
    assert "lower is better" in "".join(block.text for block in blocks if isinstance(block, Text))


@pytest.mark.parametrize("kind", KINDS)
def test_one_side_has_values_and_no_changes(
    kind: str, make_comparison: Callable[..., Comparison]
) -> None:
    make, describe, name, _ = KINDS[kind]
    blocks = list(describe(make_comparison(sections={kind: Section.of(make(1))})))
    text = str(blocks)
    assert name in text
    assert "* +" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_section_without_data_states_its_reason(
    kind: str, make_comparison: Callable[..., Comparison]
) -> None:
    make, describe, _, _ = KINDS[kind]
    absent = Section.without(type(make(1)), "absent", "no run was recorded with it")
    [block] = describe(make_comparison(sections={kind: absent}))
    assert isinstance(block, Text)
    assert "no run was recorded with it" in block.text
