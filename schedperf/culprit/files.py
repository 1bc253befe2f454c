# SPDX-License-Identifier: GPL-2.0-or-later
"""Read and write the files of a record: the record itself, and its comparisons, found by their ids.

The comparisons that a record refers to lie beside it, as ``schedperf compare --json`` wrote them,
under any name that ends in ``.json``.
"""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from schedperf.compare.json import MOST_BYTES, read_comparison
from schedperf.culprit.json import read_culprit, write_culprit
from schedperf.culprit.record import Culprit
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError

# The id stands at the begin of a comparison's file.
_HEAD_BYTES = 4096
_ID = re.compile(rb'"id":\s*"([0-9a-f]{64})"')
MOST_FILES = 10_000


def load_culprit(path: Path) -> Culprit:
    """Read a record.

    :raises InputError: it cannot be read, or is damaged
    """
    return read_culprit(read_bounded(path), str(path))


def load_comparison(path: Path) -> Comparison:
    """Read a comparison.

    :raises InputError: it cannot be read, or is damaged
    """
    return read_comparison(read_bounded(path), str(path))


def find_comparisons(folder: Path, ids: Collection[str]) -> dict[str, Comparison]:
    """Return those of the comparisons that lie in a directory.

    :raises InputError: a file with one of the ids is damaged, or there are too many files
    """
    found: dict[str, Comparison] = {}
    for path in _json_files(folder):
        match = _ID.search(_head(path))
        if match and (name := match[1].decode()) in ids and name not in found:
            comparison = load_comparison(path)
            found[comparison.id] = comparison
    return found


def save_culprit(path: Path, culprit: Culprit, *, replace: bool) -> None:
    """Write a record completely or not at all.

    :param replace: whether an existing file is replaced
    :raises InputError: it cannot be written, or exists
    """
    if not replace and path.exists():
        raise InputError(f"{path}: exists; add to it by `schedperf culprit add`, or remove it")
    copy = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with copy.open("xb") as file:
                file.write(write_culprit(culprit))
                file.flush()
                os.fsync(file.fileno())
            copy.replace(path)
        finally:
            copy.unlink(missing_ok=True)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{path}: cannot be written ({problem}); choose another path") from None


def _json_files(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(path for path in folder.glob("*.json") if path.is_file())
    except OSError as error:
        raise _unreadable(folder, error) from None
    if len(paths) > MOST_FILES:
        raise InputError(
            f"{folder}: {len(paths)} JSON files (expected at most {MOST_FILES}); keep the record "
            "and its comparisons in a directory of their own"
        )
    yield from paths


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file, of one that is too large the first ``most + 1`` bytes.

    :raises InputError: it cannot be read
    """
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> InputError:
    problem = (error.strerror or str(error)).lower()
    return InputError(f"{path}: cannot be read ({problem}); check the path")
