"""The call stacks of the profile section: one drawing of all trees, then what changed in them."""

from collections.abc import Iterator

from schedperf.evidence.profile.record import FlameComparison, FlameLists, FlameTrees
from schedperf.model.comparison import Comparison, data_of
from schedperf.runs.side import BASE
from schedperf_reports.blocks import Block, Text
from schedperf_reports.graphics.flame_tables import describe_flames
from schedperf_reports.graphics.flames import Flames, caption_of
from schedperf_reports.words.rows import count_of


def stacks_of(comparison: Comparison, side: str) -> FlameComparison | None:
    """Return the trees of a side against base; None where there is none."""
    data = data_of(comparison.sections, FlameTrees)
    compared = () if data is None else data.comparisons
    return next((one for one in compared if one.side == side and one.events), None)


def why_no_stacks(comparison: Comparison) -> str:
    """Say why there is no tree."""
    section = comparison.sections.get(FlameTrees.section)
    if section is None or section.status == "ok":
        return "no point was sampled with call chains on both sides"
    return section.reason or "not analysed"


def draw_stacks(trees: FlameComparison, side: str) -> Iterator[Block]:
    """Yield the drawing."""
    yield Flames(
        caption=f"Call stacks: {caption_of(trees.events[0])}{_state_changes(trees)}",
        trees=trees.events,
        sides=(BASE, side),
    )


def _state_changes(trees: FlameComparison) -> str:
    # Of one run a side nobody knows what is noise, which the caption says already.
    told = [
        tree.lists.counts.changed
        for tree in trees.events
        if min(tree.counts) > 1 and isinstance(tree.lists, FlameLists)
    ]
    return f": {count_of(sum(told), 'frame')}" if told else ""


def describe_stacks(trees: FlameComparison) -> Iterator[Block]:
    """Yield which frames changed, vanished and appeared, and what has no tree."""
    yield from describe_flames(trees.events)
    if trees.left_out:
        yield Text(
            text=f"no flame graph here, but of schedperf profile --point … --flamegraph: "
            f"{'; '.join(trees.left_out)}",
            tone="muted",
        )
