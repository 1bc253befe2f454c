# SPDX-License-Identifier: GPL-2.0-or-later
"""Limit the stored output of a workload to the beginning, the end, and results between them."""

from __future__ import annotations

import collections
import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from re import Match, Pattern
from typing import BinaryIO

# Benchmarks print kilobytes, with settings first and results last. Readers of bundles refuse texts
# of more than 16 MiB.
HEAD_BYTES = 4 << 20
TAIL_BYTES = 8 << 20
# Between them, the last match of each --metric rule is kept, because readers use the last match in
# the whole output. All matches together are limited to this many bytes.
MATCHES_BYTES = 1 << 20
# The file is searched in parts of whole lines, from its end. The time that an expression takes can
# grow with the square of the length of a line, so lines longer than a part are not searched.
PART_BYTES = 1 << 16
SEARCH_S = 10.0


def shorten(
    path: Path,
    rules: Sequence[str] = (),
    *,
    head_bytes: int = HEAD_BYTES,
    tail_bytes: int = TAIL_BYTES,
) -> int:
    """Remove the middle of a long text file; keep whole lines if they are short enough.

    :param rules: regular expressions of metrics; lines in the middle with the last match of each
        are kept, unless the end of the file has one; lines longer than PART_BYTES are not searched,
        the search ends after SEARCH_S, and at most MATCHES_BYTES are kept
    :param head_bytes: how much of the beginning is kept
    :param tail_bytes: how much of the end is kept
    :return: number of bytes left out; 0 if the file is short
    :raises OSError: the file cannot be read or written
    """
    size = path.stat().st_size
    if size <= head_bytes + tail_bytes:
        return 0
    with path.open("r+b") as file:
        head = file.read(head_bytes)
        # With the byte before it, which may end a line.
        file.seek(size - tail_bytes - 1)
        tail = file.read()
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail.partition(b"\n")[2] or tail[1:]
        matches = _last_matches(file, len(head), size - len(tail), size, rules)
        file.seek(len(head))
        file.write(matches)
        file.write(tail)
        file.truncate()
    return size - len(head) - len(matches) - len(tail)


def _last_matches(
    file: BinaryIO, start: int, tail_start: int, end: int, rules: Sequence[str]
) -> bytes:
    """Return the lines between head and tail with the last match of each rule, in file order.

    A rule whose last match is in the tail adds none.
    """
    missing = [re.compile(rule, re.MULTILINE) for rule in rules]
    kept: dict[int, bytes] = {}
    deadline_s = time.monotonic() + SEARCH_S
    for offset, part in _parts_from_end(file, start, end):
        if not missing or time.monotonic() > deadline_s:
            break
        text = part.decode("utf-8", "replace")
        for pattern in tuple(missing):
            match = _last_match(pattern, text)
            if match is None:
                continue
            missing.remove(pattern)
            found = _lines_of(match, part)
            lines = {**kept, **{offset + at: found[at] for at in found if offset + at < tail_start}}
            if sum(map(len, lines.values())) <= MATCHES_BYTES:
                kept = lines
    return b"".join(kept[offset] for offset in sorted(kept))


def _last_match(pattern: Pattern[str], text: str) -> Match[str] | None:
    matches = collections.deque(pattern.finditer(text), maxlen=1)
    return matches[0] if matches else None


def _lines_of(match: Match[str], part: bytes) -> dict[int, bytes]:
    """Return the whole lines of a match by their offset in the part."""
    # Lines are counted, because bytes that are not UTF-8 change the length of the text.
    start, end = match.span()
    first = match.string.count("\n", 0, start)
    last = match.string.count("\n", 0, max(start, end - 1))
    lines = [line + b"\n" for line in part.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    offsets = list(itertools.accumulate(map(len, lines), initial=0))
    return {offsets[index]: lines[index] for index in range(first, last + 1)}


def _parts_from_end(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a file with their offsets, last first: whole lines, without long ones."""
    is_in_long_line = False
    while end > start:
        offset = max(start, end - PART_BYTES)
        file.seek(offset)
        part = file.read(end - offset)
        # The last byte ends a line; text before the first line end belongs to the next part.
        skipped = part.find(b"\n", 0, -1) + 1 if offset > start else 0
        end = offset + skipped
        if offset > start and not skipped:
            is_in_long_line = True
            continue
        if is_in_long_line:
            part = part[: part.rfind(b"\n") + 1]
            is_in_long_line = False
        yield offset + skipped, part[skipped:]


def shorten_output(folder: Path, rules: Sequence[str] = ()) -> dict[str, int]:
    """Shorten stdout and stderr of a run.

    :param rules: as for :func:`shorten`
    :return: number of bytes removed, by file name; only of files that were shortened
    """
    left_out = {name: shorten(Path(folder, name), rules) for name in ("stdout", "stderr")}
    return {name: count for name, count in left_out.items() if count}


def describe_left_out(left_out: Mapping[str, int], *, has_rules: bool) -> str:
    """Return the warning about output that is not stored.

    :param left_out: of :func:`shorten_output`
    :param has_rules: whether there are rules of metrics
    """
    parts = ", ".join(f"{count} bytes of {name}" for name, count in left_out.items())
    matches = " and the last match of each --metric rule" if has_rules else ""
    return (
        f"the output is too long, so {parts} are omitted and only the first {HEAD_BYTES >> 20} "
        f"and the last {TAIL_BYTES >> 20} MiB{matches} are kept; redirect output without results "
        "to /dev/null"
    )
