# SPDX-License-Identifier: GPL-2.0-or-later
"""Import results in the Go benchmark format: one file, or all files of a directory.

A result is a line ``BenchmarkName/key=value-8 ITERATIONS VALUE UNIT …``. Lines ``key: value`` are
the configuration of the results below them, and ``Unit NAME better=lower`` states a direction. Each
line of a name is one run: ``go test -count=10`` prints ten.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal

from msgspec import Struct

from schedperf.benchmarks.imported_values import LONGEST_NAME, LONGEST_UNIT, format_values
from schedperf.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.importers._tree import Tree
from schedperf.model.comparison import Better
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.text import list_some

MOST_RUNS = 50_000
# Pairs of value and unit on one line.
MOST_VALUES = 100
# Keys of the configuration that are parameters of one result, those that can be, and characters of
# a value.
MOST_PARAMETERS = 10
MOST_KEYS = 100
LONGEST_VALUE = 40
MOST_NAMES = 5
# Units that Go's package testing defines, with the direction of benchstat.
KNOWN: Mapping[str, Better] = {
    "ns/op": "lower",
    "sec/op": "lower",
    "B/op": "lower",
    "allocs/op": "lower",
    "MB/s": "higher",
    "B/s": "higher",
}
# Units of time and rate that have a base unit.
BASE: Mapping[str, tuple[str, int]] = {"ns/op": ("s", -9), "sec/op": ("s", 0), "MB/s": ("B/s", 6)}
# Keys of the configuration that describe the machine.
HOST = {"cpu": ("cpu", "model"), "goarch": ("kernel", "machine"), "kernel": ("kernel", "release")}
# Go's names of architectures, and those of uname.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686"}

# Keys of the configuration that describe when, where and from which source something was measured.
# They may differ between the sides. All others are parameters, in each file alike: whether results
# are the same question must not depend on what else is in their file.
_NO_PARAMETER = re.compile(
    r"(?:.*-)?(?:branch|commit|date|host|hostname|note|revision|timestamp|toolchain|upload|version)"
    r"(?:-.*)?|by|goos|goversion|start-time|end-time"
    # The facts of sides in the output of schedperf itself.
    r"|(?:base|new\d*)-.*|label|machine-class"
)
_RESULT = re.compile(r"Benchmark(\S*)\s+(\d{1,18})\s+(\S.*)", re.ASCII)
_CONFIGURATION = re.compile(r"([a-z][\w-]{0,79}):(?:[ \t]+(.{0,400}))?")
_UNIT = re.compile(r"Unit\s+(\S+)((?:\s+\S+=\S*)+)\s*")
_PROCS = re.compile(r"-(\d{1,5})\Z", re.ASCII)


class _Result(Struct, frozen=True, kw_only=True):
    name: str
    point: Mapping[str, str]
    values: tuple[tuple[str, str], ...]


@importer("benchfmt", summary="file or directory in the Go benchmark format")
def import_benchfmt(tree: Tree) -> Imported:
    """Read all results in the order of the files and lines.

    :raises InputError: it has no result
    """
    reading = _Reading(tree)
    results = list(reading.results())
    if not results:
        raise InputError(
            f"{tree.root}: no results in the Go benchmark format (expected lines such as "
            "`BenchmarkName-8 100 12.5 ns/op`); check the path"
        )
    runs = tuple(reading.to_run(result) for result in results)
    return Imported(
        label=tree.name.removesuffix(".txt"),
        boots=(ImportedBoot(host=reading.host, runs=runs),),
        originals=tuple(reading.used),
        notes=(*reading.notes(), *tree.skipped),
    )


class _Reading:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.used: list[str] = []
        self.host: dict[str, dict[str, object]] = {}
        self._better: dict[str, Better] = {}
        self._bad: list[str] = []
        self._conflicts: Counter[str] = Counter()
        self._facts: dict[str, str] = {}
        self._mixed: set[str] = set()
        self._too_many: set[str] = set()
        self._parameters: dict[str, str] = {}

    def results(self) -> Iterator[_Result]:
        count = 0
        for file in self._tree.files():
            content = self._tree.read_or_skip(file)
            before = count
            self._parameters = {}
            for number, line in enumerate(
                (content or b"").decode(errors="replace").splitlines(), 1
            ):
                for result in self._read_line(line.rstrip(), f"{file}:{number}"):
                    count += 1
                    if count > MOST_RUNS:
                        raise InputError(
                            f"{self._tree.root}: more than {MOST_RUNS} results (expected one "
                            "recording); import parts of it separately"
                        )
                    yield result
            if count > before:
                self.used.append(file)

    def to_run(self, result: _Result) -> ImportedRun:
        rows = [
            (name, text, unit, self._direction(own))
            for own, value in result.values
            for name, text, unit in [_in_base_unit(own, value)]
        ]
        return ImportedRun(
            workload=result.name,
            command=(result.name,),
            point=result.point,
            text=format_values(rows),
        )

    def notes(self) -> Iterator[str]:
        if self._bad:
            yield f"invalid results: {len(self._bad)} (first: {self._bad[0]})"
        if self._conflicts:
            keys = ", ".join(sorted(self._conflicts))
            yield f"the configuration changes between results ({keys}); the first value is used"
        if self._mixed:
            keys = list_some(sorted(self._mixed), MOST_NAMES)
            yield f"results with several values of {keys} are runs of the same point"
        if self._too_many:
            keys = list_some(sorted(self._too_many), MOST_NAMES)
            yield f"at most {MOST_PARAMETERS} keys of the configuration are parameters, not {keys}"

    def _direction(self, unit: str) -> Better:
        return self._better.get(unit) or KNOWN.get(unit, "unknown")

    def _read_line(self, line: str, where: str) -> Iterator[_Result]:
        if match := _RESULT.fullmatch(line):
            values = _values(match[3].split())
            if values is None:
                self._bad.append(where)
            else:
                name, point = _take_apart(match[1])
                yield _Result(name=name, point=self._point(point), values=values)
        elif match := _UNIT.fullmatch(line):
            for pair in match[2].split():
                if pair in ("better=lower", "better=higher"):
                    self._better[match[1]] = "lower" if pair.endswith("lower") else "higher"
        elif match := _CONFIGURATION.fullmatch(line):
            self._note_configuration(match[1], (match[2] or "").strip())
        elif line.startswith("Benchmark") and " " in line:
            # Without more than its name it is the progress of go test -v.
            self._bad.append(where)

    def _note_configuration(self, key: str, value: str) -> None:
        if key in HOST:
            self._note_host(key, value)
        elif _NO_PARAMETER.fullmatch(key):
            self._facts.setdefault(key, value)
            self._mixed |= {key} if self._facts[key] != value else set()
        else:
            self._note_parameter(key.replace("-", "_"), _clean(value))

    def _note_host(self, key: str, value: str) -> None:
        if not value:
            return
        group, field = HOST[key]
        fields = self.host.setdefault(group, {})
        value = MACHINES.get(value, value)
        if fields.setdefault(field, value) != value:
            self._conflicts[key] += 1

    def _note_parameter(self, key: str, value: str) -> None:
        if not value:
            # Without a value the key is not set any longer.
            self._parameters.pop(key, None)
        elif key in self._parameters or len(self._parameters) < MOST_KEYS:
            self._parameters[key] = value
        else:
            self._too_many.add(key)

    def _point(self, own: Mapping[str, str]) -> dict[str, str]:
        # The first keys by name, so that all sides have the same.
        keys = sorted(self._parameters)
        self._too_many.update(keys[MOST_PARAMETERS:])
        # A parameter in the name of a benchmark has precedence.
        return {key: self._parameters[key] for key in keys[:MOST_PARAMETERS]} | dict(own)


def _clean(value: str) -> str:
    """Return the text as a value of a parameter; of a long one a checksum tells it from others."""
    if len(value) > LONGEST_VALUE:
        digest = hashlib.sha256(value.encode()).hexdigest()[:8]
        value = f"{value[: LONGEST_VALUE - len(digest) - 1]}-{digest}"
    return re.sub(r"[^\w.%+-]", "_", value)


def _values(words: list[str]) -> tuple[tuple[str, str], ...] | None:
    """Return unit and value of each pair; None if a pair is invalid."""
    if len(words) % 2 or not 0 < len(words) <= 2 * MOST_VALUES:
        return None
    pairs = tuple(zip(words[1::2], words[::2], strict=True))
    is_valid = all(
        read_number(value) is not None and len(unit) <= LONGEST_UNIT and unit.isprintable()
        for unit, value in pairs
    )
    return pairs if is_valid and len({unit for unit, _ in pairs}) == len(pairs) else None


def _take_apart(name: str) -> tuple[str, dict[str, str]]:
    """Return the name and its parameters: "Encode/size=4-8" is Encode with gomaxprocs and size."""
    point: dict[str, str] = {}
    if procs := _PROCS.search(name):
        point["gomaxprocs"] = procs[1]
        name = name[: procs.start()]
    base, *parts = name.split("/")
    rest = [base]
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w{0,40}", key, re.ASCII) and key not in point:
            point[key] = _clean(value)
        else:
            rest.append(part)
    return "/".join(rest)[:LONGEST_NAME] or "Benchmark", point


def _in_base_unit(unit: str, value: str) -> tuple[str, str, str]:
    """Return name, value and unit of a metric: times in s, rates in B/s."""
    if unit not in BASE:
        return unit, value, unit.removesuffix("/op") if unit == "B/op" else unit
    base, exponent = BASE[unit]
    # In decimal digits, so that no digit is changed.
    scaled = str(Decimal(value).scaleb(exponent)) if exponent else value
    return ("sec/op" if base == "s" else "B/s"), scaled, base
