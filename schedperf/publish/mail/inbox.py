# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the newest messages of a public-inbox: its directory, or a git clone of it.

In format version 2, each commit adds one message as the file ``m``, and each epoch of a list is a
repository: ``INBOX/git/0.git``, ``INBOX/git/1.git`` ... Committer dates are arrival dates.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO

from schedperf.inputs.git import clean_environment, git_words, run_git
from schedperf.model.errors import InputError

MOST_MESSAGES = 20_000
# A new epoch may have begun since the last reading.
_EPOCHS = 2
_EPOCH = re.compile(r"([0-9]{1,6})\.git")
_CHUNK = 1 << 20
# "HASH blob SIZE", before the content.
_FIELDS = 3


def find_repositories(path: Path) -> list[Path]:
    """Return the repositories of the two newest epochs of an inbox directory, oldest first.

    A git clone is returned as it is; for other directories, the list is empty.
    """
    epochs = [
        (int(match[1]), each)
        for each in path.glob("git/*.git")
        if (match := _EPOCH.fullmatch(each.name))
    ]
    if epochs:
        return [each for _, each in sorted(epochs)[-_EPOCHS:]]
    return [path] if (path / "objects").is_dir() or (path / ".git").exists() else []


def read_messages(
    repository: Path, since: datetime, limit: int
) -> Iterator[tuple[str, bytes | None]]:
    """Yield commit and content of the messages that arrived since a time, newest first.

    At most the newest 20,000 are read. A repository without commits has none.

    :param limit: maximum number of bytes; a longer message is yielded with None as content
    :raises InputError: it is not the repository of a public-inbox, or git fails
    """
    # The owner of an inbox is often another user.
    trusted = ["-c", f"safe.directory={repository.resolve()}"]
    refs = run_git(repository, [*trusted, "for-each-ref", "--count=1"])
    if not refs.returncode and not refs.stdout:
        # No message has arrived yet.
        return
    listed = run_git(
        repository,
        [*trusted, "log", "--format=%H", f"--max-count={MOST_MESSAGES}",
         f"--since={since.isoformat()}", "HEAD", "--"],
    )  # fmt: skip
    newest = run_git(repository, [*trusted, "ls-tree", "--name-only", "HEAD"])
    if listed.returncode or not {"m", "d"}.intersection(newest.stdout.split()):
        raise InputError(
            f"{repository}: not readable as a public-inbox (expected a clone of version 2, whose "
            "newest commit has the file m); check the path"
        )
    yield from _read_contents(repository, trusted, listed.stdout.split(), limit)


def _read_contents(
    repository: Path, trusted: Sequence[str], commits: Sequence[str], limit: int
) -> Iterator[tuple[str, bytes | None]]:
    with subprocess.Popen(
        git_words(repository, [*trusted, "cat-file", "--batch"]),
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        for commit in commits:
            try:
                git.stdin.write(f"{commit}:m\n".encode())
                git.stdin.flush()
            except BrokenPipeError:
                raise InputError(f"{repository}: git ended early; check the clone") from None
            header = git.stdout.readline().split()
            # Commits that remove a message have no file ``m``.
            if len(header) != _FIELDS:
                continue
            content = _take(git.stdout, int(header[2]), limit)
            if header[1] == b"blob":
                yield commit, content


def _take(stream: IO[bytes], size: int, limit: int) -> bytes | None:
    """Read an object and its line end; return None if it is longer than the limit."""
    if size <= limit:
        return stream.read(size + 1)[:size]
    left = size + 1
    while left and (chunk := stream.read(min(left, _CHUNK))):
        left -= len(chunk)
    return None
