# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of ``schedperf profile --flamegraph``: the graph, and how it was sampled."""

from collections.abc import Iterable, Sequence

from schedperf.evidence.profile.flame_record import FlameTree
from schedperf_reports.blocks import Block, Text
from schedperf_reports.graphics.flames import Flames, caption_of, describe_flames
from schedperf_reports.page.head import Head
from schedperf_reports.page.page import Described, render_sections

# The section about the samples.
BASIS = "samples"


def draw_flame_page(basis: Iterable[Block], trees: Sequence[FlameTree], head: Head) -> str:
    """Return one self-contained HTML page: the graph first, then how its samples were recorded.

    :param basis: how the samples were recorded; each warning gets a line above the graph
    :param trees: at least one, of which the reader chooses one
    """
    samples = Described(name=BASIS, title="Samples", blocks=tuple(basis))
    limits = tuple(
        block.text
        for block in samples.blocks
        if isinstance(block, Text) and block.tone == "warning"
    )
    first = trees[0]
    drawing = Flames(
        caption=caption_of(first),
        trees=trees,
        sides=("base", "new")[: len(first.labels)],
        limits=limits,
        basis=BASIS,
    )
    stacks = Described(
        name="stacks", title="Call stacks", blocks=(drawing, *describe_flames(trees))
    )
    return render_sections(head, [stacks, samples])
