# SPDX-License-Identifier: GPL-2.0-or-later
"""Write files like the recorder: synced to disk, and without following symbolic links."""

from pathlib import Path

from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.new_files import Folder, write_all, write_durably

__all__ = ["explain", "sync_folder", "write_all", "write_durably"]


def sync_folder(path: Path) -> None:
    """Sync a directory, so that its created, renamed and removed files survive a power cut.

    :raises OSError: it cannot be opened or synced, or another user planted a link in its path
    """
    with Folder(path) as folder:
        folder.sync()
