"""Flame graphs: a drawing for HTML, and the tables that say the same in words.

Both read the data of :mod:`schedperf.profile.flame_data` and nothing else; the drawing knows
nothing of the page around it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from schedperf_reports._clean import clean
from schedperf_reports._page import (
    LONGEST_TEXT,
    Described,
    Drawn,
    Head,
    environment,
    render_sections,
)
from schedperf_reports._units import MISSING
from schedperf_reports._words import count_of
from schedperf_reports.blocks import Block, Cell, Column, Table, Text

Data = Mapping[str, Any]

# The section about what the samples rest on.
BASIS = "samples"
# Callers that a table names of a frame.
MOST_CALLERS = 3
# Rows that a terminal shows of a list.
MOST_ROWS = 10

_FRAME = Column(title="frame", code=True)
_CALLERS = Column(title="called from", code=True, priority=2)
_OBJECT = Column(title="object", code=True, priority=3)


def draw_flame_page(basis: Iterable[Block], data: Data, head: Head) -> str:
    """Return one self-contained HTML page: the drawing first, then what its samples rest on.

    :param basis: what the samples rest on; its warnings have a line each above the drawing
    """
    samples = Described(name=BASIS, title="Samples", blocks=tuple(basis))
    limits = [
        block.text
        for block in samples.blocks
        if isinstance(block, Text) and block.tone == "warning"
    ]
    stacks = Described(
        name="stacks",
        title="Call stacks",
        blocks=tuple(describe_flames(data)),
        drawn=(draw_flames(data, limits),),
    )
    return render_sections(head, [stacks, samples])


def draw_flames(data: Data, limits: Sequence[str]) -> Drawn:
    """Return the drawing of all events of the data, which the reader chooses from.

    :param limits: what the samples cannot show; the section ``BASIS`` has the whole text
    """
    first = data["events"][0]
    template = environment().get_template("flame.html.j2")
    drawn = template.render(
        caption=_caption(first, took_turns=data["took_turns"]),
        limits=limits,
        basis=BASIS,
        has_new=len(first["labels"]) > 1,
        least=f"{100.0 * first['least_share']:g}",
        island=htmlsafe_json_dumps(_clean_texts(data), allow_nan=False),
    )
    return Drawn(
        markup=Markup(drawn),  # noqa: S704 # the template escapes
        style="flame.css",
        scripts=("flame_tree.js", "flame.js"),
    )


def describe_flames(data: Data) -> Iterator[Block]:
    """Yield, for each event, the tables that need no scripting."""
    for event in data["events"]:
        if len(data["events"]) > 1:
            yield Text(text=event["event"], tone="strong")
        if len(event["labels"]) == 1:
            yield _table_of_hottest(event)
        else:
            yield from _describe_changes(event, beyond=_beyond(took_turns=data["took_turns"]))


def _caption(event: Data, *, took_turns: bool) -> str:
    if len(event["labels"]) == 1:
        runs = _runs(event)
        return f"{event['labels'][0]}, {runs if event['counts'] == [1] else f'mean of {runs}'}"
    base, new = event["labels"]
    sides = f"{new} against {base}, n = {_runs(event)}"
    if min(event["counts"]) == 1:
        return f"{sides}; nobody knows what of it is noise, so nothing is coloured"
    return f"{sides}; coloured is what {_beyond(took_turns=took_turns)}"


def _beyond(*, took_turns: bool) -> str:
    return "changed beyond noise" if took_turns else "changed beyond noise, or drifted"


def _runs(event: Data) -> str:
    counts = " + ".join(map(str, event["counts"]))
    several = event["independent"]
    return f"{counts} {several if counts != '1' else several.removesuffix('s')}"


def _describe_changes(event: Data, *, beyond: str) -> Iterator[Block]:
    if min(event["counts"]) == 1:
        several = event["independent"]
        yield Text(
            text=f"n = {_runs(event)}: no interval; record several {several}", tone="warning"
        )
    lists = event["lists"]
    if lists["changed"]:
        yield _table_of_changes(event, beyond)
    elif min(event["counts"]) > 1:
        yield Text(text=f"{event['event']}: no frame's own time changed beyond noise")
    for name, side, words in (
        ("vanished", "base", "only base has"),
        ("appeared", "new", "only new has"),
    ):
        if lists[name]:
            yield _table_of_one_side(event, name, side, words)


def _table_of_changes(event: Data, beyond: str) -> Table:
    lists, own = event["lists"], event["measures"][0]["self"]
    return Table(
        caption=(
            f"{event['event']}: {count_of(lists['counts']['changed'], 'frame')} whose own time "
            f"{beyond}, % of all time, change in percentage points"
            f"{_left_out(lists, 'changed')}"
        ),
        columns=(
            _FRAME,
            Column(title="base %", align="right"),
            Column(title="new %", align="right"),
            Column(title="change, pp", align="right"),
            Column(title="95 % CI", align="right", priority=1),
            Column(title="q", align="right", priority=1),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=_symbol(event, frame), tone="strong"),
                Cell(text=_share(own["base"][frame])),
                Cell(text=_share(own["new"][frame])),
                Cell(text=f"{own['new'][frame] - own['base'][frame]:+.2f}", tone="strong"),
                Cell(text=f"{own['low'][frame]:+.2f}..{own['high'][frame]:+.2f}"),
                Cell(text=f"{own['q'][frame]:.2g}"),
                *_where(event, frame),
            )
            for frame in lists["changed"]
        ),
        limit=MOST_ROWS,
    )


def _table_of_one_side(event: Data, name: str, side: str, words: str) -> Table:
    lists, inclusive = event["lists"], event["measures"][0]["inclusive"]
    has, has_not = event["counts"] if side == "base" else reversed(event["counts"])
    several = event["independent"]
    other = "new" if side == "base" else "base"
    return Table(
        caption=(
            f"{event['event']}: {count_of(lists['counts'][name], 'call path')} that {words} (in 0 "
            f"of {count_of(has_not, several.removesuffix('s'))} of {other}), with what it calls, "
            f"% of all time{_left_out(lists, name)}"
        ),
        columns=(
            _FRAME,
            Column(title=f"{side} %", align="right"),
            Column(title=f"in {several}", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=_symbol(event, frame)),
                Cell(text=_share(inclusive[side][frame])),
                Cell(text=f"{sampled} of {has}"),
                *_where(event, frame),
            )
            for frame, sampled in zip(lists[name], lists["sampled"][name], strict=True)
        ),
        limit=MOST_ROWS,
    )


def _table_of_hottest(event: Data) -> Table:
    own, inclusive = (event["measures"][0][extent]["base"] for extent in ("self", "inclusive"))
    return Table(
        caption=f"{event['event']}: frames with the most time of their own, % of all time",
        columns=(
            _FRAME,
            Column(title="self %", align="right"),
            Column(title="with callees %", align="right"),
            _CALLERS,
            _OBJECT,
        ),
        rows=tuple(
            (
                Cell(text=_symbol(event, frame)),
                Cell(text=_share(own[frame])),
                Cell(text=_share(inclusive[frame])),
                *_where(event, frame),
            )
            for frame in event["lists"]["hottest"]
        ),
        limit=MOST_ROWS,
    )


def _left_out(lists: Data, name: str) -> str:
    hidden = lists["counts"][name] - len(lists[name])
    return f"; {hidden} smaller ones are left out" if hidden else ""


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _symbol(event: Data, frame: int) -> str:
    # The root and remainders, whose numbers are negative, are in no list and call nothing.
    return str(event["names"][event["name"][frame]]["symbol"])


def _where(event: Data, frame: int) -> tuple[Cell, Cell]:
    names: list[str] = []
    caller = event["parent"][frame]
    while caller > 0 and len(names) < MOST_CALLERS:
        names.append(_symbol(event, caller))
        caller = event["parent"][caller]
    more = " < …" if caller > 0 else ""
    dso = event["names"][event["name"][frame]]["dso"]
    return Cell(text=" < ".join(names) + more), Cell(text=dso, tone="muted")


def _clean_texts(value: object) -> object:
    # Each text that strangers gave, as it may be drawn; the long columns of numbers as they are.
    if isinstance(value, str):
        return clean(value, limit=LONGEST_TEXT)
    if isinstance(value, Mapping):
        return {str(key): _clean_texts(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        is_plain = not value or isinstance(value[0], int | float | None)
        return value if is_plain else [_clean_texts(item) for item in value]
    return value
