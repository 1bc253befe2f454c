# SPDX-License-Identifier: GPL-2.0-or-later
"""The folders of the outbox: transitions, locks, and what does not belong there."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.mail.outbox import DECISIONS, Decision, Outbox
from schedperf_collectors.machine import new_files
from tests.mails import NOW, make_message, make_outbox

MESSAGE = make_message()
ID = MESSAGE.metadata.id


def files(outbox: Outbox) -> list[str]:
    return sorted(
        str(path.relative_to(outbox.path)) for path in outbox.path.glob("*/*") if path.is_file()
    )


def test_a_mail_moves_from_folder_to_folder(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    assert files(outbox) == [f"held/{ID}.eml", f"held/{ID}.json"]
    mail = outbox.find(ID)
    for state in ("approved", "sending", "sent"):
        mail = outbox.move(mail, state, "person", now=NOW)
        assert files(outbox) == [f"{state}/{ID}.eml", f"{state}/{ID}.json"]
        assert outbox.find(ID) == mail
    assert outbox.content(mail) == MESSAGE.content
    assert [step.state for step in mail.history] == ["held", "approved", "sending", "sent"]
    assert mail.last.when == "2026-11-27T12:00:00+00:00"


def test_the_same_mail_is_held_once_and_another_of_its_id_is_refused(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "out")
    assert outbox.hold(MESSAGE)
    assert not outbox.hold(MESSAGE)
    outbox.move(outbox.find(ID), "withdrawn", "person")
    assert not outbox.hold(MESSAGE)
    with pytest.raises(InputError, match="withdrawn.*another mail has this Message-ID"):
        outbox.hold(replace(MESSAGE, content=MESSAGE.content + b"more\n"))
    assert outbox.content(outbox.find(ID)) == MESSAGE.content


@pytest.mark.parametrize("id_", ["", ".", "..", "../mail", "a/b", "a\nb", "a\0b", "-rf", "x" * 999])
def test_an_id_cannot_lead_out_of_the_folder(tmp_path: Path, id_: str) -> None:
    metadata = replace(MESSAGE.metadata, message_id=f"<{id_}@lab.example>")
    with pytest.raises(InputError, match="invalid ID"):
        Outbox(tmp_path / "out").hold(replace(MESSAGE, metadata=metadata))
    assert not list(tmp_path.iterdir())


def test_a_mail_is_found_by_a_part_of_its_id(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", make_message(1), make_message(2))
    assert outbox.find("report.2").id.endswith("report.2")
    assert outbox.find(MESSAGE.metadata.message_id).id == ID
    with pytest.raises(InputError, match="2 mails have the ID '7f3a'"):
        outbox.find("7f3a")
    with pytest.raises(InputError, match="no mail has the ID"):
        outbox.find("x\x1b[31m\n")


def test_changed_bytes_are_refused(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    (outbox.path / "held" / f"{ID}.eml").write_bytes(MESSAGE.content + b"one more line\n")
    with pytest.raises(InputError, match="the file changed after it was held"):
        outbox.content(outbox.find(ID))


def foreign_file(folder: Path) -> None:
    (folder / "sent" / "notes.txt").write_text("text")


def symbolic_link(folder: Path) -> None:
    (folder / "approved" / f"{ID}.eml").symlink_to("/etc/passwd")


def subfolder(folder: Path) -> None:
    (folder / "held" / "a.eml").mkdir()


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "held" / "a.eml")


def two_folders(folder: Path) -> None:
    for kind in ("eml", "json"):
        path = folder / "held" / f"{ID}.{kind}"
        (folder / "sent" / path.name).write_bytes(path.read_bytes())


def moved_by_hand(folder: Path) -> None:
    for kind in ("eml", "json"):
        path = folder / "held" / f"{ID}.{kind}"
        path.rename(folder / "approved" / path.name)


def without_record(folder: Path) -> None:
    (folder / "held" / f"{ID}.json").unlink()


def invalid_record(folder: Path) -> None:
    (folder / "held" / f"{ID}.json").write_text("{" * 100_000)


def deep_record(folder: Path) -> None:
    (folder / "held" / f"{ID}.json").write_text('{"a":' * 100_000)


def record_of_wrong_types(folder: Path) -> None:
    (folder / "held" / f"{ID}.json").write_text('{"metadata": [], "history": 1}')


def record_without_time_zone(folder: Path) -> None:
    path = folder / "held" / f"{ID}.json"
    path.write_text(path.read_text().replace("12:00:00+00:00", "12:00:00"))


def record_without_date(folder: Path) -> None:
    path = folder / "held" / f"{ID}.json"
    path.write_text(path.read_text().replace("2026-11-27T12:00:00+00:00", "today"))


def draft_without_date(folder: Path) -> None:
    path = folder / "held" / f"{ID}.json"
    path.write_text(path.read_text().replace("2026-11-27T11:00:00+00:00", "2026-11-27"))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (foreign_file, r"sent/notes.txt: not a mail of the outbox"),
        (symbolic_link, r"approved/.*: not a mail of the outbox"),
        (subfolder, r"held/a.eml: not a mail of the outbox"),
        (fifo, r"held/a.eml: not a mail of the outbox"),
        (two_folders, r"sent/.*: also in held/"),
        (moved_by_hand, r"approved/.*json: describes .* as held"),
        (without_record, r"held/.*json: cannot be read"),
        (invalid_record, r"held/.*json: .*restore"),
        (deep_record, r"held/.*json: .*restore"),
        (record_without_time_zone, r"held/.*json: date without time zone"),
        (record_without_date, r"held/.*json: .*restore"),
        (draft_without_date, r"held/.*json: date without time zone"),
        (record_of_wrong_types, r"held/.*json: .*restore"),
    ],
)
def test_what_does_not_belong_there_is_one_line(
    tmp_path: Path, damage: Callable[[Path], None], problem: str
) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    damage(outbox.path)
    (line,) = outbox.read().problems
    assert "\n" not in line
    with pytest.raises(InputError, match=problem):
        outbox.mails()
    before = files(outbox)
    with pytest.raises(InputError, match=problem):
        outbox.hold(make_message(2))
    assert files(outbox) == before


def test_an_interrupted_transition_is_as_if_it_had_not_begun(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    mail = outbox.find(ID)
    # Killed before the rename: the next folder has the record, and a file half written.
    (outbox.path / "approved" / f"{ID}.json").write_text("{}")
    (outbox.path / "approved" / f"{ID}.json.new").write_text("{")
    assert outbox.find(ID) == mail
    outbox.tidy()
    assert not (outbox.path / "approved" / f"{ID}.json").exists()
    assert outbox.find(ID) == mail


def test_a_leftover_that_cannot_be_removed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    leftover = outbox.path / "approved" / f"{ID}.json"
    leftover.write_text("{}")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(InputError) as caught:
        outbox.tidy()
    assert str(caught.value) == (
        f"{leftover}: cannot be removed: read-only file system; check free space and permissions "
        "of the outbox"
    )


def test_an_interrupted_draft_is_repeated(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    (outbox.path / "held" / f"{ID}.eml").unlink()
    assert outbox.mails() == ()
    assert outbox.hold(MESSAGE, now=NOW)
    assert outbox.content(outbox.find(ID)) == MESSAGE.content


@pytest.mark.parametrize(
    "failing", [(new_files, "write_all"), (os, "fsync"), (os, "replace")], ids=lambda each: each[1]
)
def test_a_full_disk_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[object, str]
) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    mail = outbox.find(ID)

    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*failing, fail)
    with pytest.raises(InputError, match="no space left on device; check free space"):
        outbox.move(mail, "approved", "person")
    with pytest.raises(InputError, match="no space left on device"):
        outbox.hold(make_message(2))
    monkeypatch.undo()
    assert outbox.mails() == (mail,)


def test_a_read_only_outbox_is_listed_but_not_changed(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from schedperf.publish.mail.outbox import Outbox\n"
        "from schedperf.model.errors import InputError\n"
        "os.setuid(65534)\n"
        "outbox = Outbox(Path(sys.argv[1]))\n"
        "mail, = outbox.mails()\n"
        "try:\n"
        "    outbox.move(mail, 'approved', 'person')\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 0o11)
    done = subprocess.run(
        [sys.executable, "-c", program, outbox.path], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert "cannot be locked: permission denied" in done.stdout
    assert files(outbox) == [f"held/{ID}.eml", f"held/{ID}.json"]


def test_a_mail_that_moved_meanwhile_is_not_moved(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    mail = outbox.find(ID)
    outbox.move(mail, "withdrawn", "person")
    before = files(outbox)
    with pytest.raises(InputError, match="another command moved this mail meanwhile"):
        outbox.move(mail, "approved", "person")
    assert files(outbox) == before


def test_two_senders_exclude_each_other(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    with (
        outbox.sending_alone(),
        pytest.raises(InputError, match="another schedperf mail command"),
        Outbox(outbox.path).sending_alone(),
    ):
        pass
    # A draft need not wait for a sender.
    with outbox.sending_alone():
        assert Outbox(outbox.path).hold(make_message(2))


def test_decisions_are_appended(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    first = Decision(act="approve", when="2026-11-27T12:00:00+00:00", who="person", id=ID)
    second = replace(first, act="withdraw", reason="a\nb\x1b")
    outbox.decide(first)
    outbox.decide(second)
    assert outbox.decisions() == (first, second)
    assert (outbox.path / DECISIONS).read_bytes().count(b"\n") == 2


def test_a_line_that_a_crash_cut_is_skipped(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    decision = Decision(act="approve", when="2026-11-27T12:00:00+00:00", who="person", id=ID)
    outbox.decide(decision)
    with (outbox.path / DECISIONS).open("ab") as file:
        file.write(b'{"act": "appr')
    assert outbox.decisions() == (decision,)
    outbox.decide(decision)
    assert outbox.decisions() == (decision, decision)


def test_an_invalid_decision_is_an_error(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "out", MESSAGE)
    (outbox.path / DECISIONS).write_text('{"act": "send everything"}\n')
    with pytest.raises(InputError, match=r"decisions.jsonl:1: .*correct or remove the line"):
        outbox.decisions()
