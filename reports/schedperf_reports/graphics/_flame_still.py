"""Where the frames of a flame graph are on a page that runs no script, and in which colours.

The places, marks and colours are those that the script gives the same frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

Data = Mapping[str, Any]

# Of the width: what is narrower has no room for a letter on any screen, and without a script
# nobody can zoom.
LEAST_PCT = 0.5
# Of the width: four letters of a line of 1100 pixels; narrower frames have their words as a title.
LEAST_LABEL_PCT = 2.5
# Of the width: levels below the last one with a frame this wide, or with one that changed, are a
# sliver that would take more height than all the rest.
LEAST_DEEPEST_PCT = 1.5
ROW_PIXELS = 20
# How much colour the smallest and the largest change have, in per cent; with more of it the letters
# would have less than 4.5:1 of contrast in the dark (WCAG 2, 1.4.3).
FAINTEST, STRONGEST = 20.0, 48.0

ROOT, REMAINDER = -1, -2


@dataclass(frozen=True, kw_only=True, slots=True)
class StillFrame:
    """One frame.

    :param title: its numbers in words
    :param kind: classes of the style sheet
    :param left: in per cent of the width, as ``width``
    :param top: in pixels
    :param heat: how much of its colour it has, in per cent
    """

    label: str
    title: str
    kind: str
    left: float
    width: float
    top: int
    heat: float


def place_frames(event: Data) -> tuple[StillFrame, ...]:
    """Return the frames of a tree that are wide enough or changed, each after its caller.

    Of two sides the width is half of base and half of new, so that what vanished has one too.
    """
    frames = tuple(_walk(_Tree.of(event)))
    telling = [one.top for one in frames if one.width >= LEAST_DEEPEST_PCT or _is_coloured(one)]
    return tuple(one for one in frames if one.top <= max(telling, default=0))


def _is_coloured(frame: StillFrame) -> bool:
    return not {"more", "less"}.isdisjoint(frame.kind.split())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tree:
    # One measure of one tree; all lists have one value a frame.
    event: Data
    values: Data
    widths: Sequence[float]
    changes: Sequence[float | None]
    shown: Sequence[float | None]
    children: Sequence[Sequence[int]]

    @classmethod
    def of(cls, event: Data) -> "_Tree":
        measure = event["measures"][0]
        values = measure["inclusive"]
        widths = [value or 0.0 for value in values["base"]]
        changes: list[float | None] = [None] * len(widths)
        if "new" in values:
            changes = [
                None if old is None or new is None else new - old
                for old, new in zip(values["base"], values["new"], strict=True)
            ]
            widths = [
                (old + (new or 0.0)) / 2.0 for old, new in zip(widths, values["new"], strict=True)
            ]
        children: list[list[int]] = [[] for _ in widths]
        for frame, parent in enumerate(event["parent"]):
            if parent >= 0:
                children[parent].append(frame)
        for some in children:
            some.sort(key=lambda frame: (event["name"][frame] == REMAINDER, -widths[frame]))
        return cls(
            event=event,
            values=values,
            widths=widths,
            changes=changes,
            shown=_shown_changes(event, changes),
            children=children,
        )


def _shown_changes(event: Data, changes: Sequence[float | None]) -> list[float | None]:
    # What gives a frame its colour: its change with what it calls, or, where its function changed
    # on all paths together, its own part of that.
    measure = event["measures"][0]
    changed = set(measure["inclusive"].get("changed", ()))
    functions, own = measure["functions"], measure["self"]
    changed_names = set(functions.get("changed", ()))
    shown: list[float | None] = []
    for frame, name in enumerate(event["name"]):
        part = None
        if name in changed_names:
            part = own["new"][frame] - own["base"][frame]
            if part * (functions["new"][name] - functions["base"][name]) <= 0.0:
                part = None
        shown.append(changes[frame] if frame in changed else part)
    return shown


def _walk(tree: _Tree) -> Iterator[StillFrame]:
    whole = tree.widths[0]
    largest = max((abs(change) for change in tree.changes if change is not None), default=0.0)
    wanted = _with_callers(tree)
    pending = [(0, 0, 0.0)]
    while pending and whole > 0.0:
        frame, level, left = pending.pop()
        yield _draw(tree, frame, level, left, largest or 1.0)
        for child in tree.children[frame]:
            width = 100.0 * tree.widths[child] / whole
            if width >= LEAST_PCT or child in wanted:
                pending.append((child, level + 1, left))
            left += width


def _with_callers(tree: _Tree) -> set[int]:
    # What changed, and the frames that lead there.
    wanted: set[int] = set()
    for changed, shown in enumerate(tree.shown):
        frame = changed if shown else -1
        while frame >= 0 and frame not in wanted:
            wanted.add(frame)
            frame = tree.event["parent"][frame]
    return wanted


def _draw(tree: _Tree, frame: int, level: int, left: float, largest: float) -> StillFrame:
    width = 100.0 * tree.widths[frame] / tree.widths[0]
    change = tree.shown[frame]
    tone = "" if not change else "more" if change > 0.0 else "less"
    name = _name(tree.event, frame)
    mark = {"more": "\u25b2 ", "less": "\u25bc ", "": ""}[tone]
    return StillFrame(
        label=mark + name if width >= LEAST_LABEL_PCT else mark.strip(),
        title=f"{name}: {_say(tree, frame)}",
        kind=" ".join(part for part in (tone, _origin(tree.event, frame)) if part),
        left=left,
        width=width,
        top=level * ROW_PIXELS,
        heat=FAINTEST + (STRONGEST - FAINTEST) * sqrt(min(1.0, abs(change or 0.0) / largest)),
    )


def _name(event: Data, frame: int) -> str:
    place = event["name"][frame]
    if place == ROOT:
        return str(event["event"])
    if place == REMAINDER:
        return f"({event['hidden'][frame]} smaller frames)"
    return str(event["names"][place]["symbol"])


def _origin(event: Data, frame: int) -> str:
    place = event["name"][frame]
    if place == REMAINDER:
        return "rest"
    return "kernel" if place >= 0 and event["names"][place]["dso"].startswith("[") else ""


def _say(tree: _Tree, frame: int) -> str:
    base = tree.values["base"][frame]
    if "new" not in tree.values:
        return f"{base:.2f} %"
    new, change = tree.values["new"][frame], tree.changes[frame]
    if base is None or new is None or change is None:
        return "not known on both sides"
    low, high = tree.values["low"][frame], tree.values["high"][frame]
    interval = "no interval" if low is None else f"95 % interval {low:+.2f} to {high:+.2f}"
    return f"base {base:.2f}, new {new:.2f} %; change {change:+.2f} pp ({interval})"
