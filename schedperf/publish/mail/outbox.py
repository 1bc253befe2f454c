# SPDX-License-Identifier: GPL-2.0-or-later
"""Store mails in one folder per state; a rename changes the state.

::

    outbox/held/ID.eml        rendered; ID.json beside it: checks and history
    outbox/approved/ID.eml    a person ran `schedperf mail approve ID`
    outbox/sending/ID.eml     renamed before the first byte is sent
    outbox/sent/ID.eml        accepted by the server
    outbox/refused/           not accepted by the server
    outbox/withdrawn/         not to be sent
    outbox/decisions.jsonl    decisions of people, also by reply, and bounces; append-only

The folder of ``ID.eml`` is the state. A transition writes ``ID.json`` into the next folder, renames
``ID.eml`` and removes the old ``ID.json``, so a process may be killed after any step: an
``ID.json`` without its mail is ignored.
"""

import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct

from schedperf.inputs.bundle.durable import sync_folder, write_all, write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.model.errors import InputError
from schedperf.model.json_text import to_json
from schedperf.model.text import clean_line
from schedperf.publish.mail.message import Message, Metadata

State = Literal["held", "approved", "sending", "sent", "refused", "withdrawn"]
STATES: tuple[State, ...] = get_args(State)
# States in which no recipient has received the mail.
NEVER_SENT: tuple[State, ...] = ("withdrawn", "refused")
DECISIONS = "decisions.jsonl"
Act = Literal["approve", "withdraw", "arrived", "not-arrived", "silence", "suspend", "reply"]

_LARGEST_MAIL = 1 << 20
_LARGEST_LOG = 1 << 26
_LOCK_LIMIT_S = 30.0
_LOCK = "lock"
_SENDER_LOCK = "sender.lock"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NAME = re.compile(rf"({_ID.pattern})\.(eml|json)")


class Transition(Struct, frozen=True, kw_only=True):
    """A transition of a mail to a state."""

    state: State
    when: Annotated[str, "ISO 8601"]
    who: Annotated[str, "person or command"]
    sha256: Annotated[str, "of the mail, from then on"]
    reason: str = ""
    archived_until: Annotated[
        str | None, "date of the archive's newest message before the attempt, ISO 8601"
    ] = None


class Decision(Struct, frozen=True, kw_only=True):
    """One line of ``decisions.jsonl``."""

    act: Act
    when: Annotated[str, "ISO 8601"]
    who: str
    id: Annotated[str | None, "the mail"] = None
    thread: Annotated[str | None, "commit of the report, or the kind of a mail without one"] = None
    address: Annotated[str | None, "suspended address"] = None
    reply: Annotated[str | None, "Message-ID of the reply or bounce"] = None
    written: Annotated[str | None, "date of the reply, ISO 8601; null if it has none"] = None
    reason: str = ""


class _Record(Struct, frozen=True, kw_only=True):
    """The content of ``ID.json``."""

    metadata: Metadata
    history: Annotated[tuple[Transition, ...], msgspec.Meta(min_length=1)]


class Mail(NamedTuple):
    """A mail in the outbox."""

    state: State
    metadata: Metadata
    history: tuple[Transition, ...]

    @property
    def id(self) -> str:
        return self.metadata.id

    @property
    def thread(self) -> str:
        return self.metadata.thread

    @property
    def last(self) -> Transition:
        return self.history[-1]


class Contents(NamedTuple):
    """All mails of an outbox, oldest first, and the problems of its folders."""

    mails: tuple[Mail, ...]
    problems: tuple[str, ...]


class Outbox:
    """An outbox in the file system.

    :param path: its folder, which the first writer creates
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_locked = False

    # --- locks

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the outbox against all other processes; the lock is reentrant.

        :raises InputError: the folder cannot be written, or another process holds the lock for 30 s
        """
        if self._is_locked:
            yield
            return
        with _reported(self.path, "written"):
            for state in STATES:
                (self.path / state).mkdir(parents=True, exist_ok=True)
        with _flock(self.path / _LOCK, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, _LOCK_LIMIT_S):
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    @contextmanager
    def sending_alone(self) -> Iterator[None]:
        """Lock out all other senders without waiting.

        :raises InputError: another process is sending; or as in :meth:`locked`
        """
        with self.locked():
            pass
        with _flock(self.path / _SENDER_LOCK, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX, 0):
            yield

    # --- reading

    def read(self) -> Contents:
        """Return all mails and one line per problem: foreign file, mail in two folders ...

        :raises InputError: the outbox does not exist, one of its folders cannot be read, or another
            process holds the lock for 30 s
        """
        if self._is_locked or not (self.path / _LOCK).exists():
            return self._read()
        with _flock(self.path / _LOCK, os.O_RDONLY, fcntl.LOCK_SH, _LOCK_LIMIT_S):
            return self._read()

    def _read(self) -> Contents:
        if not self.path.is_dir():
            raise InputError(f"{self.path}: no outbox there; check --outbox, or draft a mail first")
        mails: dict[str, Mail] = {}
        problems: list[str] = []
        for state in STATES:
            names, foreign = self._list(state)
            problems += foreign
            for name in names:
                path = self._path(state, name, "eml")
                if name in mails:
                    problems.append(
                        f"{path}: also in {mails[name].state}/; remove the copy that is wrong"
                    )
                    continue
                try:
                    mails[name] = self._read_mail(state, name)
                except InputError as error:
                    problems.append(str(error))
        return Contents(
            tuple(sorted(mails.values(), key=lambda mail: (mail.metadata.rendered, mail.id))),
            tuple(problems),
        )

    def mails(self) -> tuple[Mail, ...]:
        """Return all mails, oldest first.

        :raises InputError: a folder has a problem, of which the first is reported; or as in
            :meth:`read`
        """
        contents = self.read()
        if contents.problems:
            raise InputError(contents.problems[0])
        return contents.mails

    def find(self, id_: str) -> Mail:
        """Find a mail by its ID, its Message-ID, or a part that only its ID contains.

        :raises InputError: no mail matches, or several do; or as in :meth:`mails`
        """
        mails = self.mails()
        wanted = id_.strip("<>").partition("@")[0]
        matches = [mail for mail in mails if mail.id == wanted] or [
            mail for mail in mails if wanted and wanted in mail.id
        ]
        if len(matches) != 1:
            count = f"{len(matches)} mails have" if matches else "no mail has"
            raise InputError(
                f"{self.path}: {count} the ID {clean_line(id_)[:80]!r}; schedperf mail list "
                "prints the IDs"
            )
        return matches[0]

    def content(self, mail: Mail) -> bytes:
        """Return the bytes of a mail.

        :raises InputError: they cannot be read, or differ from those that were held or approved
        """
        content = self._bytes(mail)
        if digest(content) != mail.last.sha256:
            raise InputError(
                f"{self._path(mail.state, mail.id, 'eml')}: the file changed after it was "
                f"{mail.last.state} (expected sha256 {mail.last.sha256[:16]}...); restore it, or "
                "withdraw it and draft it again"
            )
        return content

    def held_content(self, mail: Mail) -> bytes:
        """Return the bytes of a held mail, which may predate an interrupted approval.

        :raises InputError: they cannot be read, or match no stored checksum of the mail
        """
        content = self._bytes(mail)
        if digest(content) in {step.sha256 for step in mail.history}:
            return content
        return self.content(mail)

    def decisions(self) -> tuple[Decision, ...]:
        """Return the decisions, oldest first.

        A line that a crash truncated is ignored.

        :raises InputError: the file cannot be read, or another line is invalid
        """
        path = self.path / DECISIONS
        if not path.exists():
            return ()
        *lines, _ = read_regular(path, _LARGEST_LOG, "a log of decisions").split(b"\n")
        decisions = []
        for number, line in enumerate(lines, 1):
            # The next writer completes the line that a crash truncated.
            if line.endswith(_CUT):
                continue
            try:
                decisions.append(msgspec.json.decode(line, type=Decision))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{path}:{number}: {clean_line(str(error))}; correct or remove the line"
                ) from None
        return tuple(decisions)

    # --- writing

    def hold(self, message: Message, who: str = "schedperf", now: datetime | None = None) -> bool:
        """Store a rendered mail as held.

        :param who: person or command, for the history
        :param now: time for the history; None for the current time
        :return: false if the same mail already exists, in any state
        :raises InputError: the ID is invalid, or another mail has it; the mail is larger than
            1 MiB; or the outbox has a problem, or cannot be written
        """
        metadata = message.metadata
        if not _ID.fullmatch(metadata.id):
            raise InputError(
                f"outbox: invalid ID {clean_line(metadata.id)[:80]!r} (expected letters, digits, "
                "dots and hyphens)"
            )
        if len(message.content) > _LARGEST_MAIL:
            raise InputError(f"{metadata.id}: larger than {_LARGEST_MAIL} bytes; shorten the mail")
        sha256 = digest(message.content)
        with self.locked():
            earlier = next((mail for mail in self.mails() if mail.id == metadata.id), None)
            if earlier is not None:
                if earlier.history[0].sha256 == sha256:
                    return False
                raise InputError(
                    f"{self._path(earlier.state, earlier.id, 'eml')}: another mail has this "
                    "Message-ID; withdraw it, and draft with the next number"
                )
            transition = Transition(state="held", when=timestamp(now), who=who, sha256=sha256)
            self._write_record("held", metadata, (transition,))
            with _reported(self.path, "written"):
                write_durably(self._path("held", metadata.id, "eml"), message.content)
        return True

    def move(
        self,
        mail: Mail,
        state: State,
        who: str,
        reason: str = "",
        *,
        now: datetime | None = None,
        archived_until: str | None = None,
    ) -> Mail:
        """Move a mail to another state; it is on disk when this returns.

        A move to the current state only adds an entry to its history.

        :param now: time for the history; None for the current time
        :param archived_until: date of the archive's newest message before an attempt; None if the
            archive has none, or there is no archive
        :raises InputError: another command moved the mail meanwhile, or the outbox cannot be
            written; the mail then stays in its state
        """
        transition = Transition(
            state=state,
            when=timestamp(now),
            who=who,
            sha256=mail.last.sha256,
            reason=reason,
            archived_until=archived_until,
        )
        moved = mail._replace(state=state, history=(*mail.history, transition))
        with self.locked():
            if state == mail.state:
                self._write_record(state, mail.metadata, moved.history)
                return moved
            source = self._path(mail.state, mail.id, "eml")
            target = self._path(state, mail.id, "eml")
            if target.exists() or not source.exists():
                raise InputError(
                    f"{source}: another command moved this mail meanwhile; schedperf mail list"
                )
            self._write_record(state, mail.metadata, moved.history)
            with _reported(self.path, "written"):
                source.rename(target)
                sync_folder(target.parent)
                sync_folder(source.parent)
                self._path(mail.state, mail.id, "json").unlink(missing_ok=True)
        return moved

    def replace(
        self, mail: Mail, metadata: Metadata, content: bytes, who: str, reason: str
    ) -> Mail:
        """Replace metadata and bytes of a held mail with the final ones before it is approved.

        After a crash between the two files, :meth:`content` rejects the mail until it is replaced
        again by the same bytes.

        :raises InputError: the outbox cannot be written
        """
        assert mail.state == "held"
        transition = Transition(
            state="held", when=timestamp(None), who=who, sha256=digest(content), reason=reason
        )
        replaced = mail._replace(metadata=metadata, history=(*mail.history, transition))
        with self.locked():
            self._write_record("held", metadata, replaced.history)
            with _reported(self.path, "written"):
                write_durably(self._path("held", mail.id, "eml"), content)
        return replaced

    def decide(self, decision: Decision) -> None:
        """Append a decision to ``decisions.jsonl``.

        :raises InputError: the outbox cannot be written
        """
        path = self.path / DECISIONS
        line = msgspec.json.encode(decision) + b"\n"
        with self.locked(), _reported(path, "written"), path.open("ab+", 0) as file:
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                line = _CUT + b"\n" + line
            write_all(file, line)
            os.fsync(file.fileno())
            sync_folder(self.path)

    def tidy(self) -> None:
        """Remove the ``ID.json`` files that interrupted transitions left without their mail.

        Only files of mails that are in another state are removed.

        :raises InputError: a file cannot be removed; or as in :meth:`mails`
        """
        with self.locked():
            ids = {mail.id for mail in self.mails()}
            for state in STATES:
                for path in (self.path / state).glob("*.json"):
                    if path.stem in ids and not path.with_suffix(".eml").exists():
                        with _reported(path, "removed"):
                            path.unlink()

    # --- files

    def _path(self, state: State, id_: str, kind: str) -> Path:
        return self.path / state / f"{id_}.{kind}"

    def _bytes(self, mail: Mail) -> bytes:
        return read_regular(self._path(mail.state, mail.id, "eml"), _LARGEST_MAIL, "a mail")

    def _list(self, state: State) -> tuple[list[str], list[str]]:
        """Return the IDs of a state, and one line per foreign file.

        :raises InputError: the folder cannot be read
        """
        folder = self.path / state
        ids: list[str] = []
        problems: list[str] = []
        if not folder.exists():
            return ids, problems
        with _reported(folder, "read"):
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is None and _is_temporary(entry.name):
                continue
            if match is None or not stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                problems.append(
                    f"{folder}/{clean_line(entry.name)}: not a mail of the outbox (expected ID.eml "
                    "and ID.json, regular files); remove it"
                )
            elif match[2] == "eml":
                ids.append(match[1])
        return ids, problems

    def _read_mail(self, state: State, id_: str) -> Mail:
        path = self._path(state, id_, "json")
        content = read_regular(path, _LARGEST_MAIL, "the JSON file of the mail beside it")
        try:
            record = msgspec.json.decode(content, type=_Record)
            _check_date(record.metadata.rendered)
            for step in record.history:
                _check_date(step.when)
                _check_date(step.archived_until)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: {clean_line(str(error))}; restore the file from a backup"
            ) from None
        if record.metadata.id != id_ or record.history[-1].state != state:
            raise InputError(
                f"{path}: describes {clean_line(record.metadata.id)[:80]} as "
                f"{record.history[-1].state} (expected {id_} as {state}); move mails with "
                "schedperf mail only, or move both files back"
            )
        return Mail(state, record.metadata, record.history)

    def _write_record(
        self, state: State, metadata: Metadata, history: tuple[Transition, ...]
    ) -> None:
        record = _Record(metadata=metadata, history=history)
        with _reported(self.path, "written"):
            write_durably(self._path(state, metadata.id, "json"), to_json(record).encode())


# Completes a line that a crash truncated, so that readers skip it.
_CUT = b" (cut by a crash)"


def digest(content: bytes) -> str:
    """Return the SHA-256 of the bytes of a mail, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def timestamp(now: datetime | None) -> str:
    """Return a time as ISO 8601 in UTC, in whole seconds; None stands for the current time."""
    return (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")


def _check_date(date: str | None) -> None:
    """Raise ValueError if a date is not ISO 8601, or has no time zone; accept None."""
    if date is not None and datetime.fromisoformat(date).tzinfo is None:
        raise ValueError(f"date without time zone {date!r}")


def _is_temporary(name: str) -> bool:
    return name.endswith(".new") and bool(_NAME.fullmatch(name[:-4]))


@contextmanager
def _reported(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(
            f"{error.filename or path}: cannot be {done}: {problem}; check free space and "
            "permissions of the outbox"
        ) from None


@contextmanager
def _flock(path: Path, flags: int, operation: int, limit_s: float) -> Iterator[None]:
    with _reported(path, "locked"):
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        end = time.monotonic() + limit_s
        while True:
            try:
                fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise InputError(
                        f"{path}: another schedperf mail command uses the outbox; wait until it "
                        "ends"
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
