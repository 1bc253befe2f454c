# SPDX-License-Identifier: GPL-2.0-or-later
"""Order the runs of several bundles in time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side

# Two sides alternate; their rounds are compared as pairs.
PAIR = 2


class Moment(Struct, frozen=True, kw_only=True):
    """One run's place in time.

    :param order: position among all runs of all sides, from 0; None if the order is not recorded
    :param round: number of the interleaved pair of runs, from 0; None if runs are not interleaved
    """

    order: int | None
    round: int | None


def place_in_time(sides: Sequence[Side]) -> Mapping[tuple[str, str], Moment]:
    """Return the moment of each run that is not a warm-up, by side and directory.

    Runs of a single session are in recorded order, those of several sessions in order of start
    times. If a run has no start time, bundles count as recorded one after the other, in the order
    of the sides; but if one of them is imported, the order of all runs is None.
    """
    runs = [
        (number, side.name, run)
        for number, side in enumerate(sides)
        for run in side.bundle.runs
        if not run.warmup
    ]
    shared = _shared_sessions(sides)
    rounds = [(run.session, run.round) for _, _, run in runs if _takes_turns(run, shared)]
    numbers = {turn: number for number, turn in enumerate(dict.fromkeys(rounds))}
    has_clock = all(run.start is not None for _, _, run in runs)
    is_one_session = len({run.session for _, _, run in runs}) == 1
    # An imported bundle has its runs in file order, not in time order.
    is_known = has_clock or all(side.bundle.imported is None for side in sides)
    began = _began_before_a_step(runs)

    def place(item: tuple[int, str, Run]) -> tuple[int, str, int]:
        # Runs of one session keep their recorded order, even if the clock was set meanwhile.
        # Without start times, bundles are taken as recorded one after the other, in the order of
        # the arguments.
        number, _, run = item
        if is_one_session and run.session is not None:
            return (0, "", run.order)
        start = began.get(run.session or "", run.start or "")
        return (0, start, run.order) if has_clock else (number, "", run.order)

    return {
        (name, run.folder): Moment(
            order=order if is_known else None,
            round=numbers[run.session, run.round] if _takes_turns(run, shared) else None,
        )
        for order, (_, name, run) in enumerate(sorted(runs, key=place))
    }


def _began_before_a_step(runs: Sequence[tuple[int, str, Run]]) -> Mapping[str, str]:
    """Return the start time of each session during which the clock was set back.

    The later times of such a session cannot be compared with those of other sessions, so all of
    its runs are placed at its start, in recorded order.
    """
    in_order = sorted(runs, key=lambda item: item[2].order)
    began: dict[str, str] = {}
    latest: dict[tuple[str, str], str] = {}
    stepped = set()
    for _, side, run in in_order:
        if run.session is None or run.start is None:
            continue
        began.setdefault(run.session, run.start)
        if run.start < latest.get((side, run.session), ""):
            stepped.add(run.session)
        latest[side, run.session] = run.start
    return {session: began[session] for session in stepped}


class Unbalanced(Struct, frozen=True, kw_only=True):
    """A recording in which some sides run first, second … more often than others.

    :param sides: number of interleaved sides
    :param rounds: number of rounds of the workload and point that has the fewest
    """

    sides: int
    rounds: int


def find_unbalanced(sides: Sequence[Side]) -> Unbalanced | None:
    """Find recordings of three or more interleaved sides whose order is not balanced.

    An order is balanced if each side runs equally often at each position of a round. Rounds that
    lack a side do not count for this.

    :return: the unbalanced order with the fewest rounds; None if all are balanced
    """
    orders: dict[tuple[str, str, str], dict[int, dict[int, str]]] = defaultdict(dict)
    names: dict[str, set[str]] = defaultdict(set)
    for run in (run for side in sides for run in side.bundle.runs):
        if run.session is None or run.side is None or run.round is None or run.warmup:
            continue
        names[run.session].add(run.side)
        if run.kind == "clean":
            rounds = orders[run.session, run.workload, run.point_key]
            rounds.setdefault(run.round, {})[run.order] = run.side
    unbalanced = [
        Unbalanced(sides=len(names[session]), rounds=len(rounds))
        for (session, _, _), rounds in orders.items()
        if len(names[session]) > PAIR and not _is_balanced(rounds.values(), names[session])
    ]
    return min(unbalanced, key=lambda each: each.rounds, default=None)


def _is_balanced(rounds: Iterable[Mapping[int, str]], names: AbstractSet[str]) -> bool:
    positions = Counter(
        (position, of_round[order])
        for of_round in rounds
        if set(of_round.values()) == names
        for position, order in enumerate(sorted(of_round))
    )
    return len(positions) == len(names) ** 2 and len(set(positions.values())) == 1


def _shared_sessions(sides: Sequence[Side]) -> set[str | None]:
    sessions = Counter(
        session for side in sides for session in {r.session for r in side.bundle.runs}
    )
    return {session for session, count in sessions.items() if session is not None and count > 1}


def _takes_turns(run: Run, shared: set[str | None]) -> bool:
    # A round is a pair only if one session recorded both of its sides.
    return run.round is not None and run.session in shared
