# SPDX-License-Identifier: GPL-2.0-or-later
"""Remove the temporary directories of killed processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from schedperf_collectors.contract import TEMPORARY, temporary_prefix

_NAME = re.compile(rf"{TEMPORARY}(?P<pid>[1-9][0-9]{{0,9}})-")


def remove_abandoned() -> None:
    """Remove schedperf's directories in TMPDIR that belong to this user and to a dead process.

    Directories of other PID namespaces (containers) and of other machines that share TMPDIR are
    kept, because their processes are not visible. Those of earlier boots are kept, too.
    """
    folder = tempfile.gettempdir()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.match(entry.name)
            if match and _is_abandoned(entry, int(match["pid"])):
                shutil.rmtree(Path(folder, entry.name), ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str], pid: int) -> bool:
    with contextlib.suppress(OSError):
        status = entry.stat(follow_symlinks=False)
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        is_visible = entry.name.startswith(temporary_prefix(pid))
        return is_ours and is_visible and not Path("/proc", str(pid)).exists()
    return False
