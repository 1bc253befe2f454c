# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the edits that explain separated and joined pairs.

An inserted variable shifts all following variables until padding absorbs the shift, so one edit may
change dozens of pairs. The layout is predicted without each edit in turn; the edit that restores
most pairs is selected, and the remaining pairs are explained in the same way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.layout.chain import Chain, build_chain
from schedperf.evidence.layout.cotenancy import PairSet, Span, sized_on_both, spans_of
from schedperf.evidence.layout.matching import Matching
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.prediction import Budget, Prediction, TooMuchWork, Trial
from schedperf.evidence.layout.record import (
    LayoutCause,
    LayoutEdit,
    LayoutPairCounts,
    LayoutShift,
    Pair,
)

# Limit on the entries that all predictions place: about two seconds of work. A real kernel with 20
# differences needs 50,000.
MOST_STEPS = 500_000
# Largest number of edits that are undone together if none alone restores a pair.
MOST_JOINT_EDITS = 16
# Largest number of such groups; more occur only for unrelated kernels.
MOST_JOINT_CAUSES = 64
# Largest insertion whose entries are tried one by one, to name the one that matters most.
MOST_PARTS = 64
# Largest number of alternatives that are named.
MOST_ALTERNATIVES = 8


class _Question(Struct, frozen=True):
    # A changed pair: the two names, their bytes on each side, and whether they shared a line in
    # base.
    pair: frozenset[str]
    sizes: Mapping[str, tuple[int, int]]
    were_together: bool


def explain(
    matching: Matching,
    base: Unit,
    new: Unit,
    changed: tuple[PairSet, PairSet],
    line_bytes: int,
) -> tuple[LayoutCause, ...]:
    """Find few edits that together explain the changed pairs, by this module's greedy search.

    :param matching: entries of base and new
    :param changed: separated and joined pairs of entries that both sides have
    :return: the cause of most pairs first; unexplained pairs have one cause without edits, the
        last; empty without changed pairs
    """
    if not any(changed):
        return ()
    spans = (
        spans_of(matching.base, base.kind, base.size),
        spans_of(matching.new, new.kind, new.size),
    )
    asked = {name for pairs in changed for pair in pairs for name in pair}
    chain = build_chain(matching, base, new, spans, asked)
    search = _Search(chain, _questions(matching, changed, spans), spans, line_bytes)
    return search.causes()


def _questions(
    matching: Matching,
    changed: tuple[PairSet, PairSet],
    spans: tuple[Mapping[str, Span], Mapping[str, Span]],
) -> list[_Question]:
    sized = sized_on_both(matching)

    def size(name: str, side: int) -> int:
        span = spans[side][name]
        return span.end - span.start if name in sized else 0

    return [
        _Question(
            pair=pair,
            sizes={name: (size(name, 0), size(name, 1)) for name in pair},
            were_together=were_together,
        )
        for were_together, pairs in zip((True, False), changed, strict=True)
        for pair in sorted(pairs, key=sorted)
    ]


class _Search:
    # Undoes edits one by one until all changed pairs are as in base.
    def __init__(
        self,
        chain: Chain,
        questions: Sequence[_Question],
        spans: tuple[Mapping[str, Span], Mapping[str, Span]],
        line_bytes: int,
    ) -> None:
        self.chain = chain
        self.questions = questions
        self.spans = spans
        self.line_bytes = line_bytes
        self.last_slot = {index: slot for slot, (index, _, _) in enumerate(chain.slots)}
        self.budget = Budget(MOST_STEPS)
        self.open = set(range(len(questions)))
        self.of_atom: dict[int, list[int]] = {}
        for number, question in enumerate(questions):
            for name in question.pair:
                self.of_atom.setdefault(chain.atom_of[name], []).append(number)

    def causes(self) -> tuple[LayoutCause, ...]:
        results: list[tuple[LayoutCause, Trial]] = []
        try:
            self.pristine = Prediction(self.chain, self.budget, self.line_bytes)
            self.state = Prediction(self.chain, self.budget, self.line_bytes)
            self.alone = self._try_each(self.pristine)
            self._take_singles(results)
            self._take_joint(results)
        except TooMuchWork:
            # Causes found so far are kept; the remaining pairs are unexplained.
            pass
        causes = sorted((cause for cause, _ in results), key=_weight)
        if self.open:
            causes.append(self._make_cause((), self.open, None))
        return tuple(causes)

    def _try_each(self, state: Prediction) -> dict[int, tuple[Trial, set[int]]]:
        tried: dict[int, tuple[Trial, set[int]]] = {}
        for edit in range(len(self.chain.changes)):
            trial = state.without((edit,))
            tried[edit] = (trial, self._restored(state, trial))
        return tried

    def _restored(self, state: Prediction, trial: Trial) -> set[int]:
        # Changed pairs that are as in base if the trial's edits are undone.
        touched = {
            number
            for index in (*trial.offsets, *trial.toggled)
            for number in self.of_atom.get(index, ())
        }
        self.budget.spend(len(touched))
        return {number for number in touched if self._is_restored(number, state, trial)}

    def _is_restored(self, number: int, state: Prediction, trial: Trial | None) -> bool:
        question = self.questions[number]
        lines = []
        for name in question.pair:
            side = state.side_of(self.chain.atom_of[name], trial)
            size = question.sizes[name][side]
            lines.append(state.lines_of(name, size, trial))
        first, second = lines
        if first is None or second is None:
            return False
        together = first[0] <= second[1] and second[0] <= first[1]
        return together == question.were_together

    def _take_singles(self, results: list[tuple[LayoutCause, Trial]]) -> None:
        tried = dict(self.alone)
        while self.open:
            self.budget.spend(len(tried))
            edit = min(tried, key=lambda edit: self._rank(edit, tried[edit]), default=None)
            if edit is None or not tried[edit][1] & self.open:
                return
            answered = tried[edit][1] & self.open
            trial = self.state.undo((edit,))
            results.append((self._make_cause((edit,), answered, results), trial))
            self.open -= answered
            del tried[edit]
            for remaining, (before, _) in tried.items():
                if before.touches(trial):
                    again = self.state.without((remaining,))
                    tried[remaining] = (again, self._restored(self.state, again))

    def _rank(self, edit: int, tried: tuple[Trial, set[int]]) -> tuple[int, bool, int, int]:
        # Prefer most pairs, then edits that the sources show, then the smallest and the first edit.
        trial, restored = tried
        is_unexplained = self.chain.changes[edit].edit.kind == "unexplained"
        return -len(restored & self.open), is_unexplained, len(trial.offsets), trial.first

    def _take_joint(self, results: list[tuple[LayoutCause, Trial]]) -> None:
        # Pairs that are restored only if several edits are undone at once.
        given_up: set[int] = set()
        for _ in range(MOST_JOINT_CAUSES):
            waiting = sorted(self.open - given_up)
            if not waiting:
                return
            edits = self._edits_for(waiting[0])
            if edits is None:
                given_up.add(waiting[0])
                continue
            trial = self.state.undo(edits)
            answered = {n for n in waiting if self._is_restored(n, self.state, None)}
            results.append((self._make_cause(tuple(sorted(edits)), answered, results), trial))
            self.open -= answered

    def _edits_for(self, number: int) -> set[int] | None:
        # The nearest edits before a pair that restore it together, without those that have no
        # effect.
        atoms = [self.chain.atom_of[name] for name in self.questions[number].pair]
        reach = max(self.last_slot[index] for index in atoms)
        ahead = [
            (self.chain.changes[edit].slots[0], edit)
            for edit in range(len(self.chain.changes))
            if edit not in self.state.undone and self.chain.changes[edit].slots[0] <= reach
        ]
        chosen: set[int] = set()
        for _, edit in sorted(ahead, reverse=True)[:MOST_JOINT_EDITS]:
            chosen.add(edit)
            if self._is_restored(number, self.state, self.state.without(chosen)):
                break
        else:
            return None
        for edit in sorted(chosen):
            fewer = chosen - {edit}
            if fewer and self._is_restored(number, self.state, self.state.without(fewer)):
                chosen = fewer
        return chosen

    def _make_cause(
        self,
        edits: tuple[int, ...],
        answered: AbstractSet[int],
        results: Sequence[tuple[LayoutCause, Trial]] | None,
    ) -> LayoutCause:
        trial = self.pristine.without(edits) if edits else None
        alone = self._restored(self.pristine, trial) if trial is not None else set()
        is_sufficient = bool(edits) and answered <= alone
        others: list[str] = []
        if trial is not None and not is_sufficient:
            others = [
                edit.entry
                for cause, earlier in results or ()
                if earlier.touches(trial)
                for edit in cause.edits
            ]
        leading = [self._leading(edit) for edit in edits]
        named = tuple(edit for edit, _ in leading)
        separated = self._pairs(answered, were_together=True)
        joined = self._pairs(answered, were_together=False)
        return LayoutCause(
            text=describe_edits(named),
            edits=named,
            counts=LayoutPairCounts(separated=len(separated), joined=len(joined)),
            separated=separated,
            joined=joined,
            shift=None if trial is None else self._shift(trial),
            is_sufficient=is_sufficient,
            together_with=tuple(others),
            alternatives=tuple(self._alternatives(edits, answered)) if is_sufficient else (),
            by_entry_alone=self._both(answered & leading[0][1]) if leading else (),
        )

    def _both(self, numbers: AbstractSet[int]) -> tuple[Pair, ...]:
        return self._pairs(numbers, were_together=True) + self._pairs(numbers, were_together=False)

    def _alternatives(self, edits: tuple[int, ...], answered: AbstractSet[int]) -> Iterator[str]:
        own = {name for edit in edits for name in self.chain.changes[edit].edit.entries}
        enough = [
            self.chain.changes[edit].edit.entry
            for edit, (_, restored) in self.alone.items()
            if answered <= restored
        ]
        yield from [name for name in enough if name not in own][:MOST_ALTERNATIVES]

    def _leading(self, number: int) -> tuple[LayoutEdit, set[int]]:
        # Of entries inserted or removed together, find the one that restores most pairs alone, and
        # these pairs.
        change = self.chain.changes[number]
        if change.edit.kind not in {"inserted", "removed"} or len(change.slots) == 1:
            return change.edit, self.alone[number][1]
        restored = {
            tuple(self.chain.atoms[self.chain.slots[slot][0]].names): self._restored_by_slot(
                number, slot
            )
            for slot in change.slots[:MOST_PARTS]
        }
        best = max(restored, key=lambda names: len(restored[names]))
        rest = tuple(name for name in change.edit.entries if name not in best)
        return replace(change.edit, entry=best[0], entries=(*best, *rest)), restored[best]

    def _restored_by_slot(self, number: int, slot: int) -> set[int]:
        # Undo one part of an edit by treating it temporarily as a separate edit.
        chain = self.chain
        index, _, is_new = chain.slots[slot]
        part = len(chain.changes)
        chain.changes.append(replace(chain.changes[number], slots=(slot,)))
        chain.slots[slot] = (index, part, is_new)
        try:
            return self._restored(self.pristine, self.pristine.without((part,)))
        finally:
            chain.slots[slot] = (index, number, is_new)
            chain.changes.pop()

    def _pairs(self, numbers: Iterable[int], *, were_together: bool) -> tuple[Pair, ...]:
        where = self.spans[0 if were_together else 1]

        def position(name: str) -> tuple[int, str]:
            return where[name].start, name

        pairs: list[Pair] = []
        for number in numbers:
            question = self.questions[number]
            if question.were_together == were_together:
                first, second = sorted(question.pair, key=position)
                pairs.append((first, second))
        return tuple(sorted(pairs, key=lambda pair: [position(name) for name in pair]))

    def _shift(self, trial: Trial) -> LayoutShift | None:
        # Distance by which the edits moved common entries: new's offset minus the predicted one
        # without them.
        moves: list[tuple[int, str, int]] = []
        for index, offset in trial.offsets.items():
            atom, now = self.chain.atoms[index], self.pristine.offsets[index]
            if atom.base is None or atom.new is None or now is None or offset is None:
                continue
            name = next(name for name in atom.names if name in self.spans[1])
            moves.append((now, name, now - offset))
        if not moves:
            return None
        moves.sort()
        bytes_moved = [moved for _, _, moved in moves]
        return LayoutShift(
            entries=len(moves),
            first=moves[0][1],
            last=moves[-1][1],
            smallest=min(bytes_moved),
            largest=max(bytes_moved),
            slide=-trial.slide,
        )


def _weight(cause: LayoutCause) -> int:
    return -cause.counts.separated - cause.counts.joined


def describe_edits(edits: Sequence[LayoutEdit]) -> str:
    """Describe a cause: ``sd_cluster (inserted, 8 bytes)``.

    :param edits: the first is described, the others are counted; empty for an unknown cause
    """
    if not edits:
        return "unknown, because the layouts have too many differences"
    words = f"{edits[0].entry} ({_describe_edit(edits[0])})"
    more = len(edits) - 1
    return f"{words} and {more} more {'edit' if more == 1 else 'edits'}" if more else words


def _describe_edit(edit: LayoutEdit) -> str:
    company = _with_others(edit)
    if edit.kind in {"inserted", "removed"}:
        size = edit.new_bytes if edit.kind == "inserted" else edit.base_bytes
        if size is None:
            return edit.kind + company
        total = " in all" if company else ""
        return f"{edit.kind}{company}, {'at most ' if edit.is_at_most else ''}{size} bytes{total}"
    change = f"from {edit.base_bytes} to {edit.new_bytes} bytes"
    if edit.kind == "resized":
        return f"resized {change}"
    if edit.kind == "realigned":
        return f"alignment changed {change}"
    if edit.kind == "reordered":
        return f"declared elsewhere{company}"
    return f"unexplained; the padding before this entry changed {change}"


def _with_others(edit: LayoutEdit) -> str:
    others = [name for name in edit.entries if name != edit.entry]
    if not others:
        return ""
    return f" with {others[0]}" if len(others) == 1 else f" with {len(others)} other entries"
