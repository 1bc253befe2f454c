# SPDX-License-Identifier: GPL-2.0-or-later
"""Where journals of ``ab`` are; apart from the journal, so that a look there imports nothing."""

from __future__ import annotations

import os
from pathlib import Path

JOURNALS = "ab-*.jsonl"


def journal_folder() -> Path | None:
    """Return the directory of this user's journals; None if the user has none."""
    if os.geteuid() == 0:
        return Path("/run/schedperf")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "schedperf") if runtime else None


def has_journals(folder: Path | None) -> bool:
    """Return whether a recording is running or was killed, as far as is known."""
    return folder is not None and any(folder.glob(JOURNALS))
