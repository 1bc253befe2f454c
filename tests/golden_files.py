# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare what the code prints with what it printed before, and rewrite that when asked to.

Texts compare byte for byte. JSON and CSV compare value by value, numbers within 1e-12 of each
other; of a long document the rows and findings are kept whole, and of other long parts a digest.
No file is larger than ``LARGEST_FILE``: rows are then lines of a table, and long tables of a text
are cut.
``make bless`` (SCHEDPERF_BLESS=1) rewrites the files, which CI refuses.
"""

import csv
import difflib
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

# A document that is longer than this, as it is written, is kept in parts and digests.
LONGEST_DOCUMENT = 50_000
# Of such a document a part that is longer than this is kept as its digest.
LONGEST_PART = 2_000
# If it is still larger than this, its rows are kept in a table beside it, one line each; of a text
# that is larger, a block is cut after so many lines, and the others are kept as their digest.
LARGEST_FILE = 100_000
LONGEST_BLOCK = 40
TABLE = ".rows.csv"
# What a line has of a row; of the rest, its sentences and the values of runs, it has a digest.
COLUMNS = (
    "side", "workload", "point", "metric", "unit", "better", "family", "n_base", "n_new", "base",
    "new", "ratio", "ci_low", "ci_high", "p", "q", "verdict", "mde", "method", "replication",
)  # fmt: skip
DIGEST_LETTERS = 16
# Parts that are always kept in full: the numbers and sentences that reviewers look for.
KEPT_WHOLE = (
    "rows", "findings", "caveats", "comparability", "families", "sweeps", "next_steps", "overall",
)  # fmt: skip
# How far two numbers may lie apart: other processors round sums in other ways.
RELATIVE_TOLERANCE = 1e-12
# A digest cannot compare within a tolerance. Its numbers are rounded so coarsely that last bits do
# not change it, and what remains of a difference of equal numbers is 0.
DIGEST_DIGITS = 6
DIGEST_ZERO = 1e-12
# More differences than these are one: it is another document.
MOST_SHOWN = 40


def is_blessing() -> bool:
    """Return whether expectations are to be rewritten; fail where CI would do so."""
    if os.environ.get("SCHEDPERF_BLESS") != "1":
        return False
    if os.environ.get("CI"):
        pytest.fail("SCHEDPERF_BLESS is set in CI, where expectations must not be rewritten")
    return True


def check_text(path: Path, text: str) -> None:
    """Fail with a unified diff unless the file holds this text."""
    text = _cut_blocks(text)
    if is_blessing():
        _write(path, text)
    expected = _read(path)
    if text != expected:
        difference = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), "expected", "found", lineterm=""
        )
        # Texts that differ in their line ends alone have no line to show.
        lines = list(difference) or [f"-{expected[-40:]!r}", f"+{text[-40:]!r}"]
        pytest.fail("\n".join([f"{path} differs:", *lines]))


def check_json(path: Path, found: object) -> None:
    """Fail with the paths that differ, and both values of each, unless the file holds this."""
    short = shorten(_hide_tool_version(found))
    if isinstance(short, dict) and "rows" in short and len(write(short)) > LARGEST_FILE:
        check_csv(path.with_suffix(TABLE), _write_rows(short["rows"]))
        short = {**short, "rows": {"items": len(short["rows"])}}
    else:
        check_absent(path.with_suffix(TABLE))
    is_same = path.exists() and not list(differences(json.loads(path.read_bytes()), short))
    # Numbers that differ in their last bits alone are no reason to rewrite a file.
    if is_blessing() and not is_same:
        _write(path, write(short))
    told = list(differences(json.loads(_read(path)), short))
    if told:
        more = [f"and {len(told) - MOST_SHOWN} more"] if len(told) > MOST_SHOWN else []
        pytest.fail("\n".join([f"{path} differs:", *told[:MOST_SHOWN], *more]))


def check_absent(path: Path) -> None:
    """Fail if there is a file that nothing prints any more; blessing removes it."""
    if is_blessing():
        path.unlink(missing_ok=True)
    if path.exists():
        pytest.fail(f"{path} is not printed any more; SCHEDPERF_BLESS=1 removes it")


def read_document(path: Path) -> Any:
    """Return what is kept of a JSON document; of rows in a table, texts by column."""
    document = json.loads(path.read_bytes())
    table = path.with_suffix(TABLE)
    if not table.exists():
        return document
    rows = list(csv.DictReader(table.read_text().splitlines()))
    caveats = [[{"code": code, "text": ""} for code in row["caveats"].split()] for row in rows]
    together = zip(rows, caveats, strict=True)
    return {**document, "rows": [{**row, "caveats": of_row} for row, of_row in together]}


def _write_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*COLUMNS, "caveats", "rest"])
    for row in rows:
        codes = " ".join(caveat["code"] for caveat in row["caveats"])
        rest = {name: value for name, value in row.items() if name not in COLUMNS}
        digest = str(_digest(rest)["sha256"])[:DIGEST_LETTERS]
        table.writerow([*(row[name] for name in COLUMNS), codes, digest])
    return text.getvalue()


def _cut_blocks(text: str) -> str:
    if len(text.encode()) <= LARGEST_FILE:
        return text
    return "\n\n".join(map(_cut, text.split("\n\n")))


def _cut(block: str) -> str:
    lines = block.split("\n")
    rest = lines[LONGEST_BLOCK:]
    if not rest:
        return block
    digest = hashlib.sha256("\n".join(rest).encode()).hexdigest()[:DIGEST_LETTERS]
    return "\n".join([*lines[:LONGEST_BLOCK], f"(and {len(rest)} lines, {digest})"])


def check_csv(path: Path, text: str) -> None:
    """Fail with the cells that differ, and both values, unless the file holds this table."""
    found = _cells(text)
    is_same = path.exists() and not list(differences(_cells(_read(path)), found))
    if is_blessing() and not is_same:
        _write(path, text)
    told = list(differences(_cells(_read(path)), found))
    if told:
        pytest.fail("\n".join([f"{path} differs:", *told[:MOST_SHOWN]]))


def _cells(text: str) -> list[object]:
    # Lists of numbers, as of the values of all runs, are one cell.
    rows = list(csv.reader(text.splitlines(keepends=True)))
    return [[[_number(part) for part in cell.split(" ")] for cell in row] for row in rows]


def _number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _read(path: Path) -> str:
    if not path.exists():
        pytest.fail(f"{path} does not exist; SCHEDPERF_BLESS=1 writes it, then read it")
    # Line ends are compared as well.
    return path.read_bytes().decode()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def write(value: object) -> str:
    """Return JSON as it lies in a file."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def hide_version(text: str) -> str:
    """Replace versions of the program; what is shown of one bundle keeps that of its recorder."""
    return re.sub(r'(?<!by )(schedperf |"schedperf" value=")\d+\.\d+\.\d+', r"\1VERSION", text)


def _hide_tool_version(document: object) -> object:
    # What is shown of a bundle has the version that recorded it, which stays.
    is_ours = isinstance(document, Mapping) and document.get("schema") != "schedperf/show/1"
    if is_ours and isinstance(document, Mapping) and "tool_version" in document:
        return {**document, "tool_version": "VERSION"}
    return document


def shorten(document: object) -> object:
    """Return the document itself, or what is kept of a long one."""
    if not _is_longer(document, LONGEST_DOCUMENT):
        return document
    if not isinstance(document, Mapping):
        return _digest(document)
    return {
        key: value if key in KEPT_WHOLE else _shorten_part(key, value)
        for key, value in document.items()
    }


def _is_longer(value: object, characters: int) -> bool:
    # On one line it is shorter, and written ten times as fast.
    return len(json.dumps(value, ensure_ascii=False)) > characters or len(write(value)) > characters


def _shorten_part(key: str, value: Any) -> object:
    # Sections are kept one by one: status, reason, and a digest of each part of their data.
    if not _is_longer(value, LONGEST_PART):
        return value
    if isinstance(value, Mapping):
        return {name: _shorten_part(f"{key}.{name}", part) for name, part in value.items()}
    return _digest(value)


def _digest(value: object) -> Mapping[str, object]:
    text = json.dumps(_round(value), sort_keys=True, allow_nan=False)
    items = {"items": len(value)} if isinstance(value, list) else {}
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), **items}


def _round(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{DIGEST_DIGITS}g}") if abs(value) > DIGEST_ZERO else 0.0
    if isinstance(value, Mapping):
        return {key: _round(item) for key, item in value.items()}
    return [_round(item) for item in value] if isinstance(value, list) else value


def differences(expected: object, found: object, path: str = "$") -> Iterator[str]:
    """Yield a line for each path at which two JSON documents differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        yield from _of_objects(expected, found, path)
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path}: {len(expected)} items expected, {len(found)} found"
        for place, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from differences(one, other, f"{path}[{place}]")
    elif not _are_equal(expected, found):
        yield f"{path}: expected {_tell(expected)}, found {_tell(found)}"


def _of_objects(
    expected: Mapping[str, object], found: Mapping[str, object], path: str
) -> Iterator[str]:
    for key in dict.fromkeys((*expected, *found)):
        if key not in found:
            yield f"{path}.{key}: expected {_tell(expected[key])}, missing"
        elif key not in expected:
            yield f"{path}.{key}: not expected, found {_tell(found[key])}"
        else:
            yield from differences(expected[key], found[key], f"{path}.{key}")


def _are_equal(one: object, other: object) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE)
    return one == other


def _tell(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
