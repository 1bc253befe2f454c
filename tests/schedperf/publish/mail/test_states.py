# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps get the states that follow from mails and replies, and each only once."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.history.store.directory import Directory
from schedperf.publish.mail.message import Kind
from schedperf.publish.mail.outbox import Act, Decision, Outbox
from schedperf.publish.mail.states import settle_steps
from tests.mails import COMMIT, NOW, make_message, make_outbox, make_site
from tests.step_stores import STEP, decide, make_step_store, state_of

WHO = "A. U. Thor <author@example.org>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    return make_step_store(tmp_path_factory.mktemp("lab"))


def outbox_of(folder: Path, kind: Kind = "report", state: str = "sent") -> Outbox:
    """Return an outbox with a mail about the step."""
    message = make_message(kind=kind)
    outbox = make_outbox(
        folder, replace(message, metadata=replace(message.metadata, steps=(STEP,)))
    )
    if state == "sent":
        outbox.move(outbox.mails()[0], "sent", "schedperf mail send", now=NOW)
    return outbox


def settle(store: Directory, outbox: Outbox) -> list[str]:
    return [*settle_steps(store.folder, outbox.mails(), outbox.decisions(), print)]


def reply_to(outbox: Outbox, act: Act, reason: str = "") -> None:
    mail = outbox.mails()[0]
    when = "2026-11-27T12:00:00+00:00"
    outbox.decide(Decision(act=act, when=when, who=WHO, id=mail.id, thread=COMMIT, reason=reason))


def test_from_reported_to_answered_and_accepted(store: Directory, tmp_path: Path) -> None:
    decide(store, state="reproduced")
    outbox = outbox_of(tmp_path)
    [line] = settle(store, outbox)
    assert line == f"step {STEP}: reported (mail {outbox.mails()[0].id} was sent)"
    # A call that is repeated changes nothing.
    assert settle(store, outbox) == []
    reply_to(outbox, "reply")
    assert settle(store, outbox) == [f"step {STEP}: answered (reply to {outbox.mails()[0].id})"]
    reply_to(outbox, "silence", "expected")
    settle(store, outbox)
    assert state_of(store) == "accepted"


def test_fixed(store: Directory, tmp_path: Path) -> None:
    decide(store, state="reported")
    settle(store, outbox_of(tmp_path, "fixed"))
    assert state_of(store) == "fixed"


@pytest.mark.parametrize(("before", "state"), [("suspected", "sent"), ("reproduced", "held")])
def test_what_may_not_follow(store: Directory, tmp_path: Path, before: str, state: str) -> None:
    decide(store, state=before)
    assert settle(store, outbox_of(tmp_path, state=state)) == []
    assert state_of(store) == before


def test_stop_is_no_answer_of_its_own(store: Directory, tmp_path: Path) -> None:
    decide(store, state="reproduced")
    outbox = outbox_of(tmp_path)
    reply_to(outbox, "silence", "stop")
    settle(store, outbox)
    assert state_of(store) == "reported"


def test_send_settles_and_list_shows_replies(
    store: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(store, state="reproduced")
    outbox = outbox_of(tmp_path / "outbox")
    make_site(outbox.path)
    toml = outbox.path / "mail.toml"
    toml.write_text(f'store = "{store.folder}"\n{toml.read_text()}')
    reply_to(outbox, "reply")
    assert main(["mail", "send", "--outbox", str(outbox.path)]) == 0
    out = capsys.readouterr().out
    assert [line.split(" (")[0] for line in out.splitlines()] == [
        f"step {STEP}: reported",
        f"step {STEP}: answered",
    ]
    for _ in range(4):
        reply_to(outbox, "reply")
    assert main(["mail", "list", "--outbox", str(outbox.path)]) == 0
    out = capsys.readouterr().out
    assert out.count(f"reply of {WHO}, ") == 3
    assert "2 earlier replies" in out
    assert " days ago" in out
