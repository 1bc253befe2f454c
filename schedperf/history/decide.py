# SPDX-License-Identifier: GPL-2.0-or-later
"""Store what people decide: states of steps, and services of machines."""

from collections.abc import Iterable, Mapping

from schedperf.history.questions.history import open_history
from schedperf.history.states import StepState, check_next, may_follow
from schedperf.history.store.decisions import Serviced
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.nights import position_of
from schedperf.history.store.writer import writing
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

_LONGEST = 60
_LONGEST_REASON = 300


def decide_step(
    directory: Directory, step: str, state: StepState, *, reason: str, by: str, say: Say
) -> None:
    """Change the state of a step.

    :param step: its identity
    :param reason: why, one line
    :param by: who decides
    :raises InputError: the step is unknown, the state cannot follow the one that it has, or the
        store cannot be written
    """
    with writing(directory, say) as writer, open_history(directory.folder) as history:
        known = history.step(step)
        check_next(step, known.state, state)
        changed = known.changed(
            state, reason=_one_line("--reason", reason), by=_one_line("--by", by)
        )
        writer.commit([(changed, None)])


def advance_step(
    directory: Directory,
    step: str,
    state: StepState,
    *,
    reason: str,
    numbers: Mapping[str, float],
    say: Say,
) -> bool:
    """Store that the program has found out something about a step, once.

    A state that cannot follow the one that the step has, e.g. because a person has closed it, is
    not stored.

    :param reason: what was found, one line
    :param numbers: what the decision is based on, by name
    :return: whether the step has this state now
    :raises InputError: the step is unknown, or the store cannot be written
    """
    with writing(directory, say) as writer, open_history(directory.folder) as history:
        known = history.step(step)
        is_more = known.state == state and history.step_changes(step)[-1].reason != reason
        if may_follow(known.state, state) or is_more:
            writer.commit([(known.changed(state, reason=reason, numbers=numbers), None)])
            return True
        return known.state == state


def service_machine(
    directory: Directory, machine: str, night: str, *, reason: str, say: Say
) -> None:
    """Store that a machine was serviced: nights before and after it are not comparable.

    :param machine: its class, or the name that ``record --machine`` gives
    :param night: the first night after the service
    :raises InputError: the date is invalid, or the store cannot be written
    """
    try:
        position_of(night)
    except ValueError:
        raise InputError(
            f"--since: invalid {clean_line(cut(night, _LONGEST))!r} (expected e.g. 2026-11-30)"
        ) from None
    serviced = Serviced(
        machine=_one_line("MACHINE", machine), night=night, reason=_one_line("--reason", reason)
    )
    with writing(directory, say) as writer:
        writer.commit([(serviced, None)])


def _one_line(option: str, text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > _LONGEST_REASON:
        raise InputError(
            f"{option}: invalid {clean_line(cut(text, _LONGEST))!r} (expected one line of at most "
            f"{_LONGEST_REASON} characters)"
        )
    return text.strip()


def advance_steps(
    directory: Directory, steps: Iterable[str], state: StepState, *, reason: str, by: str, say: Say
) -> tuple[str, ...]:
    """Give steps a state that may follow theirs; others, and unknown ones, stay as they are.

    :param steps: their identities
    :param reason: why; it is shortened to one line
    :param by: who decides; it is shortened, too
    :return: those whose state has changed
    :raises InputError: the store cannot be read or written
    """
    wanted = dict.fromkeys(steps)
    with open_history(directory.folder) as history:
        if not any(each.id in wanted and may_follow(each.state, state) for each in history.steps()):
            return ()
    with writing(directory, say) as writer, open_history(directory.folder) as history:
        known = {each.id: each for each in history.steps()}
        moved = [known[step] for step in wanted if step in known]
        moved = [each for each in moved if may_follow(each.state, state)]
        text, who = (cut(clean_line(each), _LONGEST_REASON) for each in (reason, by))
        writer.commit([(each.changed(state, reason=text, by=who), None) for each in moved])
    return tuple(each.id for each in moved)
