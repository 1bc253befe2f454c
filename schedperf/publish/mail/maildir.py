# SPDX-License-Identifier: GPL-2.0-or-later
"""List the messages of a Maildir."""

import os
from pathlib import Path


def list_messages(maildir: Path) -> list[Path]:
    """Return the paths of the files in ``new`` and ``cur``, sorted.

    :raises OSError: it is not a Maildir, or cannot be read
    """
    return sorted(
        Path(entry.path)
        for folder in ("new", "cur")
        for entry in os.scandir(maildir / folder)
        if entry.is_file(follow_symlinks=False)
    )
