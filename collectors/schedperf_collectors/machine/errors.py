# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that stop a recording, and their exit statuses."""

from __future__ import annotations

import errno
import signal

# A quota or a file size limit stops a recording as a full disk does.
OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

NO_SPACE = "no space left on device"
LARGER_TMPDIR = "set TMPDIR to a larger file system"


class RecordError(Exception):
    """Recording cannot start or continue; the text is one line for the user.

    :param exit_status: the program's exit status
    """

    def __init__(self, message: str, exit_status: int = 2) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class NotComparable(RecordError):
    """A recording made here could not be compared with the other side."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 4)


class Interrupted(RecordError):
    """A signal asks to terminate."""

    def __init__(self, signum: int) -> None:
        super().__init__("interrupted", 128 + signum)


class Stopped(RecordError):
    """The user asks to end the recording after the running run."""

    def __init__(self) -> None:
        super().__init__("stopped by the user", 128 + signal.SIGTERM)


def explain(error: OSError) -> str:
    """Return the system's error text, as in the bundle's ``incomplete_reason``."""
    if error.errno in OUT_OF_SPACE:
        return NO_SPACE
    return (error.strerror or str(error)).lower()
