# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the benchmarks that ``ab --kernel --jobs FILE`` records in each boot.

::

    [[job]]
    name = "hackbench"
    run = ["hackbench", "-l", "500", "-g", "{groups}"]
    points = {groups = [1, 4, 16]}
    runs = 2

The file is TOML, or the same tables as JSON. A key that is missing has the value of the option.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedperf_collectors.contract import format_template, point_key
from schedperf_collectors.machine.errors import RecordError, explain, printable
from schedperf_collectors.recorder.boot_options import MOST_JOBS, NAME
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.plan import check_placeholders, cross_points

# A file becomes one argument of the recorder, which Linux limits to 128 KiB.
_LONGEST_BYTES = 64 << 10
_NUMBERS = {"runs": "--runs", "instrumented": "--instrumented", "warmup": "--warmup"}
_NAMES = {"with": "--with", "without": "--without"}
# The keys of a job.
KEYS = ("name", "run", "points", *_NUMBERS, *_NAMES, "metric")
_EXAMPLES = {
    "name": 'a text of at most 64 letters, digits and _ . + -, e.g. "hackbench"',
    "run": 'a list of words, e.g. ["hackbench", "-g", "{groups}"]',
    "points": "a table with a list of values per placeholder, e.g. {groups = [1, 4]}",
    **dict.fromkeys(_NUMBERS, "a number, e.g. 2"),
    **dict.fromkeys(_NAMES, 'a list of collectors, e.g. ["default"]'),
    "metric": 'a list of rules, e.g. ["rate[1/s,higher]=rate: ([0-9.]+)"]',
}
_OF_PARSER = re.compile(r"\Aargument [^:]*: ")


@dataclass(frozen=True)
class Job:
    """One benchmark.

    :param options: options of ``ab`` that only this benchmark has
    :param command: the workload, with placeholders
    """

    name: str
    options: tuple[str, ...]
    command: tuple[str, ...]


def read_jobs(text: str) -> tuple[Mapping[str, Any], Sequence[Job]]:
    """Return the tables of a file, and its jobs in their order.

    :param text: a path; or JSON that begins with {
    :raises RecordError: the file cannot be read, or is invalid
    """
    if text.startswith("{"):
        tree = _parse_json(text.encode(), "--jobs")
        return tree, parse_jobs(tree, "--jobs")
    tree = read_tree(Path(text), "a file with [[job]] tables")
    return tree, parse_jobs(tree, printable(text))


def read_tree(path: Path, expected: str) -> Mapping[str, Any]:
    """Return the tables of a TOML file, or the same tables as JSON.

    :param expected: what kind of file is expected, for messages
    :raises RecordError: the file cannot be read, or is invalid
    """
    where = printable(str(path))
    content = _read(path, where, expected)
    is_json = content.lstrip().startswith(b"{")
    return _parse_json(content, where) if is_json else _parse_toml(content, where)


def without_jobs(arguments: Sequence[str]) -> list[str]:
    """Return the options of ``ab`` without --jobs."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--jobs")
    return parser.parse_known_args(list(arguments))[1]


def _read(path: Path, where: str, expected: str) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"{where}: not a regular file; give {expected}")
        with path.open("rb") as file:
            content = file.read(_LONGEST_BYTES + 1)
    except OSError as error:
        raise RecordError(f"{where}: {explain(error)}; give {expected}") from error
    except ValueError as error:
        raise RecordError(f"{where}: {error}; give {expected}") from error
    if len(content) > _LONGEST_BYTES:
        raise RecordError(f"{where}: larger than {_LONGEST_BYTES >> 10} KiB; write less")
    return content


def _parse_json(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        tree = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        reason = printable(str(error)) or "nested too deeply"
        raise RecordError(f"{where}: invalid JSON: {reason}; edit the file") from None
    if not isinstance(tree, dict):
        raise RecordError(f"{where}: invalid JSON (expected an object with a list job)")
    return tree


def _parse_toml(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        # Python 3.11 and newer.
        loads = importlib.import_module("tomllib").loads
    except ImportError:
        raise RecordError(
            f"{where}: this Python reads no TOML (3.11 or newer does); write the same tables as "
            'JSON, {"job": [{"name": …}]}, or use `schedperf ab`'
        ) from None
    try:
        tree: Mapping[str, Any] = loads(content.decode())
    except (ValueError, RecursionError) as error:
        reason = printable(str(error)) or "nested too deeply"
        raise RecordError(f"{where}: invalid TOML: {reason}; edit the file") from None
    return tree


def parse_jobs(tree: Mapping[str, Any], where: str) -> Sequence[Job]:
    """Return the jobs of a file in their order.

    :param where: name of the file, for messages
    :raises RecordError: a table is invalid
    """
    for name in tree:
        if name != "job":
            raise RecordError(
                f"{where}: {_shown(name)}: unknown table (expected only [[job]]); edit the file"
            )
    tables = tree.get("job")
    if not isinstance(tables, list) or not 1 <= len(tables) <= MOST_JOBS:
        raise RecordError(f"{where}: job: expected 1 to {MOST_JOBS} tables [[job]]; edit the file")
    jobs: list[Job] = []
    recorded: dict[tuple[str, str], str] = {}
    for number, table in enumerate(tables, 1):
        job, points = _parse_job(table, where, number)
        if job.name in (other.name for other in jobs):
            raise RecordError(f"{where}: job {job.name}: name given twice; use different names")
        for point in points:
            result = format_template(job.command), point
            other = recorded.setdefault(result, job.name)
            if other != job.name:
                raise RecordError(
                    f"{where}: job {job.name}: run: same command as job {other}"
                    f"{' at ' + printable(point) if point else ''}; omit one of them"
                )
        jobs.append(job)
    return jobs


def _parse_job(table: Any, where: str, number: int) -> tuple[Job, Sequence[str]]:
    """Return a job, and the canonical texts of its points.

    :raises RecordError: a key is unknown or missing, or a value is invalid
    """
    given = table if isinstance(table, dict) else {}
    text = given.get("name")
    name = text if isinstance(text, str) and NAME.match(text) else None
    here = f"{where}: job {name or number}"
    if not isinstance(table, dict):
        raise RecordError(f"{here}: expected a table [[job]]; edit the file")
    for key in given:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1) or KEYS
            raise RecordError(
                f"{here}: {_shown(key)}: unknown key (expected {', '.join(near)}); edit the file"
            )
    if name is None:
        raise _invalid(here, "name")
    command = given.get("run")
    if not _are_words(command) or not command or not command[0]:
        raise _invalid(here, "run")
    options: list[str] = []
    for key in given:
        if key not in {"name", "run"}:
            words = _words_of(key, given[key])
            if words is None:
                raise _invalid(here, key)
            _check(here, key, words)
            options += words
    points = _points(here, command, options)
    return Job(name, tuple(options), tuple(command)), points


def _points(here: str, command: Sequence[str], options: Sequence[str]) -> Sequence[str]:
    values = make_parser("ab", "schedperf").parse_args(["-o", "x", *options]).point
    try:
        check_placeholders(command, [name for name, _ in values])
        return [point_key(dict(point)) for point in cross_points(values)]
    except RecordError as error:
        raise RecordError(f"{here}: points: {error}") from error


def _check(here: str, key: str, words: Sequence[str]) -> None:
    """Check values with the parser of ``ab``.

    :raises RecordError: the parser rejects them
    """
    parser = make_parser("ab", "schedperf")
    try:
        parser.parse_args(["-o", "x", *words])
    except RecordError as error:
        reason = _OF_PARSER.sub("", str(error)).replace(f"; see {parser.prog} --help", "")
        raise RecordError(f"{here}: {key}: {printable(reason)}; edit the file") from error


def _words_of(key: str, value: Any) -> list[str] | None:
    """Return the options that a key stands for; None if its value has another type."""
    if key in _NUMBERS:
        return [f"{_NUMBERS[key]}={value}"] if type(value) is int else None
    if key == "points":
        return list(_points_of(value)) if _is_points(value) else None
    if not _are_words(value):
        return None
    if key == "metric":
        return [f"--metric={rule}" for rule in value]
    return [f"{_NAMES[key]}={','.join(value)}"]


def _is_points(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(values, list)
        and all(type(each) in (str, int, float) and "," not in str(each) for each in values)
        and _are_words([name, *map(str, values)])
        for name, values in value.items()
    )


def _points_of(points: Mapping[str, Sequence[object]]) -> Iterator[str]:
    for name, values in points.items():
        yield f"--point={name}={','.join(map(str, values))}"


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(word, str) and "\0" not in word and _is_text(word) for word in value
    )


def _is_text(word: str) -> bool:
    # JSON can contain lone surrogates, which no program can be given.
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _invalid(here: str, key: str) -> RecordError:
    return RecordError(f"{here}: {key}: expected {_EXAMPLES[key]}; edit the file")


def _shown(key: str) -> str:
    return printable(key)[:64]
