# SPDX-License-Identifier: GPL-2.0-or-later
"""Order the runs of several bundles in time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from schedperf.bundle.open import Run
from schedperf.runs.side import Side

# Two sides alternate, and their rounds are compared as pairs.
PAIR = 2


class Moment(Struct, frozen=True, kw_only=True):
    """One run's place in time.

    :param order: place among all runs of all sides, from 0; None if the order is not recorded
    :param round: number of the interleaved pair of runs, from 0; None without one
    """

    order: int | None
    round: int | None


def place_in_time(sides: Sequence[Side]) -> Mapping[tuple[str, str], Moment]:
    """Return the moment of each run that is not a warm-up, by side and directory.

    The order is unknown if runs have no start and a bundle is imported.
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
    # The order of an imported bundle is that of its files.
    is_known = has_clock or all(side.bundle.imported is None for side in sides)

    def place(item: tuple[int, str, Run]) -> tuple[int, str, int]:
        # What one session recorded is in its order, whatever the clock did meanwhile. Without a
        # clock bundles count as recorded one after the other, as they were named.
        number, _, run = item
        if is_one_session and run.session is not None:
            return (0, "", run.order)
        return (0, run.start or "", run.order) if has_clock else (number, "", run.order)

    return {
        (name, run.folder): Moment(
            order=order if is_known else None,
            round=numbers[run.session, run.round] if _takes_turns(run, shared) else None,
        )
        for order, (_, name, run) in enumerate(sorted(runs, key=place))
    }


class Unbalanced(Struct, frozen=True, kw_only=True):
    """A recording of several sides, some of which come first, second … more often than others.

    :param rounds: rounds of the result with the fewest
    """

    sides: int
    rounds: int


def find_unbalanced(sides: Sequence[Side]) -> Unbalanced | None:
    """Return the first recording of three or more interleaved settings without a balanced order.

    Rounds that lack a run are not counted.
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
    # A round makes a pair only where one session recorded both sides of it.
    return run.round is not None and run.session in shared
