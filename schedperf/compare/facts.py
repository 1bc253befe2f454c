# SPDX-License-Identifier: GPL-2.0-or-later
"""Overrule verdicts by facts: equal data, emulation and blocking differences."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.side import Side
from schedperf.model.base_new import BASE
from schedperf.model.caveats import caveat
from schedperf.model.host import Virtualisation
from schedperf.model.sides import Comparability, Difference
from schedperf.model.verdict import Reason, describe_blocking, reason_of
from schedperf.stats import JudgedRow

# Why a result that was measured in an emulator has no verdict.
EMULATED = "timings come from an emulator"


Item = TypeVar("Item")


class Facts(Struct, frozen=True, kw_only=True):
    """Facts that overrule the verdicts of rows.

    :param same_data: names of the sides whose data is that of base
    :param emulated: the emulator of each side that was recorded under emulation, by name
    """

    comparability: Comparability
    same_data: frozenset[str]
    emulated: Mapping[str, Virtualisation]

    @classmethod
    def of(cls, sides: Sequence[Side], comparability: Comparability) -> "Facts":
        """Return the facts about the sides, base first."""
        base = sides[0].bundle
        same = frozenset(side.name for side in sides[1:] if side.bundle.digest == base.digest)
        emulators = {side.name: _emulation(side.bundle) for side in sides}
        emulated = {name: found for name, found in emulators.items() if found is not None}
        return cls(comparability=comparability, same_data=same, emulated=emulated)

    def blocking(self, side: str) -> list[Difference]:
        """Return the differences that block a comparison of this side with base.

        Differences between boots of base block, too. A side with the data of base has none.
        """
        if side in self.same_data:
            return []
        return [
            difference
            for difference in self.comparability.differences
            if difference.severity == "blocking" and difference.side in (BASE, side)
        ]

    def emulation(self, side: str) -> Virtualisation | None:
        """Return the emulator of base, else that of this side.

        :return: None if neither was emulated, or if the side has the data of base
        """
        return None if side in self.same_data else self.emulated.get(BASE, self.emulated.get(side))

    def overrule(self, row: JudgedRow) -> JudgedRow:
        """Return the row with the verdict that these facts allow.

        Equal data means no change. Emulation makes a row informational, and inconclusive unless it
        is invalid. A blocking difference makes a row invalid unless it is informational.
        """
        emulator = self.emulation(row.side)
        if row.side in self.same_data:
            return as_same_data(row)
        if emulator is not None:
            return _mark_emulated(row, emulator)
        if row.family != "informational" and (blocking := self.blocking(row.side)):
            return replace(row, verdict="invalid", reason=describe_blocking(blocking))
        return row

    def overrule_all(self, row: JudgedRow, sides: Sequence[str]) -> JudgedRow:
        """Return a row that is based on several sides with the verdict that these facts allow.

        As :meth:`overrule`, but a side with the data of base does not make the verdict "no-change".

        :param sides: names of the sides, base first
        """
        emulator = next(filter(None, map(self.emulation, sides)), None)
        if emulator is not None:
            return _mark_emulated(row, emulator)
        blocking = unique(each for side in sides[1:] for each in self.blocking(side))
        if row.family != "informational" and blocking:
            return replace(row, verdict="invalid", reason=describe_blocking(blocking))
        return row


def _mark_emulated(row: JudgedRow, emulator: Virtualisation) -> JudgedRow:
    caveats = (*row.caveats, caveat("emulated", how=emulator.evidence))
    if row.verdict == "invalid":
        return replace(row, family="informational", caveats=caveats)
    # More runs under emulation would not give a verdict either.
    why, own = why_emulated(emulator), row.reason
    reason = Reason(
        sentence=f"{why}; {own.sentence}",
        plain=f"{why}; {own.plain}",
        short=EMULATED,
        finds=own.finds,
    )
    return replace(
        row,
        family="informational",
        caveats=caveats,
        verdict="inconclusive",
        reason=reason,
        more_runs=None,
    )


def why_emulated(emulator: Virtualisation) -> str:
    """Return why results of this emulator get no verdict."""
    return f"{EMULATED} ({emulator.machine})"


def as_same_data(row: JudgedRow) -> JudgedRow:
    """Return the row of a side whose data is identical to base."""
    ratio = row.ratio and 1.0
    return replace(
        row,
        ratio=ratio,
        ci_low=ratio,
        ci_high=ratio,
        p=None,
        q=None,
        mde=None,
        more_runs=None,
        verdict="no-change",
        method="same data",
        reason=reason_of("same data"),
        caveats=(),
    )


def _emulation(bundle: Bundle) -> Virtualisation | None:
    # The emulator of the bundle's first emulated boot; None if no boot was emulated.
    machines = (boot.host.virtualisation for boot in bundle.boots)
    return next((machine for machine in machines if machine.emulated), None)


def unique(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items without repetitions, in their order.

    Caveats and differences hold JSON values, which need not be hashable, and a hostile bundle can
    make a hundred thousand of them.
    """
    return tuple({repr(item): item for item in items}.values())
