# SPDX-License-Identifier: GPL-2.0-or-later
"""Read and write files by URL, e.g. ``s3://bucket/base.tar`` or ``https://host/base.tar``.

A URL may contain a password or a signature, as may the errors of the libraries that open it:
neither is printed or stored.
"""

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import url2pathname

from schedperf.inputs.many.extra import require
from schedperf.model.errors import BundleError, InputError
from schedperf.model.text import clean_line
from schedperf_collectors.contract import temporary_prefix

_URL = re.compile(r"(file:/|(http|https|memory|s3)://)", re.IGNORECASE)
_CHUNK_BYTES = 1 << 20
# No answer from a server, and the longest transfer.
_CONNECT_S, _READ_S, _TOTAL_S = 10.0, 60.0, 3600.0


class Remote(NamedTuple):
    """A file or directory.

    :param files: file system of fsspec
    :param path: its path there
    """

    files: Any
    path: str


def is_url(name: str) -> bool:
    """Return whether a name is a URL that :func:`open_remote` opens, or of a local file."""
    return _URL.match(name) is not None


def redact(url: str) -> str:
    """Return a URL without user, password and query, for messages and logs."""
    try:
        parts = _split(url)
    except InputError:
        return "(invalid URL)"
    host = parts.netloc.rpartition("@")[2]
    query = "?..." if parts.query else ""
    return clean_line(f"{parts.scheme}://{host}{parts.path}{query}")


def local_path(name: str) -> Path | None:
    """Return the path of a file that a name or a ``file:`` URL means; None for another URL.

    :raises InputError: the URL is invalid
    """
    if not is_url(name):
        return Path(name)
    parts = _split(name)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def open_remote(url: str) -> Remote:
    """Return the file system that a URL names, and the path.

    :raises InputError: the URL is invalid, or a package is not installed
    """
    scheme = _split(url).scheme
    shown = redact(url)
    require("s3fs" if scheme == "s3" else "fsspec", shown)
    from fsspec.core import url_to_fs  # noqa: PLC0415 # an extra

    if "::" in url:
        raise InputError(f"{shown}: invalid URL (expected one protocol, e.g. s3://bucket/base.tar)")
    with explained(shown):
        return Remote(*url_to_fs(url, **_options(scheme)))


def _options(scheme: str) -> Mapping[str, Any]:
    """Return what limits the time of a transfer."""
    if scheme == "s3":
        return {"config_kwargs": {"connect_timeout": _CONNECT_S, "read_timeout": _READ_S}}
    if scheme in {"http", "https"}:
        from aiohttp import ClientTimeout  # noqa: PLC0415 # an extra

        limits = ClientTimeout(total=_TOTAL_S, sock_connect=_CONNECT_S, sock_read=_READ_S)
        return {"client_kwargs": {"timeout": limits}}
    return {}


def list_names(url: str) -> list[str]:
    """Return the names of the files in a directory, sorted.

    :param url: ends with a slash
    :raises InputError: it cannot be listed
    """
    remote = open_remote(url)
    with explained(redact(url)):
        return sorted(
            {path.rpartition("/")[2] for path in remote.files.ls(remote.path, detail=False)} - {""}
        )


@contextmanager
def local_copy(url: str, limit: int) -> Iterator[Path]:
    """Yield a temporary copy of a file; errors in the block name the URL instead of the copy.

    :param limit: largest accepted size in bytes
    :raises InputError: the file cannot be read, or is larger
    """
    shown = redact(url)
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        path = Path(folder) / (shown.rpartition("/")[2] or "bundle")
        _download(url, path, limit)
        try:
            yield path
        except BundleError as error:
            problem = error.problem.replace(str(path), shown)
            raise BundleError(problem, error.advice.replace(str(path), shown)) from None
        except InputError as error:
            raise InputError(str(error).replace(str(path), shown)) from None


@contextmanager
def local_file(name: str, limit: int) -> Iterator[Path]:
    """Yield the path of a file: a temporary copy if it is named by a URL.

    :param name: path, ``file:`` or other URL
    :param limit: largest accepted size of a copy in bytes
    :raises InputError: as :func:`local_copy`
    """
    path = local_path(name)
    if path is not None:
        yield path
        return
    with local_copy(name, limit) as copied:
        yield copied


def _download(url: str, path: Path, limit: int) -> None:
    shown = redact(url)
    remote = open_remote(url)
    # Without a block size, http would ask for ranges.
    how = {"block_size": 0} if _split(url).scheme in {"http", "https"} else {}
    left = limit
    with path.open("xb") as file:
        with explained(shown):
            opened = remote.files.open(remote.path, "rb", **how)
        with opened:
            while chunk := _read(opened, shown):
                left -= len(chunk)
                if left < 0:
                    raise InputError(f"{shown}: larger than {limit} bytes; check the file")
                _write(file, chunk, path)


def _read(opened: BinaryIO, shown: str) -> bytes:
    with explained(shown):
        return opened.read(_CHUNK_BYTES)


def _write(file: BinaryIO, chunk: bytes, path: Path) -> None:
    try:
        file.write(chunk)
    except OSError as error:
        raise InputError(
            f"{path.parent}: {_reason_of(error)}; set TMPDIR to a larger file system"
        ) from None


@contextmanager
def explained(shown: str) -> Iterator[None]:
    """Turn any error of a library that opens URLs into one line.

    :param shown: the URL without its secrets
    :raises InputError: there was an error
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 # each library has its own, and they may quote the URL
        raise InputError(
            f"{shown}: cannot be used: {_reason_of(error)}; check the URL, the network and the "
            "credentials"
        ) from None


def _reason_of(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        # fsspec raises it for any problem of a server.
        return _reason_of(error.__cause__)
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return f"HTTP status {status}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    number = getattr(error, "errno", None)
    if number is None and isinstance(error, FileNotFoundError):
        number = errno.ENOENT
    if number is None and isinstance(error, PermissionError):
        number = errno.EACCES
    return os.strerror(number).lower() if isinstance(number, int) else type(error).__name__


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise InputError("invalid URL (expected e.g. s3://bucket/base.tar); correct it") from None
