# SPDX-License-Identifier: GPL-2.0-or-later
"""Read and check the commit that a kernel was built from, as given with ``--source``.

::

    {"commit": "0123456789abcdef0123456789abcdef01234567", "subject": "sched/fair: …",
     "tree": "https://example.org/linux.git", "ref": "sched/core", "vmlinux": "vmlinux"}

Only ``commit`` is required; docs/bundle.md lists the keys.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.elf_symbols import BadElf, read_build_id
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.kernel_files import build_id
from schedperf_collectors.machine.system import System

Source = Mapping[str, Any]

# 100 links of 500 characters, each of which may be escaped as \uXXXX.
_LONGEST_BYTES = 1 << 20
_LONGEST_TEXT = 500
_MOST_TEXTS = 100

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_BUILD_ID = re.compile(r"(?:[0-9a-f]{2}){4,32}\Z")
_DATE = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"(?:[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?)?\Z"
)

_TEXTS = ("tree", "ref", "subject", "author", "committer", "describe", "vmlinux")
_PATTERNS = {
    "commit": (_COMMIT, "40 or 64 hexadecimal digits"),
    "build_id": (_BUILD_ID, "hexadecimal digits, as `file vmlinux` prints them"),
    "committed": (_DATE, "a date as `git log --format=%cI` prints it, e.g. 2026-11-21T10:00:00Z"),
}
_LISTS = ("patches", "links")
_KEYS = (*_PATTERNS, *_TEXTS, "dirty", *_LISTS)
_TIMEZONE = re.compile(r" ?([+-]\d\d):?(\d\d)\Z")


def read_source(text: str) -> Source:
    """Return the commit that a JSON file, or a JSON text, describes.

    Keys whose value is null or an empty list are left out. ``vmlinux``, a path that may be relative
    to the directory of the JSON file (for a text: to the current one), is replaced by ``build_id``.

    :param text: a path; or JSON that begins with {
    :raises ValueError: the file or the vmlinux cannot be read, or is invalid
    """
    if text.lstrip().startswith("{"):
        return _parse(text.encode(errors="surrogateescape"), "JSON", Path())
    path = Path(text)
    return _parse(_read(path), text, path.parent)


def format_source(source: Source) -> str:
    """Format a commit as one line of JSON, which :func:`read_source` reads.

    >>> format_source({"commit": "1f" * 20, "dirty": True})
    '{"commit": "1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f", "dirty": true}'
    """
    return json.dumps(source)


def check_build(source: Source | None) -> None:
    """Reject a commit whose build id is not that of the running kernel.

    :param source: the commit, which is accepted if it has no build id; None if not given
    :raises RecordError: the build ids differ, or that of the running kernel is unknown
    """
    expected = None if source is None else source.get("build_id")
    if expected is None:
        return
    try:
        running = build_id(System())
    except Unavailable as error:
        raise RecordError(
            f"--source: the running kernel cannot be checked ({error.say()}); leave out vmlinux "
            "and build_id"
        ) from error
    if running != expected:
        raise RecordError(
            f"--source: build id {running} of the running kernel differs from {expected} of the "
            "vmlinux; boot that kernel, or give the source of the running one"
        )


def _read(path: Path) -> bytes:
    try:
        # Opening a fifo would block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError(f"{path}: not a regular file (expected a JSON file)")
            content = file.read(_LONGEST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: {explain(error)} (expected a JSON file)") from error
    if len(content) > _LONGEST_BYTES:
        raise ValueError(f"{path}: too large (expected at most {_LONGEST_BYTES} bytes)")
    return content


def _parse(content: bytes, where: str, folder: Path) -> Source:
    """Parse a commit: check keys and values, and replace the vmlinux by its build id.

    :param where: name of the text, for messages
    :param folder: where a relative path of the vmlinux begins
    :raises ValueError: it is invalid, or the vmlinux cannot be read
    """
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: invalid JSON (expected an object)") from error
    if not isinstance(given, dict):
        raise ValueError(  # noqa: TRY004 # argparse prints a ValueError
            f'{where}: invalid JSON value (expected an object, e.g. {{"commit": "…"}})'
        )
    for key in given:
        if key not in _KEYS:
            raise ValueError(
                f"{where}: unknown key {key[:40]!r} (expected one of {', '.join(_KEYS)})"
            )
    source = {
        key: _check(key, given[key], where) for key in _KEYS if given.get(key) not in (None, [])
    }
    if "commit" not in source:
        raise ValueError(f"{where}: commit is missing (expected 40 or 64 hexadecimal digits)")
    if "committed" in source:
        # As ISO 8601 has it; git also prints "2026-11-21 10:00:00 +0100".
        date = source["committed"].replace(" ", "T", 1)
        source["committed"] = _TIMEZONE.sub(r"\1:\2", date)
    vmlinux = source.pop("vmlinux", None)
    if vmlinux is None:
        return source
    return _with_build_id(source, folder / vmlinux, where)


def _with_build_id(source: dict[str, Any], vmlinux: Path, where: str) -> Source:
    try:
        found = read_build_id(vmlinux)
    except BadElf as error:
        raise ValueError(f"{where}: vmlinux {vmlinux}: {error}") from error
    if found is None:
        raise ValueError(f"{where}: vmlinux {vmlinux}: no build id (expected one, from the linker)")
    if source.get("build_id", found) != found:
        raise ValueError(
            f"{where}: build_id {source['build_id']} differs from {found} of vmlinux {vmlinux}"
        )
    return {**source, "build_id": found}


def _check(key: str, value: Any, where: str) -> Any:
    if key == "dirty":
        if not isinstance(value, bool):
            raise ValueError(f"{where}: invalid dirty (expected true or false)")
        return value
    if key in _LISTS:
        if not isinstance(value, list) or len(value) > _MOST_TEXTS:
            raise ValueError(
                f"{where}: invalid {key} (expected a list of at most {_MOST_TEXTS} texts)"
            )
        return [_check_text(f"{key}[{i}]", text, where) for i, text in enumerate(value)]
    text = _check_text(key, value, where)
    pattern, expected = _PATTERNS.get(key, (None, ""))
    if pattern is not None and not pattern.match(text):
        raise ValueError(f"{where}: invalid {key} {text[:40]!a} (expected {expected})")
    return text


def _check_text(key: str, value: Any, where: str) -> str:
    # Control characters and those that change the direction of text are not printable.
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(
            f"{where}: invalid {key} {str(value)[:40]!a} (expected one line of printable text)"
        )
    if len(value) > _LONGEST_TEXT:
        raise ValueError(
            f"{where}: {key} has {len(value)} characters (expected at most {_LONGEST_TEXT})"
        )
    return value


def agree(path: Path, what: str, recorded: Any, given: Any) -> Any:
    """Return the value that a bundle declares, else the one given for added runs, else None.

    :param path: the bundle's path, for messages
    :param what: option with the value
    :param recorded: value in the bundle; None if it has none
    :param given: given value; None if not given
    :raises RecordError: they differ; of commits, only ``commit``, ``dirty`` and ``patches`` are
        compared
    """
    if None not in (recorded, given) and _identity(recorded) != _identity(given):
        shown = recorded.get("commit") if isinstance(recorded, dict) else recorded
        raise RecordError(
            f"{path}: recorded with another {what} ({str(shown)[:80]}); leave out {what}, or use "
            "-o FILE for another side"
        )
    return given if recorded is None else recorded


def agree_facts(path: Path, recorded: Any, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts that a bundle states, and those that are given for added runs.

    :param recorded: facts in the bundle; another value for none
    :raises RecordError: a fact has two values
    """
    known = recorded if isinstance(recorded, dict) else {}
    for key, value in given.items():
        agree(path, f"--fact {key}", known.get(key), value)
    return {**known, **given}


def _identity(declared: Any) -> Any:
    # Names of a commit, such as branches and tags, may change between two recordings.
    if not isinstance(declared, dict):
        return declared
    return declared.get("commit"), bool(declared.get("dirty")), declared.get("patches") or []


def named_sources(given: Sequence[tuple[str, Source]], kernels: Sequence[str]) -> dict[str, Source]:
    """Return the commits of the kernels of ``ab --kernel`` by name, only of those with one.

    :param given: name and commit of each ``--source``
    :param kernels: names of the kernels
    :raises RecordError: a name is missing, unknown or given twice
    """
    sources: dict[str, Source] = {}
    for name, source in given:
        if name not in kernels:
            problem = f"{name}: no --kernel of this name" if name else "name missing"
            raise RecordError(
                f"--source: {problem} (expected NAME=FILE, NAME one of {', '.join(kernels)})"
            )
        if name in sources:
            raise RecordError(f"--source {name}: given twice; give one file per kernel")
        sources[name] = source
    return sources


def only_source(given: Sequence[tuple[str, Source]]) -> Source | None:
    """Return the commit of the running kernel, which all sides have; None if not given.

    :param given: name and commit of each ``--source``
    :raises RecordError: several are given, or one has the name of a kernel
    """
    for name, _ in given:
        if name:
            raise RecordError(
                f"--source {name}=FILE: names are those of --kernel; give --source FILE"
            )
    if len(given) > 1:
        raise RecordError("--source: given twice; all sides run the same kernel, so give one file")
    return given[0][1] if given else None
