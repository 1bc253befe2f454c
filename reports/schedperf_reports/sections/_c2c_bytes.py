"""The tables of one cache line: who reads and writes which bytes of it."""

from schedperf_reports._units import MISSING
from schedperf_reports.blocks import Cell, Column, Table, Text
from schedperf_reports.sections._c2c_tables import (
    Entry,
    called,
    format_count,
    format_rate,
    word_of,
)

# Rows that a terminal shows; each stretch of bytes has two.
MOST_STRETCHES = 24
# Functions that a row names.
MOST_SYMBOLS = 2

# The only field of an atomic_t: nobody says it.
ATOMIC_FIELD = ".counter"

# What stands behind a name.
GRADES = Text(
    text="behind a name: [A] its address and a function that is known to touch it agree, [B] the "
    "address or the functions alone",
    tone="muted",
)


def bytes_table(point: Entry, line: Entry) -> Table:
    """Return who reads and writes which bytes of a line, base then new."""
    rows: list[tuple[Cell, ...]] = []
    word = word_of(point["observable"].values())
    for side in ("base", "new"):
        if line[side] is None:
            continue
        rows.append(
            (Cell(text=f"{side}, {line[side]['key']}", tone="strong"), *[Cell(text="")] * 5)
        )
        for access in line[side]["accesses"]:
            rows += _access(access, word)
    return Table(
        caption=(
            f"who reads and writes which bytes of {called(line)}{_split(line)}; samples of all "
            f"runs, {word} remote + local"
        ),
        columns=_access_columns(word),
        rows=tuple(rows),
        # The headings of both sides are rows, too.
        limit=MOST_STRETCHES + 1,
    )


def seen_bytes_table(side: Entry, line: Entry) -> Table:
    """Return who reads and writes which bytes of a line of one side alone."""
    word = word_of((side["observable"],))
    rows: list[tuple[Cell, ...]] = []
    for access in line["accesses"]:
        first, *notes = _access(access, word)
        rows.append((*first, Cell(text=format_rate(access["mean_weight"]))))
        rows += [(*note, Cell(text="")) for note in notes]
    return Table(
        caption=(
            f"who reads and writes which bytes of {line['name'] or line['key']}; samples, {word} "
            "remote + local"
        ),
        columns=(*_access_columns(word), Column(title="latency", align="right", priority=5)),
        rows=tuple(rows),
        limit=MOST_STRETCHES,
    )


def _access_columns(word: str) -> tuple[Column, ...]:
    return (
        Column(title="byte", align="right"),
        Column(title="name", code=True),
        Column(title="reads", align="right"),
        Column(title="writes", align="right"),
        Column(title=word, align="right"),
        Column(title="by", priority=1),
    )


def _split(line: Entry) -> str:
    parts = {
        side: f"{100.0 * line[side]['false_share']:.0f} % false sharing"
        for side in ("base", "new")
        if line[side] is not None and line[side]["false_share"] is not None
    }
    if len(parts) > 1 and parts["base"] == parts["new"]:
        return f" ({parts['base']} in base and new)"
    return f" ({', '.join(f'{part} in {side}' for side, part in parts.items())})" if parts else ""


def _access(access: Entry, word: str) -> list[tuple[Cell, ...]]:
    # What was done to some bytes, and below it by whom where that is known.
    name = "name not known"
    if access["name"] is not None:
        name = f"{access['name'].removesuffix(ATOMIC_FIELD)} [{access['grade']}]"
    symbols = [one["symbol"] for one in access["symbols"][:MOST_SYMBOLS]]
    row = (
        Cell(text=str(access["offset"])),
        Cell(text=name, tone="plain" if access["name"] else "muted"),
        Cell(text=format_count(access["reads"])),
        Cell(text=str(access["writes"]), tone="warning" if access["writes"] else "plain"),
        Cell(text=f"{access['remote']}+{access['local']}"),
        Cell(text=", ".join(symbols) or MISSING),
    )
    who = who_touches(access, word)
    if not who:
        return [row]
    return [row, (Cell(text=f"{'':6}{who}", tone="muted"), *[Cell(text="")] * (len(row) - 1))]


def who_touches(access: Entry, word: str) -> str:
    """Return which CPUs and nodes read and wrote some bytes; "" where no source says it."""
    if access["readers"] is None:
        return ""
    cpus = (("read by", access["readers"]), ("written by", access["writers"]))
    parts = [", ".join(f"{verb} CPUs {listed}" for verb, listed in cpus if listed)]
    for one in access["nodes"]:
        done = {"reads": one["reads"], "writes": one["writes"]}
        said = [f"{count} {what}" for what, count in done.items() if count]
        if one["remote"] or one["local"]:
            said.append(f"{one['remote']}+{one['local']} {word}")
        node = f"node {one['node']}" if one["node"] >= 0 else "no node"
        parts.append(f"{node}: {', '.join(said) or 'neither'}")
    return "; ".join(filter(None, parts))
