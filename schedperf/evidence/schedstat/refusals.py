"""What is on one side and cannot be compared with the other, and why."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from schedperf.evidence.schedstat.fields import FIELDS
from schedperf.evidence.schedstat.levels import Level
from schedperf.evidence.schedstat.record import SchedstatRefusal
from schedperf.evidence.schedstat.totals import ALWAYS_COUNTED, Key, SchedCounts
from schedperf.model.run import SideOf


def describe_refusals(
    base: str, new: str, in_base: Collection[Key], in_new: Collection[Key]
) -> Iterator[SchedstatRefusal]:
    """Yield what only one of two sides counted.

    :param in_base: what was counted in base
    """
    by_reason: dict[tuple[str, str], list[str]] = {}
    for name, other, mine, theirs in (
        (base, new, set(in_base), set(in_new)),
        (new, base, set(in_new), set(in_base)),
    ):
        for key in sorted(mine - theirs):
            what, reason = _reason(key, other, theirs)
            counts = by_reason.setdefault((name, reason), [])
            if what not in counts:
                counts.append(what)
    for (name, reason), counts in by_reason.items():
        yield SchedstatRefusal(side=name, what=", ".join(counts), reason=reason)


def _reason(key: Key, other: str, theirs: Collection[Key]) -> tuple[str, str]:
    # The field or the level that has no counterpart, and why.
    if key.field not in ALWAYS_COUNTED and all(one.field in ALWAYS_COUNTED for one in theirs):
        return "all but the times", f"{other} counted nothing else"
    if FIELDS[key.field].split and not any(one.field == key.field for one in theirs):
        return key.field, FIELDS[key.field].split
    if key.level not in {one.level for one in theirs}:
        return key.level, _reason_of_level(key.level, other)
    return f"{key.level} {key.idle} {key.field}".strip(), f"what {other} counted is unknown"


def _reason_of_level(level: str, other: str) -> str:
    if level.startswith("domain"):
        return f"nothing names this level, and no level of {other} has its CPUs"
    return f"{other} has no level of this name"


def describe_spans(sides: Sequence[SideOf[SchedCounts]], labels: Mapping[Level, str]) -> list[str]:
    """Say which levels have another number of CPUs on another side."""
    widest: dict[str, dict[str, int]] = {}
    for side in sides:
        for run in side.runs:
            for level in run.content.levels:
                if level.widest is not None:
                    widest.setdefault(labels[level], {})[side.name] = level.widest
    return [
        f"{label} spans {', '.join(f'{cpus} CPUs in {side}' for side, cpus in found.items())}"
        for label, found in widest.items()
        if len(set(found.values())) > 1
    ]
