# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the files that decisions name."""

from pathlib import Path

from schedperf.history.store.apply import Content
from schedperf.history.store.foreign import LARGEST_BYTES, parse_foreign
from schedperf.history.store.objects import hash_file
from schedperf.history.store.reading import read_rows
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.tar import MAX_TOTAL_BYTES
from schedperf.inputs.importers.open import Opener
from schedperf.inputs.many.urls import local_file


def read_content(path: Path, kind: str, label: str | None = None) -> Content:
    """Read a bundle or a table.

    :param path: a file, or FORMAT:PATH
    :param kind: "bundle" or "table"
    :param label: of a table; None for the name of the file
    :raises InputError: it cannot be read
    """
    if kind == "bundle":
        with Opener() as opener:
            return read_rows(opener.open(path))
    content = read_regular(path, LARGEST_BYTES, "a table of a history")
    return parse_foreign(content, path, label)


def largest_file(kind: str) -> int:
    """Return the largest accepted size of a file, in bytes.

    :param kind: "bundle" or "table"
    """
    return LARGEST_BYTES if kind == "table" else MAX_TOTAL_BYTES


def hash_named(name: str, kind: str) -> str:
    """Return the SHA-256 of a file, which a path or a URL names.

    :raises InputError: it cannot be read
    """
    with local_file(name, largest_file(kind)) as path:
        return hash_file(path)
