# SPDX-License-Identifier: GPL-2.0-or-later
"""Read and write a record and its comparisons, which are found by their ids.

The comparisons are in the same directory as the record: files of ``schedperf compare --json`` with
any name that ends in ``.json``.
"""

import fcntl
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedperf.compare.json import MOST_BYTES, read_comparison
from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_head, read_regular
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.publish.culprit.json import problems_of, read_culprit, write_culprit
from schedperf.publish.culprit.record import Culprit

# The id is at the beginning of a comparison's file.
_HEAD_BYTES = 4096
_ID = re.compile(rb'"id":\s*"([0-9a-f]{64})"')
MOST_FILES = 10_000


@contextmanager
def change_record(path: Path) -> Iterator[None]:
    """Lock the records of a directory for a change; other commands wait.

    :param path: path of the record that will be written
    :raises InputError: its directory does not exist, or cannot be read
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def load_culprit(path: Path) -> Culprit:
    """Read a record.

    :raises InputError: it cannot be read, is damaged, or is of another version
    """
    content = read_regular(path, MOST_BYTES, "the record of schedperf culprit new")
    return read_culprit(content, str(path))


def load_comparison(path: Path) -> Comparison:
    """Read a comparison.

    :raises InputError: it cannot be read, is damaged, or is of another version
    """
    content = read_regular(path, MOST_BYTES, "a comparison of schedperf compare --json")
    return read_comparison(content, str(path))


def find_comparisons(folder: Path, ids: Collection[str]) -> dict[str, Comparison]:
    """Return, by id, the comparisons with the given ids that are in a directory.

    :raises InputError: the directory or a file with one of the ids cannot be read, such a file is
        damaged or of another version, or the directory has more than 10,000 JSON files
    """
    found: dict[str, Comparison] = {}
    for path in _json_files(folder):
        match = _ID.search(read_head(path, _HEAD_BYTES))
        if match and (name := match[1].decode()) in ids and name not in found:
            comparison = load_comparison(path)
            found[comparison.id] = comparison
    return found


def save_culprit(path: Path, culprit: Culprit) -> None:
    """Write a record completely or not at all; an existing one is replaced.

    :raises InputError: it cannot be written, or :func:`load_culprit` would reject it
    """
    for problem in problems_of(culprit):
        raise InputError(f"{path}: not written: {problem}; correct what was given")
    try:
        write_durably(path, write_culprit(culprit))
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> InputError:
    problem = (error.strerror or str(error)).lower()
    return InputError(f"{path}: cannot be written ({problem}); choose another path")


def _json_files(folder: Path) -> Iterator[Path]:
    try:
        paths = sorted(path for path in folder.glob("*.json") if path.is_file())
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{folder}: cannot be read ({problem}); check the path") from None
    if len(paths) > MOST_FILES:
        raise InputError(
            f"{folder}: {len(paths)} JSON files (expected at most {MOST_FILES}); keep the record "
            "and its comparisons in a directory of their own"
        )
    yield from paths
