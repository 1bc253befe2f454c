# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch directories and files for changes with inotify (inotify(7))."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

IN_MODIFY = 0x2
IN_CREATE = 0x100
IN_Q_OVERFLOW = 0x4000
IN_ONLYDIR = 0x1000000
IN_ISDIR = 0x40000000

# struct inotify_event: watch, mask, cookie, and length of the name that follows.
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 64 << 10


class Event(NamedTuple):
    """A change of a directory or file.

    :ivar watch: number returned by :meth:`Inotify.watch`; -1 if events were lost
    :ivar mask: what changed: bits ``IN_…``
    :ivar name: name of the entry that changed in a watched directory; "" for a watched file
    """

    watch: int
    mask: int
    name: str


class Inotify:
    """A queue of changes.

    :raises OSError: the kernel has no inotify, or this user has too many queues
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def fileno(self) -> int:
        """Return the descriptor, which is readable if there are changes."""
        return int(self._descriptor)

    def watch(self, path: str, mask: int) -> int | None:
        """Watch a file or directory; return the number of the watch.

        :param mask: the changes to report: bits ``IN_…``
        :return: None if the kernel refuses: the path is missing or not readable, or there are too
            many watches
        """
        watch = int(self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask))
        return watch if watch >= 0 else None

    def events(self) -> Iterator[Event]:
        """Yield the queued changes, at most 64 KiB of them; a later call yields the rest."""
        try:
            content = os.read(self._descriptor, _BUFFER_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(content):
            watch, mask, _, length = _EVENT.unpack_from(content, position)
            position += _EVENT.size
            name = content[position : position + length].rstrip(b"\0")
            position += length
            yield Event(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        """End all watches."""
        os.close(self._descriptor)
