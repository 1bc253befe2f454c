# SPDX-License-Identifier: GPL-2.0-or-later
"""Create files safely in a directory that other users can write to.

Another user can create a link with a name that the recorder uses, which points to a file of the
recorder's user. So files are created exclusively, or opened without following links, relative to
the directory's descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, cast

_COPY_BYTES = 1 << 20


class Folder:
    """An open directory.

    :raises PermissionError: another user planted a link in its path; see :func:`refuse_planted`
    :raises OSError: it cannot be opened, or is not a directory
    """

    def __init__(self, path: Path) -> None:
        refuse_planted(path)
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Folder:  # noqa: PYI034 # Self came with Python 3.11
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory; a second call does nothing."""
        if self._descriptor != -1:
            os.close(self._descriptor)
            self._descriptor = -1

    def create(self, name: str, mode: int = 0o666) -> BinaryIO:
        """Create a file; return it, open for unbuffered reading and writing.

        :raises FileExistsError: the name exists, even as a dangling link
        :raises OSError: it cannot be created
        """
        return self._open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def replace_left_over(self, name: str, mode: int = 0o666) -> BinaryIO:
        """Create a file; first remove what a killed process or another user left there.

        :raises OSError: the old file cannot be removed, or the new one cannot be created
        """
        self.remove(name)
        return self.create(name, mode)

    def open(self, name: str) -> BinaryIO:
        """Open a regular file for unbuffered reading and writing.

        :raises OSError: it cannot be opened, is a link, or is another kind of file
        """
        # A FIFO would block without O_NONBLOCK.
        return _regular(self._open(name, os.O_RDWR | os.O_NONBLOCK))

    def read(self, name: str, limit_bytes: int) -> bytes:
        """Return the beginning of a regular file.

        :param limit_bytes: maximum number of bytes to return
        :raises OSError: it cannot be read, is a link, or is another kind of file
        """
        with _regular(self._open(name, os.O_RDONLY | os.O_NONBLOCK)) as file:
            content = b""
            while len(content) < limit_bytes and (chunk := file.read(limit_bytes - len(content))):
                content += chunk
            return content

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and replace an existing one."""
        os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file if it exists; for a link, only the link."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Fsync the directory, so that created, renamed and removed names survive a power cut."""
        os.fsync(self._descriptor)

    def _open(self, name: str, flags: int, mode: int = 0) -> BinaryIO:
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, mode, dir_fd=self._descriptor)
        is_writable = flags & os.O_ACCMODE != os.O_RDONLY
        # Unbuffered, so that an error is raised by the write that causes it.
        return cast(
            "BinaryIO",
            open(descriptor, "r+b" if is_writable else "rb", buffering=0),  # noqa: PTH123 # a descriptor
        )


def _regular(file: BinaryIO) -> BinaryIO:
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file")


def refuse_planted(path: Path) -> None:
    """Reject an output path that another user planted: with a link in it, or itself a FIFO.

    Links of root, of this user and of the user who called sudo are followed. In sticky directories,
    Linux itself rejects some other links if sysctl fs.protected_symlinks is set. A path that does
    not exist passes the check.

    :raises PermissionError: another user owns the link or the FIFO; the error's text is a clause
    """
    trusted = {0, os.geteuid()}
    # As git trusts the repositories of the user who called sudo.
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        trusted.add(int(os.environ["SUDO_UID"]))
    whole = path.absolute()
    for part in (*reversed(whole.parents), whole):
        try:
            status = part.lstat()
        except OSError:
            # Opening the path reports the error.
            return
        if status.st_uid in trusted:
            continue
        if stat.S_ISLNK(status.st_mode):
            raise PermissionError(errno.EPERM, f"{part} is a link of another user")
        if part == whole and stat.S_ISFIFO(status.st_mode):
            raise PermissionError(errno.EPERM, f"{part} is a FIFO of another user")


def open_unplanted(name: str, flags: int) -> int:
    """Open a file for writing, as an opener of :func:`open`; see :func:`refuse_planted`.

    :raises OSError: another user redirects the path, or it cannot be opened
    """
    path = Path(name)
    # A link that is planted after the check is not followed.
    unless_link = 0 if path.is_symlink() else os.O_NOFOLLOW
    refuse_planted(path)
    return os.open(name, flags | unless_link | os.O_CLOEXEC, 0o666)


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all data to an unbuffered file, with as many calls as necessary.

    :raises OSError: a part of the data cannot be written
    """
    # A raw write may write only a part, e.g. into the last free blocks of a disk.
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def copy_all(source: IO[bytes], file: BinaryIO) -> None:
    """Copy a file, from its current position to its end, to an unbuffered one.

    :raises OSError: one cannot be read or the other cannot be written
    """
    while chunk := source.read(_COPY_BYTES):
        write_all(file, chunk)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a new file that replaces the path at the end of the block.

    A power cut leaves the old file or the new one. After an error in the block or in writing, the
    old one is unchanged. Only the last step, the sync of the directory, may fail after the
    replacement.

    :param mode: permissions of the new file, before the umask
    :raises OSError: the file cannot be written, or its directory cannot be synced
    """
    new = f"{path.name}.new"
    with Folder(path.parent) as folder, folder.replace_left_over(new, mode) as file:
        try:
            yield file
            os.fsync(file.fileno())
            folder.rename(new, path.name)
        except BaseException:
            with contextlib.suppress(OSError):
                folder.remove(new)
            raise
        # The rename is durable only after its directory is synced.
        folder.sync()


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace a file; a power cut leaves the old or the new one.

    :raises OSError: as :func:`replacing`, with the same effect on the old file
    """
    with replacing(path, mode) as file:
        write_all(file, data)
