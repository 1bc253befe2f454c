"""What stops a recording, and the exit status that it leaves."""

from __future__ import annotations

import errno

# A quota or a file size limit ends a recording exactly as a full disk does.
OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

NO_SPACE = "no space left on device"


class RecordError(Exception):
    """Recording cannot begin or go on; the text is one line for the user.

    :param exit_status: what the program exits with
    """

    def __init__(self, message: str, exit_status: int = 2) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class NotComparable(RecordError):
    """What would be recorded here could never be compared with the other side."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 4)


class Interrupted(RecordError):
    """A signal asks for the end."""

    def __init__(self, signum: int) -> None:
        super().__init__("interrupted", 128 + signum)


def explain(error: OSError) -> str:
    """Say what the system refused, in the words of the bundle's ``incomplete_reason``."""
    if error.errno in OUT_OF_SPACE:
        return NO_SPACE
    return (error.strerror or str(error)).lower()
