# SPDX-License-Identifier: GPL-2.0-or-later
"""Find numbers of tables that a comparison's JSON does not have."""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import get_args

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Verdict
from schedperf_reports.blocks import Block, Cell, Graphic, Table
from schedperf_reports.sections import shown_sections

# What is sorted by a number that its cell does not print.
ORDERED = re.compile(
    r" *(p\d+(\.\d+)?|max)"  # By the percentile.
    rf"|{'|'.join(get_args(Verdict))}"  # By the order of verdicts.
    r"|\d+\+\d+( \w+)?"  # By the sum of both sample sizes.
    r"|(node \d+ )?[\d.]+ -> [\d.]+"  # By the difference of two numbers, both of the record.
)


def computed_numbers(comparison: Comparison, document: object) -> list[str]:
    """Return the cells with a number that is not exactly in the document."""
    known = {*_numbers(document), *_parameters(comparison)}
    return [
        f"{section.name}: {table.caption}: {column}: {cell.text!r} is {cell.sort!r}"
        for section in shown_sections(comparison)
        for table in _tables(section.describe(comparison))
        for column, cell in _cells(table)
        if cell.sort is not None
        and not math.isnan(cell.sort)
        and cell.sort not in known
        and not ORDERED.fullmatch(cell.text)
    ]


def _parameters(comparison: Comparison) -> Iterator[float]:
    # A point is a text of numbers: "groups=4,threads=8".
    for row in comparison.rows:
        for value in re.findall(r"=([^,]*)", row.point):
            with suppress(ValueError):
                yield float(value)


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
            for details in block.details:
                yield from _tables(details)
        elif isinstance(block, Graphic):
            yield from _tables((*block.plain(), *block.inner()))


def _cells(table: Table) -> Iterator[tuple[str, Cell]]:
    for row in table.rows:
        for column, cell in zip(table.columns, row, strict=True):
            yield column.title, cell


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value
