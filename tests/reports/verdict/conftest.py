# SPDX-License-Identifier: GPL-2.0-or-later
"""What the sections of the verdict and its evidence describe, as the tests ask for it."""

from collections.abc import Callable, Sequence

import pytest

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Graphic, Headline, Item, Items
from schedperf_reports.verdict.evidence import evidence
from schedperf_reports.verdict.verdict import verdict

HeadlineOf = Callable[[Comparison], Headline]
BlocksOf = Callable[[Comparison], list[Block]]
ItemsOf = Callable[[Comparison], list[Item]]
ItemOf = Callable[[Comparison, str], Item]


def _plain(blocks: Sequence[Block]) -> list[Block]:
    """Return what formats without boxes show."""
    return [
        inner
        for block in blocks
        for inner in (_plain(block.plain()) if isinstance(block, Graphic) else [block])
    ]


@pytest.fixture(scope="session")
def headline() -> HeadlineOf:
    """Return the verdict's sentence, which is its first block."""

    def first(comparison: Comparison) -> Headline:
        block = next(iter(verdict(comparison)))
        assert isinstance(block, Headline)
        return block

    return first


@pytest.fixture(scope="session")
def described() -> BlocksOf:
    """Return what formats without boxes show of both sections."""
    return lambda comparison: _plain([*verdict(comparison), *evidence(comparison)])


@pytest.fixture(scope="session")
def items(described: BlocksOf) -> ItemsOf:
    """Return the items of both sections."""
    return lambda comparison: [item for block in described(comparison) if isinstance(block, Items)
                               for item in block.items]  # fmt: skip


@pytest.fixture(scope="session")
def item(items: ItemsOf) -> ItemOf:
    """Return the only item that begins so: ``item(comparison, "4 results tested")``."""

    def only(comparison: Comparison, begin: str) -> Item:
        [found] = [one for one in items(comparison) if one.text.startswith(begin)]
        return found

    return only
