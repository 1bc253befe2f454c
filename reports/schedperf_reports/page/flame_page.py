"""The page of ``schedperf profile --flamegraph``: the drawing, and what its samples rest on."""

from collections.abc import Iterable, Mapping
from typing import Any

from schedperf_reports.blocks import Block, Text
from schedperf_reports.graphics.flame_tables import describe_flames
from schedperf_reports.graphics.flames import Flames, caption_of
from schedperf_reports.page.page import Described, Head, render_sections

# The section about what the samples rest on.
BASIS = "samples"


def draw_flame_page(basis: Iterable[Block], data: Mapping[str, Any], head: Head) -> str:
    """Return one self-contained HTML page: the drawing first, then what its samples rest on.

    :param basis: what the samples rest on; its warnings have a line each above the drawing
    :param data: ``events``, each as :mod:`schedperf.evidence.profile.flame_data` describes it
    """
    samples = Described(name=BASIS, title="Samples", blocks=tuple(basis))
    limits = tuple(
        block.text
        for block in samples.blocks
        if isinstance(block, Text) and block.tone == "warning"
    )
    first = data["events"][0]
    drawing = Flames(
        caption=caption_of(first),
        events=data["events"],
        sides=("base", "new")[: len(first["labels"])],
        limits=limits,
        basis=BASIS,
    )
    stacks = Described(
        name="stacks", title="Call stacks", blocks=(drawing, *describe_flames(data["events"]))
    )
    return render_sections(head, [stacks, samples])
