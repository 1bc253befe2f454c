"""Contended cache lines as a drawing to scale: who reads and who writes which bytes of them."""

from collections.abc import Iterator, Sequence

from schedperf_reports._words import count_of
from schedperf_reports.graphics.cache_lines import (
    CacheLines,
    LineGroup,
    LineRow,
    LineSide,
    Occupant,
)
from schedperf_reports.sections._c2c_bytes import ATOMIC_FIELD, who_touches
from schedperf_reports.sections._c2c_tables import (
    MEASURES,
    Entry,
    called,
    format_interval,
    format_rate,
    per_operation,
    word_of,
)

SIDES = ("base", "new")
# Lines of one drawing; the tables have the others.
MOST_LINES = 6
# Bytes: what one load or store of the kernel's own code reaches. Samples have the first byte alone.
LARGEST_ACCESS = 8
# Functions that are named for each stretch of bytes.
MOST_SYMBOLS = 4

_SHARING = {
    "true": "true sharing",
    "false": "false sharing",
    "mixed": "true and false sharing",
    None: "one CPU alone",
}


def draw_point(point: Entry, lines: Sequence[Entry], side: str) -> CacheLines:
    """Return the bytes of some lines of a point, base above the other side.

    :param lines: those that changed first
    :param side: the role of what is compared with base
    """
    shown = lines[:MOST_LINES]
    return CacheLines(
        caption=_caption(shown, len(lines) - len(shown), word_of(point["observable"].values())),
        line_bytes=max(point["line_bytes"].values()),
        sides=(LineSide(name="base", label="base"), LineSide(name=side, label=side)),
        groups=tuple(
            LineGroup(title=called(line), rows=tuple(_row(point, line, side) for side in SIDES))
            for line in shown
        ),
        has_counts=True,
    )


def _caption(lines: Sequence[Entry], left: int, word: str) -> str:
    changes = {
        called(line): [
            _times(line[name]["ratio"], f"{name} {word}")
            for name in MEASURES
            if line[name]["changed"]
        ]
        for line in lines
    }
    told = [f"{name}: {' and '.join(said)}" for name, said in changes.items() if said]
    more = f"; {count_of(left, 'more line')} in the tables" if left else ""
    said = "; ".join(told) or f"on none of these lines {word} changed beyond chance"
    return f"who reads and writes which bytes. {said}{more}"


def _times(ratio: float | None, what: str) -> str:
    return f"{what} where base had none" if ratio is None else f"{ratio:.3g} times base's {what}"


def _row(point: Entry, line: Entry, side: str) -> LineRow:
    seen = line[side]
    if seen is None:
        return LineRow(place="", note=line["unmatched"] or "not seen on this side")
    return LineRow(
        place=seen["key"].rpartition("+")[2],
        note="; ".join([_sharing(seen), *_rates(point, line, side)]),
        occupants=tuple(_occupants(point, line, side)),
    )


def _sharing(seen: Entry) -> str:
    share = seen["false_share"]
    is_mixed = seen["sharing"] == "mixed" and share is not None
    part = f", {100.0 * share:.0f} % false" if is_mixed else ""
    copies = seen["copies"]
    spread = f"; copies of {copies} CPUs" if copies is not None and copies > 1 else ""
    return f"{_SHARING[seen['sharing']]}{part}{spread}"


def _rates(point: Entry, line: Entry, side: str) -> Iterator[str]:
    if line["unmatched"] is not None or point["reason"] is not None:
        return
    for name in MEASURES:
        change = line[name]
        if any(change["samples"].values()):
            rate = f"{format_rate(change[side])} {word_of(point['observable'].values())}"
            ratio = (
                f", {format_rate(change['ratio'])} times base's (95 % CI {format_interval(change)})"
                if side == "new" and change["ratio"] is not None
                else ""
            )
            yield f"{name} {rate} {per_operation(point)}{ratio}"


def _occupants(point: Entry, line: Entry, side: str) -> Iterator[Occupant]:
    accesses = sorted(line[side]["accesses"], key=lambda one: one["offset"])
    ends = [one["offset"] for one in accesses[1:]] + [point["line_bytes"][side]]
    total = sum(one["remote"] + one["local"] for one in accesses)
    before = {one["name"]: one["offset"] for one in (line["base"] or {}).get("accesses", ())}
    for access, end in zip(accesses, ends, strict=True):
        name, start = access["name"], access["offset"]
        has_moved = side == "new" and name is not None and before.get(name, start) != start
        yield Occupant(
            name=(name or f"byte {start}").removesuffix(ATOMIC_FIELD),
            start=start,
            size=max(min(end - start, LARGEST_ACCESS), 0),
            is_sized=False,
            word="moved" if has_moved else "",
            reads=access["reads"],
            writes=access["writes"],
            heat=(access["remote"] + access["local"]) / total if total else 0.0,
            facts=tuple(_facts(point, line, side, access)),
        )


def _facts(point: Entry, line: Entry, side: str, access: Entry) -> Iterator[str]:
    word = word_of(point["observable"].values())
    grade = f"grade {access['grade']}, " if access["grade"] else "name not known, "
    yield f"{grade}from byte {access['offset']} of the line"
    reads = "reads not known" if access["reads"] is None else count_of(access["reads"], "read")
    counts = f"{reads}, {count_of(access['writes'], 'write')}"
    yield f"samples: {counts}, {access['remote']} remote + {access['local']} local {word}"
    rate = _rate(line, side, access)
    if rate is not None and point["reason"] is None:
        yield f"{format_rate(rate)} {word} {per_operation(point)}"
    names = [one["symbol"] for one in access["symbols"][:MOST_SYMBOLS]]
    if names:
        yield f"by {', '.join(names)}"
    who = who_touches(access, word)
    if who:
        yield who


def _rate(line: Entry, side: str, access: Entry) -> float | None:
    # A line's rate is of all its samples alike, so each of them stands for as much of it.
    parts = []
    for name in MEASURES:
        rate, samples = line[name][side], line[name]["samples"][side]
        if access[name] and (rate is None or not samples):
            return None
        parts.append(access[name] * rate / samples if access[name] else 0.0)
    return sum(parts)
