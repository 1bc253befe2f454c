# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the errors that stop a recording, and their exit statuses."""

from __future__ import annotations

import errno
import signal

# A quota or a file size limit stops a recording just like a full disk.
OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

NO_SPACE = "no space left on device"
# Exit status of a command that can go on later, as EX_TEMPFAIL of sysexits.h.
TRY_AGAIN = 75
LARGER_TMPDIR = "set TMPDIR to a larger file system"


class RecordError(Exception):
    """Recording cannot start or continue; the text is one line for the user.

    :param exit_status: the program's exit status
    """

    def __init__(self, message: str, exit_status: int = 2) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class NotComparable(RecordError):
    """A recording made here could not be compared with the other side; the exit status is 4."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 4)


class Interrupted(RecordError):
    """A signal requests termination; the exit status is 128 plus its number."""

    def __init__(self, signum: int) -> None:
        super().__init__("interrupted", 128 + signum)


class Stopped(RecordError):
    """The user requests the end of the recording after the current run; the exit status is 143."""

    def __init__(self) -> None:
        super().__init__("stopped by the user", 128 + signal.SIGTERM)


def printable(text: str) -> str:
    r"""Return a text as one printable line: all other characters are escaped.

    >>> printable("a\n\x1b[2K")
    'a\\n\\x1b[2K'
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def explain(error: OSError) -> str:
    """Return the system's error text in lower case, as in the manifest's ``incomplete_reason``.

    For an exceeded quota or file size limit, it is the same as for a full disk.
    """
    if error.errno in OUT_OF_SPACE:
        return NO_SPACE
    return (error.strerror or str(error)).lower()
