# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch a patch series from a mailing list's archive with b4, or from a mailbox."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

_LIMIT_S = 300.0
# RFC 5322 permits more; archives do not.
_MESSAGE_ID = re.compile(r"<?[\w.+=%~$!#&'*/^`{|}-]+@[\w.\[\]:-]+>?\Z", re.ASCII)
_LONGEST = 250


def fetch_patches(message_id: str, mailbox: Path | None, folder: Path) -> Path:
    """Return a patch series as a mailbox with its patches in order, as ``b4 am`` writes it.

    :param message_id: Message-ID of a mail of the series, or its URL on lore.kernel.org
    :param mailbox: mailbox to read; None for the archive that b4 is configured for
    :param folder: directory for the result; its earlier content is removed
    :raises InputError: the Message-ID is invalid, b4 is not installed, or it does not find the
        series
    """
    name = message_id.removeprefix("https://lore.kernel.org/").rstrip("/").rpartition("/")[2]
    if len(name) > _LONGEST or not _MESSAGE_ID.match(name) or name.startswith("-"):
        raise InputError(
            f"--patch {clean_line(message_id)[:80]}: invalid message ID (expected e.g. "
            "20220628@example.org)"
        )
    if shutil.which("b4") is None:
        raise InputError("b4: not found; run: apt-get install -y b4")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    local = [] if mailbox is None else ["-m", str(mailbox.resolve())]
    reason = _run_b4(["b4", "am", *local, "-o", str(folder), "-n", "series", name.strip("<>")])
    made = folder / "series.mbx"
    if reason or not made.is_file():
        raise InputError(
            f"--patch {name}: b4 found no series ({reason or 'no mailbox written'}); check the "
            "message ID and the access to the archive"
        )
    return made


def _identity() -> dict[str, str]:
    """Return the environment that gives git a user; without one, b4 exits without a message."""
    try:
        count = int(os.environ.get("GIT_CONFIG_COUNT", "0"))
    except ValueError:
        count = 0
    user = {"user.name": "schedperf", "user.email": "schedperf@localhost"}
    named = {"GIT_CONFIG_COUNT": str(count + len(user))}
    for index, (name, value) in enumerate(user.items(), count):
        named |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return named


def _run_b4(command: list[str]) -> str:
    """Run b4; return why it failed, or "" if it succeeded."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
            env={**os.environ, **_identity()},
        )
    except subprocess.TimeoutExpired:
        return f"not finished within {_LIMIT_S:.0f} s"
    lines = [
        clean_line(line) for line in f"{ran.stdout}\n{ran.stderr}".splitlines() if line.strip()
    ]
    return (lines or ["no message"])[-1][:200] if ran.returncode else ""
