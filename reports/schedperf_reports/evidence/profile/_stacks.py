"""The call stacks of the profile section: one drawing of all trees, then what changed in them."""

from collections.abc import Iterator, Mapping
from typing import Any

from schedperf.model.comparison import Comparison
from schedperf.runs.side import BASE
from schedperf_reports.blocks import Block, Text
from schedperf_reports.graphics.flame_tables import describe_flames
from schedperf_reports.graphics.flames import Flames, caption_of
from schedperf_reports.words.rows import count_of

Entry = Mapping[str, Any]


def stacks_of(comparison: Comparison, side: str) -> Entry | None:
    """Return the trees of a side against base; None where there is none."""
    section = comparison.sections.get("flames")
    if section is None or section.status != "ok":
        return None
    data: Any = section.data
    found = (one for one in data["comparisons"] if one["side"] == side and one["events"])
    return next(found, None)


def why_no_stacks(comparison: Comparison) -> str:
    """Say why there is no tree."""
    section = comparison.sections.get("flames")
    if section is None or section.status == "ok":
        return "no point was sampled with call chains on both sides"
    return section.reason or "not analysed"


def draw_stacks(trees: Entry, side: str) -> Iterator[Block]:
    """Yield the drawing."""
    yield Flames(
        caption=f"Call stacks: {caption_of(trees['events'][0])}{_state_changes(trees)}",
        events=trees["events"],
        sides=(BASE, side),
    )


def _state_changes(trees: Entry) -> str:
    # Of one run a side nobody knows what is noise, which the caption says already.
    known = (event for event in trees["events"] if min(event["counts"]) > 1)
    told = [event["lists"]["counts"]["changed"] for event in known]
    return f": {count_of(sum(told), 'frame')}" if told else ""


def describe_stacks(trees: Entry) -> Iterator[Block]:
    """Yield which frames changed, vanished and appeared, and what has no tree."""
    yield from describe_flames(trees["events"])
    if trees["left_out"]:
        yield Text(
            text=f"no flame graph here, but of schedperf profile --point … --flamegraph: "
            f"{'; '.join(trees['left_out'])}",
            tone="muted",
        )
