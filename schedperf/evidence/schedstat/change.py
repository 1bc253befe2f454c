"""What was counted between two snapshots of /proc/schedstat, wraps and restarts decided.

Most counters are 32 bits wide, so a busy machine's wrap. A counter that is lower than before
wrapped, or started again: the kernel makes new domains, with counters from 0, when a CPU goes or
comes, or when a cpuset changes. A counter that would have had to count more than half of its range
to wrap is taken to have started again, and with it all counters of its line: their counts are
unknown. A wrap is counted as one; that there were more of them cannot be seen.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from schedperf.evidence.schedstat.capture import Counts, Domain, Snapshot
from schedperf.evidence.schedstat.fields import FIELDS, LAYOUTS, Column
from schedperf.model.errors import InputError

Floats = npt.NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)

RANGE = 2**32
MOST_WRAPPED = RANGE // 2
# A note names so many; the others are counted.
MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What was counted in an interval.

    :param jiffies: how long it was, in ticks; None where that is unknown
    :param cpu_counts: shape (cpus, fields) as in :class:`Snapshot`; NaN: cannot be known
    :param domain_counts: shape (domains, fields)
    :param notes: one sentence for each thing that could not be decided, or that looks wrong
    """

    version: int
    jiffies: int | None
    cpus: tuple[int, ...]
    cpu_counts: Floats
    domains: tuple[Domain, ...]
    domain_counts: Floats
    notes: tuple[str, ...]


def change_between(before: Snapshot, after: Snapshot, label: str) -> Change:
    """Return what was counted between two snapshots of one boot.

    CPUs and domains that are not in both of them are left out, with a note.

    :param label: of the interval, for messages
    :raises InputError: they are of two versions, or the second is the older one
    """
    if before.version != after.version:
        versions = f"version {before.version} before, {after.version} after"
        raise InputError(f"{label}: {versions}; give two snapshots of one boot")
    layout = LAYOUTS[before.version]
    notes: list[str] = []
    cpus = _common(before.cpus, after.cpus, "CPUs", notes)
    domains = _common(before.domains, after.domains, "domains", notes)
    wrapped: set[str] = set()
    cpu_counts = _subtract(
        _rows(before.cpus, before.cpu_counts, cpus),
        _rows(after.cpus, after.cpu_counts, cpus),
        layout.cpu,
        wrapped,
    )
    domain_counts = _subtract(
        _rows(before.domains, before.domain_counts, domains),
        _rows(after.domains, after.domain_counts, domains),
        layout.domain,
        wrapped,
    )
    notes += _describe_wraps(wrapped)
    notes += describe_restarts("CPUs", cpu_counts) + describe_restarts("domains", domain_counts)
    return Change(
        version=before.version,
        jiffies=_elapsed(before.jiffies, after.jiffies, label),
        cpus=tuple(cpus),
        cpu_counts=cpu_counts,
        domains=tuple(domains),
        domain_counts=domain_counts,
        notes=tuple(notes),
    )


def _elapsed(before: int, after: int, label: str) -> int | None:
    # The clock of a 32-bit kernel wraps, for the first time five minutes after the boot.
    elapsed = after - before
    if elapsed < 0 and before < RANGE:
        elapsed %= RANGE
    if not 0 <= elapsed < MOST_WRAPPED:
        raise InputError(
            f"{label}: the time stamp is {before} before and {after} after; "
            "give the earlier snapshot first, both of one boot"
        )
    return elapsed or None


def _common(before: Sequence[Key], after: Sequence[Key], what: str, notes: list[str]) -> list[Key]:
    is_after = set(after)
    common = [key for key in before if key in is_after]
    lost = len(before) + len(after) - 2 * len(common)
    if lost:
        notes.append(
            f"{what} came, went or changed in between: {lost} lines without a counterpart "
            "are left out"
        )
    return common


def _rows(keys: Sequence[Key], counts: Counts, wanted: Sequence[Key]) -> Counts:
    places = {key: place for place, key in enumerate(keys)}
    return counts[[places[key] for key in wanted]]


def _subtract(
    before: Counts, after: Counts, columns: Sequence[Column], wrapped: set[str]
) -> Floats:
    is_lower = after < before
    # Unsigned: where it is lower, this is the distance around the range of 64 bits.
    distance = after - before
    around = distance % np.uint64(RANGE)
    fits = np.maximum(after, before) < RANGE
    bits = np.array([FIELDS[column.field].bits or 0 for column in columns])
    is_wrap = is_lower & fits & (bits != 64) & (around < MOST_WRAPPED)  # noqa: PLR2004 # a width
    counts = np.where(is_wrap, around, distance).astype(np.float64)
    is_restarted = (is_lower & ~is_wrap).any(axis=1)
    counts[is_restarted] = np.nan
    told = (is_wrap & ~is_restarted[:, None]).any(axis=0)
    wrapped.update(_describe_column(columns[place]) for place in np.flatnonzero(told).tolist())
    return counts


def _describe_column(column: Column) -> str:
    return f"{column.idle} {column.field}".strip()


def _describe_wraps(wrapped: set[str]) -> list[str]:
    if not wrapped:
        return []
    named = sorted(wrapped)
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    what = f"{', '.join(named[:MOST_NAMED])}{more}"
    return [f"wrapped at 2**32, and counted as once, though it may have been more often: {what}"]


def describe_restarts(what: str, counts: Floats) -> list[str]:
    """Say how many lines have counts that cannot be known.

    :param counts: shape (lines, fields); a line that started again is NaN
    """
    restarted = int(np.isnan(counts).any(axis=1).sum())
    if not restarted:
        return []
    cause = "so they started again (a CPU or a cpuset changed): what these counted is unknown"
    return [f"the counters of {restarted} of {len(counts)} {what} fell, {cause}"]
