# SPDX-License-Identifier: GPL-2.0-or-later
"""Replies in a public-inbox: its directory, or a clone of one epoch."""

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf.publish.mail.inbox import find_repositories, read_messages
from schedperf.publish.mail.limits import silenced_threads
from schedperf.publish.mail.replies import read_replies
from tests.mails import COMMIT, NOW, make_message, make_outbox

SENT = make_message()
REPLY = (
    f"From: a@example.org\nMessage-ID: <r@example.org>\nIn-Reply-To: {SENT.metadata.message_id}\n"
    "\nplease stop\n"
).encode()
OTHER = b"From: b@example.org\n\nstop\n"


def add(repository: Path, *messages: bytes | None, when: str) -> None:
    """Commit messages as public-inbox does; None removes the one before."""
    stream = b""
    for content in messages:
        name = b"d" if content is None else b"m"
        text = OTHER if content is None else content
        stream += (
            b"commit refs/heads/master\ncommitter a <a@example.org> %s\ndata 1\nx\n"
            b"%sdeleteall\nM 100644 inline %s\ndata %d\n%s\n"
            % (
                when.encode(),
                b"" if stream or not _has_commits(repository) else b"from refs/heads/master^0\n",
                name,
                len(text),
                text,
            )
        )
    command = ["git", "-C", str(repository), "fast-import", "--quiet", "--date-format=rfc2822"]
    subprocess.run(command, input=stream, check=True)


def _has_commits(repository: Path) -> bool:
    command = ["git", "-C", str(repository), "rev-parse", "--verify", "--quiet", "master"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def make_repository(path: Path) -> Path:
    command = ["git", "init", "--quiet", "--bare", "--initial-branch=master", str(path)]
    subprocess.run(command, check=True)
    return path


DATE = "Fri, 27 Nov 2026 13:00:00 +0000"
LONG_AGO = "Fri, 20 Nov 2026 13:00:00 +0000"


@pytest.mark.parametrize("name", ["clone", "inbox/git/1.git"])
def test_a_reply_silences_its_thread(tmp_path: Path, name: str) -> None:
    outbox = make_outbox(tmp_path / "outbox", SENT)
    repository = make_repository(tmp_path / name)
    add(repository, OTHER, REPLY, None, OTHER, when=DATE)
    path = tmp_path / name.partition("/")[0]
    heard = [each.effect for each in read_replies(outbox, path, NOW)]
    assert heard[0].endswith(f"no more mails about {COMMIT}")
    assert set(silenced_threads(outbox.decisions())) == {COMMIT}
    assert list(read_replies(outbox, path, NOW)) == []


def test_messages_before_the_first_mail_are_not_read(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "clone")
    add(repository, OTHER, when=LONG_AGO)
    add(repository, REPLY, when=DATE)
    contents = [content for _, content in read_messages(repository, NOW - timedelta(days=1), 999)]
    assert contents == [REPLY]


def test_the_newest_epochs_are_read(tmp_path: Path) -> None:
    for number in (0, 9, 10):
        make_repository(tmp_path / "git" / f"{number}.git")
    (tmp_path / "git" / "all.git").mkdir()
    assert [path.name for path in find_repositories(tmp_path)] == ["9.git", "10.git"]


def test_long_messages_are_skipped_and_the_next_ones_read(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "clone")
    add(repository, REPLY, b"x" * 5_000_000, b"", OTHER, when=DATE)
    contents = [content for _, content in read_messages(repository, NOW, 4_000_000)]
    assert contents == [OTHER, b"", None, REPLY]


def test_an_empty_inbox_has_no_replies(tmp_path: Path) -> None:
    outbox = make_outbox(tmp_path / "outbox", SENT)
    assert list(read_replies(outbox, make_repository(tmp_path / "empty"), NOW)) == []


def test_other_repositories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken/objects").mkdir(parents=True)
    source = make_repository(tmp_path / "source")
    stream = b"commit refs/heads/master\ncommitter a <a@b> 1 +0000\ndata 1\nx\n"
    command = ["git", "-C", str(source), "fast-import", "--quiet"]
    subprocess.run(command, input=stream, check=True)
    outbox = make_outbox(tmp_path / "outbox", SENT)
    for path in (tmp_path / "broken", source):
        with pytest.raises(InputError, match="not readable as a public-inbox") as refused:
            list(read_replies(outbox, path, NOW))
        assert len(str(refused.value).splitlines()) == 1
