"""One point of the section about cache lines: what was compared, as plain data."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from schedperf.evidence import Dicts
from schedperf.evidence.c2c.bundle_sources import PointRun
from schedperf.evidence.c2c.compare import Change, LineChange, compare_memory
from schedperf.evidence.c2c.entries import say_name
from schedperf.evidence.c2c.merge import SeenLine
from schedperf.evidence.c2c.model import Access, MemoryProfile

# Lines that the data holds of each point; those that changed are all there.
MOST_LINES = 40
# Functions, and commands, that are named for each stretch of bytes.
MOST_SYMBOLS = 5
MOST_COMMANDS = 5

_PROFILE_FACTS: Mapping[str, Callable[[MemoryProfile], object]] = {
    "observable": lambda profile: profile.observable,
    "events": lambda profile: list(profile.event),
    "period": lambda profile: profile.period,
    "ldlat": lambda profile: profile.ldlat,
    "line_bytes": lambda profile: profile.line_bytes,
}


def describe_point(
    base: Sequence[PointRun],
    new: Sequence[PointRun],
    prefix: str = "",
    most_lines: int | None = MOST_LINES,
) -> Dicts:
    """Compare the runs of one point, and say what was found.

    :param prefix: of the ids of its rows
    :param most_lines: that the data holds; those that changed are all there; None: all
    """
    sides = {"base": [one.run for one in base], "new": [one.run for one in new]}
    found = compare_memory(sides["base"], sides["new"])
    facts = {
        name: {side: fact(runs[0].profile) for side, runs in sides.items()}
        for name, fact in _PROFILE_FACTS.items()
    }
    return {
        "workload": base[0].workload,
        "point": base[0].point,
        "runs": {side: len(runs) for side, runs in sides.items()},
        **facts,
        "store_period": {side: runs[0].store_period for side, runs in sides.items()},
        "samples": {
            side: _sum_known(run.profile.totals.get("total_records") for run in runs)
            for side, runs in sides.items()
        },
        "reason": found.reason,
        "unit": found.unit,
        "per": found.per,
        "model": found.model,
        "phi": found.phi,
        "replication": found.replication,
        "least_ratio": found.least_ratio,
        "totals": {name: _change(change) for name, change in found.totals.items()},
        "lines": list(_lines(_chosen(found.lines, most_lines), prefix)),
        "seen": len(found.lines),
        "seen_unmatched": {
            side: len(lines) for side, lines in zip(sides, _unmatched(found.lines), strict=True)
        },
        "notes": list(found.notes),
    }


def _chosen(lines: Sequence[LineChange], most: int | None) -> list[LineChange]:
    # What changed first, each group most contended first, as it came.
    changed = [line for line in lines if is_changed(line)]
    others = [line for line in lines if not is_changed(line) and line.unmatched is None]
    of_base, of_new = _unmatched(lines)
    if most is not None:
        # What cannot be found again is of both sides or of none.
        others = others[: max(0, most - len(changed))]
        of_base, of_new = of_base[: most // 2], of_new[: most // 2]
    return [*changed, *others, *of_base, *of_new]


def _unmatched(lines: Iterable[LineChange]) -> tuple[list[LineChange], list[LineChange]]:
    # Lines that are compared with nothing: of base, and of new.
    alone = [line for line in lines if line.unmatched is not None]
    of_base = [line for line in alone if line.base is not None]
    return of_base, [line for line in alone if line.base is None]


def _sum_known(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _lines(lines: Sequence[LineChange], prefix: str) -> Iterator[Dicts]:
    taken: Counter[str] = Counter()
    for line in lines:
        seen = [one for one in (line.base, line.new) if one is not None]
        name = next((one.name for one in seen if one.name is not None), None)
        name = None if name is None else say_name(name)
        row = name or seen[0].key
        taken[row] += 1
        number = "" if taken[row] == 1 else f"#{taken[row]}"
        yield {
            "row": f"{prefix}{row}{number}",
            "name": name,
            "names": _names(seen),
            "unmatched": line.unmatched,
            "remote": _change(line.remote),
            "local": _change(line.local),
            "base": _seen(line.base),
            "new": _seen(line.new),
        }


def is_changed(line: LineChange) -> bool:
    """Say whether a line moves between caches more or less often than before, beyond chance."""
    return line.remote.is_changed or line.local.is_changed


def _names(seen: Iterable[SeenLine]) -> list[str]:
    weight: Counter[str] = Counter()
    for line in seen:
        for access in line.accesses:
            if access.name is not None:
                weight[access.name] += access.local + access.remote
    return sorted(weight, key=lambda name: (-weight[name], name))


def _change(change: Change) -> Dicts:
    plain: dict[str, Any] = asdict(change)
    plain["samples"] = {"base": change.samples[0], "new": change.samples[1]}
    return {**plain, "changed": change.is_changed}


def _seen(line: SeenLine | None) -> Dicts | None:
    if line is None:
        return None
    return {
        "key": line.key,
        "copies": line.copies,
        "stores": line.stores,
        "records": line.records,
        "loads": line.loads,
        "double_counted": line.double_counted,
        "sharing": line.sharing,
        "false_share": line.false_share,
        "accesses": [describe_access(access) for access in line.accesses],
    }


def describe_access(access: Access) -> Dicts:
    """Return who touched one stretch of bytes of a line, and how."""
    writing = access.writing_symbols
    return {
        "offset": access.offset,
        "size": access.size,
        "name": access.name,
        "grade": access.grade,
        "reads": access.reads,
        "writes": access.writes,
        "local": access.local,
        "remote": access.remote,
        "readers": None if access.readers is None else format_cpus(access.readers),
        "writers": None if access.writers is None else format_cpus(access.writers),
        "nodes": None
        if access.nodes is None
        else [{"node": node, **done._asdict()} for node, done in sorted(access.nodes.items())],
        "symbols": [
            {"symbol": symbol, "samples": count, "writes": writing.get(symbol, 0)}
            for symbol, count in _most(access.symbols)[:MOST_SYMBOLS]
        ],
        "commands": None
        if access.commands is None
        else [
            {"command": command, "samples": count}
            for command, count in _most(access.commands)[:MOST_COMMANDS]
        ],
    }


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def format_cpus(cpus: Iterable[int]) -> str:
    """Write numbers of CPUs as the kernel does.

    >>> format_cpus([8, 0, 1, 2])
    '0-2,8'
    """
    runs = (
        [cpu for _, cpu in members]
        for _, members in groupby(enumerate(sorted(cpus)), key=lambda placed: placed[1] - placed[0])
    )
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
