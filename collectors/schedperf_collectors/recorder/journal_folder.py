# SPDX-License-Identifier: GPL-2.0-or-later
"""Locate the journals of recordings; a journal stores what to restore if a recording is killed.

This module imports little, so that a program can check quickly whether there are journals.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_JOURNALS = "ab-*.jsonl"
# Prefix of a journal that is beside the output.
BESIDE = "schedperf-"


def journal_folder() -> Path | None:
    """Return the directory of this user's journals, which may not exist yet.

    None means that the user is not root and has no XDG_RUNTIME_DIR.
    """
    if os.geteuid() == 0:
        return Path("/run/schedperf")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "schedperf") if runtime else None


def journals_in(folder: Path | None) -> list[Path]:
    """Return the journals in this user's directory.

    :param folder: of :func:`journal_folder`
    :return: empty if the directory is None, does not exist, or belongs to another user
    """
    with contextlib.suppress(OSError):
        if folder is not None and folder.stat().st_uid == os.geteuid():
            return sorted(folder.glob(_JOURNALS))
    return []


def journals_beside(folder: Path) -> list[Path]:
    """Return the files with the name of a journal in a directory of outputs.

    Another user may have created them. The list is empty if the directory cannot be read.
    """
    with contextlib.suppress(OSError):
        return sorted(folder.glob(f"{BESIDE}{_JOURNALS}"))
    return []


def has_journals(folder: Path | None) -> bool:
    """Return whether there is a journal, of a running recording or a killed one.

    Journals beside outputs in the current directory count, too.

    :param folder: of :func:`journal_folder`
    """
    return bool(journals_in(folder) or journals_beside(Path()))
