# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of ``schedperf profile --flamegraph``: the drawing, and where its samples come from."""

from collections.abc import Iterable, Sequence

from schedperf.evidence.profile.record import FlameTree
from schedperf_reports.blocks import Block, Text
from schedperf_reports.graphics.flames import Flames, caption_of, describe_flames
from schedperf_reports.page.head import Head
from schedperf_reports.page.page import Described, render_sections

# The section about what the samples rest on.
BASIS = "samples"


def draw_flame_page(basis: Iterable[Block], trees: Sequence[FlameTree], head: Head) -> str:
    """Return one self-contained HTML page: the drawing first, then what its samples rest on.

    :param basis: what the samples rest on; its warnings have a line each above the drawing
    :param trees: one of each event
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
