# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the quantities of a comparison: rates, shares of functions and classes, and layouts.

All rates are found by the type of their rows, so a new kind of evidence needs no code here.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from schedperf.compare.mechanism.record import Effect, Kind, Quantity
from schedperf.evidence.account.record import AccountRow, DividedRow, SampledWaiting
from schedperf.evidence.layout.record import Layout, LayoutPairRow
from schedperf.evidence.profile.record import Profile, ProfilePoint, ProfileTest
from schedperf.model.comparison import Comparison
from schedperf.model.counted import RateRow
from schedperf.model.rows import Replication
from schedperf.model.sections import SectionData

# Denominators, the best first. What the workload does is proportional to its work; what the machine
# does besides, to the time.
BASES_OF_WORKLOAD = ("operation", "share", "time", "")
PER_WORK = ("operation", "share")
BASES_OF_MACHINE = ("time", "share", "operation", "")


class Measured(Struct, frozen=True, kw_only=True):
    """One quantity of one comparison.

    :param effects: by the denominator; "" for a quantity without one
    :param bases: denominators, the best first
    :param within: name of the quantity that this one is a part of; "" if it is none
    """

    kind: Kind
    effects: Mapping[str, Effect]
    bases: tuple[str, ...] = BASES_OF_WORKLOAD
    within: str = ""


class Where(Struct, frozen=True, kw_only=True):
    """Whose quantities are read."""

    side: str
    workload: str
    point: str

    def is_of(self, row: RateRow) -> bool:
        """Return whether a row belongs to it."""
        return (row.side, row.workload, row.point) == (self.side, self.workload, self.point)


def quantities_of(comparison: Comparison, where: Where) -> dict[Quantity, Measured]:
    """Return all quantities of one side, workload and point, in the order of the sections."""
    read: dict[Quantity, Measured] = {}
    for name, section in comparison.sections.items():
        if section.data is None:
            continue
        for quantity, measured in _quantities_in(section.data, name, where):
            # A quantity that two rows state is that of the first: tables begin with the workload's.
            read.setdefault(quantity, measured)
    return read


def sees_all(comparison: Comparison, section: str) -> bool:
    """Return whether what has no row in a section did not occur, so that it needs no row.

    This is so for complete profiles (which also sample code with interrupts off), and for layouts.
    """
    data = comparison.sections[section].data if section in comparison.sections else None
    if isinstance(data, Profile):
        events = [event for each in data.comparisons for event in each.events[:1]]
        return bool(events) and all(event.sees_kernel for event in events)
    return isinstance(data, Layout)


def _quantities_in(
    data: SectionData, section: str, where: Where
) -> Iterator[tuple[Quantity, Measured]]:
    if isinstance(data, Profile):
        yield from _of_profile(data, where)
    elif isinstance(data, Layout):
        yield from _of_layout(data, where)
    else:
        yield from _of_rates(data, section, where)


def _of_rates(data: SectionData, section: str, where: Where) -> Iterator[tuple[Quantity, Measured]]:
    effects: dict[str, dict[str, Effect]] = {}
    own = set()
    for field in data.__struct_fields__:
        rows = getattr(data, field)
        for row in rows if isinstance(rows, tuple) else ():
            if isinstance(row, RateRow) and where.is_of(row) and row.mechanism is not None:
                effects.setdefault(row.mechanism, {}).setdefault(row.basis, _effect_of_rate(row))
                if row.is_own or isinstance(row, (AccountRow, DividedRow, SampledWaiting)):
                    own.add(row.mechanism)
    for name, by_basis in effects.items():
        bases = BASES_OF_WORKLOAD if name in own else BASES_OF_MACHINE
        measured = Measured(kind="rate", effects=by_basis, bases=bases)
        yield Quantity(section=section, name=name), measured


def _effect_of_rate(row: RateRow) -> Effect:
    return Effect(
        unit=row.unit,
        basis=row.basis,
        base=row.base,
        new=row.new,
        change=row.ratio,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        q=row.q,
        changed=None if row.why_invalid is not None else row.changed,
        falls=_falls(row.base, row.new, row.ratio),
        n=(row.n_base, row.n_new),
        replication=row.replication,
    )


def _falls(base: float | None, new: float | None, ratio: float | None) -> bool | None:
    if ratio is not None:
        return ratio < 1.0
    return None if base is None or new is None else new < base


def _of_profile(data: Profile, where: Where) -> Iterator[tuple[Quantity, Measured]]:
    events = [
        (event, point)
        for comparison in data.comparisons
        if comparison.side == where.side
        for event in comparison.events
        for point in event.points
        if (point.workload, point.point) == (where.workload, where.point)
    ]
    for _, point in events[:1]:
        for group in point.classes:
            name = _class_name(group.class_)
            yield _share(name, point, group.share, changed=group.changed)
        for row in point.rows:
            # Functions of programs have no counterpart in other workloads.
            if row.dso.startswith("[") and not row.idle:
                within = "" if row.class_ is None else _class_name(row.class_)
                yield _share(row.name, point, row.share, changed=row.changed, within=within)


def _class_name(name: str) -> str:
    return f"functions of the class {name}"


def _share(
    name: str, point: ProfilePoint, share: ProfileTest, *, changed: bool, within: str = ""
) -> tuple[Quantity, Measured]:
    replication: Replication = point.independent
    effect = Effect(
        unit="%",
        basis="",
        base=share.base,
        new=share.new,
        change=share.change,
        ci_low=share.ci_low,
        ci_high=share.ci_high,
        q=share.q,
        changed=changed if share.p is not None else None,
        falls=share.change < 0.0,
        n=(point.runs.base, point.runs.new),
        replication=replication,
    )
    measured = Measured(kind="share", effects={"": effect}, within=within)
    return Quantity(section="profile", name=name), measured


def _of_layout(data: Layout, where: Where) -> Iterator[tuple[Quantity, Measured]]:
    for comparison in data.comparisons:
        if comparison.side != where.side:
            continue
        for unit in comparison.units:
            yield from _moves(unit.separated, "separated")
            yield from _moves(unit.joined, "joined")


def _moves(
    pairs: tuple[LayoutPairRow, ...], word: Literal["separated", "joined"]
) -> Iterator[tuple[Quantity, Measured]]:
    for pair in pairs:
        # Other pairs are not known to be used together.
        if not pair.is_alarm:
            continue
        a, b = sorted((pair.a, pair.b))
        effect = Effect(
            unit="",
            basis="",
            base=None,
            new=None,
            change=None,
            ci_low=None,
            ci_high=None,
            q=None,
            changed=True,
            falls=word == "separated",
            n=None,
            replication=None,
        )
        quantity = Quantity(section="layout", name=f"{a} and {b} on one cache line")
        yield quantity, Measured(kind="layout", effects={"": effect})
