# SPDX-License-Identifier: GPL-2.0-or-later
"""Give the steps of a history the state that follows from the mails about them.

It follows from the outbox alone, so that a call that was killed is repeated by the next one.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.history.decide import advance_steps
from schedperf.history.states import StepState
from schedperf.history.store.directory import open_directory
from schedperf.publish.mail.outbox import Decision, Mail

_ACCEPTS = "expected"


class Effect(Struct, frozen=True, kw_only=True):
    """A state that a mail, or a reply to it, gives to steps."""

    steps: tuple[str, ...]
    state: StepState
    reason: str
    by: str


def settle_steps(
    store: Path,
    mails: Sequence[Mail],
    decisions: Sequence[Decision],
    say: Callable[[str], None],
) -> Iterator[str]:
    """Change the states of steps in a store, and yield one line for each change.

    A state that cannot follow the one of a step is left out.

    :param mails: all mails of the outbox
    :param decisions: of people, also by reply
    :param say: called with one line for each thing that was repaired in the store
    :raises InputError: the store cannot be read or written
    """
    effects = [*_effects(mails, decisions)]
    if not effects:
        return
    directory = open_directory(store)
    for effect in effects:
        for step in advance_steps(
            directory, effect.steps, effect.state, reason=effect.reason, by=effect.by, say=say
        ):
            yield f"step {step}: {effect.state} ({effect.reason})"


def _effects(mails: Sequence[Mail], decisions: Sequence[Decision]) -> Iterator[Effect]:
    """Yield the effects in the order in which states follow each other."""
    sent = {mail.id: mail for mail in mails if mail.state == "sent" and mail.metadata.steps}
    for mail in sent.values():
        if mail.metadata.kind in ("report", "bisected"):
            yield _effect(mail, "reported", f"mail {mail.id} was sent", mail.last.who)
    replied: tuple[StepState, ...] = ("answered", "accepted")
    for state in replied:
        for decision in decisions:
            for mail in sent.values():
                if _state_of(decision, mail) == state:
                    yield _effect(mail, state, f"reply to {mail.id}", decision.who)
    for mail in sent.values():
        if mail.metadata.kind == "fixed":
            yield _effect(mail, "fixed", f"mail {mail.id} was sent", mail.last.who)


def _state_of(decision: Decision, mail: Mail) -> StepState | None:
    """Return the state that a reply gives to the steps of a mail; None for other decisions."""
    if decision.act == "reply" and decision.id == mail.id:
        return "answered"
    is_accepted = decision.act == "silence" and decision.reason == _ACCEPTS
    return "accepted" if is_accepted and decision.thread == mail.thread else None


def _effect(mail: Mail, state: StepState, reason: str, by: str) -> Effect:
    return Effect(steps=mail.metadata.steps, state=state, reason=reason, by=by)
