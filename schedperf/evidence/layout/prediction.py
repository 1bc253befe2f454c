# SPDX-License-Identifier: GPL-2.0-or-later
"""Predict the layout of new without some edits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from schedperf.evidence.layout.chain import NOBODY, Atom, Chain, Seat, round_up
from schedperf.evidence.layout.cotenancy import Lines


class TooMuchWork(Exception):
    """There are too many differences to try each of them."""


@dataclass(slots=True)
class Budget:
    """Remaining steps of the search, which limit its time for untrusted layouts."""

    steps: int

    def spend(self, steps: int) -> None:
        """Subtract steps.

        :raises TooMuchWork: fewer steps are left
        """
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWork


class Trial(Struct, frozen=True):
    """The effect of undoing some edits.

    :param offsets: offsets of the atoms that move, by index; None for a removed atom
    :param toggled: atoms whose size or inner offsets change
    :param first: first affected slot
    :param last: slot after which everything is unchanged except for the slide
    :param slide: distance in bytes, in whole lines, by which everything after ``last`` moves
    """

    offsets: Mapping[int, int | None]
    toggled: frozenset[int]
    first: int
    last: int
    slide: int

    def touches(self, trial: "Trial") -> bool:
        """Return whether both affect a common range of the chain."""
        return self.first <= trial.last and trial.first <= self.last


class Prediction:
    """The layout of new with some edits undone.

    :ivar offsets: offset of each atom, by index; None if absent
    :ivar undone: edits that are undone, by index
    """

    def __init__(self, chain: Chain, budget: Budget, line_bytes: int) -> None:
        self._chain = chain
        self._budget = budget
        self._line_bytes = line_bytes
        self._strides = _strides(chain, line_bytes)
        self.undone: set[int] = set()
        self.offsets: list[int | None] = [None] * len(chain.atoms)
        self._ends = [0] * len(chain.slots)
        self._before = [NOBODY] * len(chain.slots)
        self._slot_of = [NOBODY] * len(chain.atoms)
        self._walk(0, len(chain.slots), frozenset(), {}, keep=True)

    def without(self, edits: Iterable[int]) -> Trial:
        """Predict the effect of additionally undoing these edits, or redoing undone ones.

        The prediction itself stays as it is.

        :param edits: indices of edits, at least one
        :raises TooMuchWork: the budget is exhausted
        """
        return self._try(frozenset(edits), keep=False)

    def undo(self, edits: Iterable[int]) -> Trial:
        """Undo these edits, or redo undone ones, and return the effect.

        :param edits: indices of edits, at least one
        :raises TooMuchWork: the budget is exhausted
        """
        return self._try(frozenset(edits), keep=True)

    def _try(self, edits: frozenset[int], *, keep: bool) -> Trial:
        slots = [slot for edit in edits for slot in self._chain.changes[edit].slots]
        first, last = min(slots), max(slots)
        moved: dict[int, int | None] = {}
        end, slide = self._walk(first, last, edits, moved, keep=keep)
        if keep and slide:
            self._slide(end + 1, slide)
        toggled = frozenset(
            self._chain.slots[slot][0]
            for slot in slots
            if self._chain.atoms[self._chain.slots[slot][0]].resized in edits
        )
        if keep:
            self.undone ^= edits
        return Trial(offsets=moved, toggled=toggled, first=first, last=end, slide=slide)

    def _walk(
        self,
        first: int,
        last: int,
        edits: frozenset[int],
        moved: dict[int, int | None],
        *,
        keep: bool,
    ) -> tuple[int, int]:
        # Place the atoms from a slot on, until the rest is unchanged or moves by whole lines;
        # return that slot and the distance.
        slots, atoms = self._chain.slots, self._chain.atoms
        undone = self.undone ^ edits
        cursor = self._ends[first - 1] if first else 0
        before = self._before[first - 1] if first else NOBODY
        # Atoms on the line where the slide begins may share it with atoms that do not move.
        fence: int | None = None
        for at in range(first, len(slots)):
            index, edit, is_new = slots[at]
            if edit == NOBODY or is_new != (edit in undone):
                atom = atoms[index]
                offset = _place(atom, cursor, before, undone)
                cursor = offset + atom.used[atom.resized == NOBODY or atom.resized not in undone]
                before = index
                if edit in edits:
                    # A later slot of the same atom must not remove it again.
                    moved[index] = offset
                self._note(index, offset, moved, at if keep else None)
            elif edit in edits and moved.get(index) is None:
                self._note(index, None, moved, at if keep else None)
            slide, was_before = cursor - self._ends[at], self._before[at]
            if keep:
                self._ends[at], self._before[at] = cursor, before
            if at >= last and before == was_before and slide % self._strides[at] == 0:
                fence = round_up(cursor, self._line_bytes) if fence is None else fence
                if slide == 0 or cursor >= fence:
                    self._budget.spend(at - first + 1)
                    return at, slide
            else:
                fence = None
        self._budget.spend(len(slots) - first)
        return len(slots) - 1, 0

    def _slide(self, first: int, slide: int) -> None:
        # Move everything from a slot on by whole lines.
        for at in range(first, len(self._ends)):
            self._ends[at] += slide
            index, _, _ = self._chain.slots[at]
            offset = self.offsets[index]
            if self._slot_of[index] == at and offset is not None:
                self.offsets[index] = offset + slide

    def _note(
        self, index: int, offset: int | None, moved: dict[int, int | None], slot: int | None
    ) -> None:
        # The offset of an atom during the search; final if the slot is given.
        if offset != self.offsets[index] or index in moved:
            moved[index] = offset
        if slot is not None:
            self.offsets[index] = offset
            self._slot_of[index] = slot

    def lines_of(self, name: str, size: int, trial: Trial | None) -> Lines | None:
        """Return the first and the last line of an entry; None if it is absent.

        :param size: bytes; 0 if unknown
        :param trial: its edits are undone as well; None for none
        """
        index = self._chain.atom_of[name]
        offset = self.offsets[index]
        if trial is not None and index in trial.offsets:
            offset = trial.offsets[index]
        elif trial is not None and offset is not None and self._slot_of[index] > trial.last:
            offset += trial.slide
        if offset is None:
            return None
        start = offset + self._chain.atoms[index].shifts[name][self.side_of(index, trial)]
        return start // self._line_bytes, (start + max(size, 1) - 1) // self._line_bytes

    def side_of(self, index: int, trial: Trial | None) -> int:
        """Return the side whose size an atom has: 0 for base, 1 for new.

        :param index: index of the atom
        :param trial: its edits are undone as well; None for none
        """
        resized = self._chain.atoms[index].resized
        is_undone = resized in self.undone
        if trial is not None and index in trial.toggled:
            is_undone = not is_undone
        return int(resized == NOBODY or not is_undone)


def _strides(chain: Chain, line_bytes: int) -> list[int]:
    # By slot, the distance by which everything after it can move without other changes: whole
    # lines, and a multiple of every alignment there.
    strides = []
    stride = line_bytes
    for index, _, _ in reversed(chain.slots):
        strides.append(stride)
        atom = chain.atoms[index]
        stride = max([stride, *(seat.alignment for seat in (atom.base, atom.new) if seat)])
    strides.reverse()
    return strides


def _place(atom: Atom, cursor: int, before: int, undone: set[int]) -> int:
    # After the predecessor of one side, use the gap of that side; after another predecessor, the
    # smaller gap.
    seat = _seat(atom, before, undone)
    return round_up(cursor, seat.alignment) + seat.gap


def _seat(atom: Atom, before: int, undone: set[int]) -> Seat:
    base, new = atom.base, atom.new
    if base is None or new is None:
        seat = new or base
        assert seat is not None
        return seat
    if before == new.before:
        is_base = before == base.before and atom.realigned in undone
        return base if is_base else new
    if before == base.before:
        return base
    return min(new, base, key=lambda candidate: abs(candidate.gap))
