# SPDX-License-Identifier: GPL-2.0-or-later
"""Identify the programs and scripts that a workload's command names, by their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

# A static build of a benchmark has some megabytes, a database server a hundred.
_LARGEST_BYTES = 256 << 20
_MOST_PROGRAMS = 16
_MOST_WORDS = 256
_LONGEST_LINE = 256
_CHUNK_BYTES = 1 << 20
# NAME=VALUE, as env(1) takes it.
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SEPARATORS = re.compile(r"[;&|()<>`$\n]+")


def describe_programs(command: Sequence[str]) -> list[dict[str, str]]:
    """Return base name ("name") and SHA-256 ("sha256") of the files that a command names.

    These are programs, scripts, their interpreters and other files, as far as :func:`digest` can
    read them, at most 16. Files that the command does not name, e.g. libraries, are not among them.

    :param command: the words; one that contains white space is split as a shell command
    """
    described: list[dict[str, str]] = []
    for path in _with_interpreters(_paths(command)):
        sha256 = digest(path)
        if sha256 is not None and len(described) < _MOST_PROGRAMS:
            described.append({"name": path.name, "sha256": sha256})
    return described


def _paths(command: Sequence[str]) -> Iterator[Path]:
    for word in _words(command):
        if word.startswith("-") or _ASSIGNMENT.match(word):
            continue
        program = shutil.which(word)
        # hackbench; or run.py, which its interpreter reads.
        if program is not None:
            yield Path(program)
        elif Path(word).is_file():
            yield Path(word)


def _words(command: Sequence[str]) -> list[str]:
    words: list[str] = []
    for word in command[:_MOST_WORDS]:
        if any(character.isspace() for character in word):
            with contextlib.suppress(ValueError):
                words += shlex.split(_SEPARATORS.sub(" ", word))[:_MOST_WORDS]
        else:
            words.append(word)
    return words[:_MOST_WORDS]


def _with_interpreters(paths: Iterator[Path]) -> Iterator[Path]:
    seen: set[Path] = set()
    for path in paths:
        for each in (path, *_interpreter(path)):
            resolved = each.resolve()
            if resolved not in seen:
                seen.add(resolved)
                yield each


def _interpreter(path: Path) -> Iterator[Path]:
    """Yield the program that a script names in its first line; nothing for other files."""
    with contextlib.suppress(OSError, ValueError):
        if not stat.S_ISREG(path.stat().st_mode):
            return
        with path.open("rb") as file:
            line = file.readline(_LONGEST_LINE)
        if line.startswith(b"#!"):
            words = line[2:].decode("utf-8", "replace").split()
            # #!/usr/bin/env python3
            named = words[1:2] if words and words[0].endswith("/env") else words[:1]
            program = shutil.which(named[0]) if named else None
            if program is not None:
                yield Path(program)


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it is not readable, not a regular file or too large."""
    hashed = hashlib.sha256()
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
                return None
            for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
                hashed.update(chunk)
    except (OSError, ValueError):
        return None
    return hashed.hexdigest()
