# SPDX-License-Identifier: GPL-2.0-or-later
"""Import results in the Go benchmark format: one file, or all files of a directory.

A result is a line ``BenchmarkName/key=value-8 ITERATIONS VALUE UNIT …``. Lines ``key: value`` are
the configuration of the results below them, and ``Unit NAME better=lower`` states a direction. Each
line of a name is one run: ``go test -count=10`` prints ten.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from schedperf.inputs.benchmarks.imported_values import LONGEST_NAME, LONGEST_UNIT, format_values
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers.tree import Tree
from schedperf.model.errors import InputError
from schedperf.model.numbers import read_number
from schedperf.model.rows import Better
from schedperf.model.text import CUT, cut, list_some

MOST_RUNS = 50_000
# Pairs of value and unit on one line.
MOST_VALUES = 100
# Largest number of parameters of one result, and of configuration keys that may become parameters;
# longest value of a parameter, in characters.
MOST_PARAMETERS = 10
MOST_KEYS = 100
LONGEST_VALUE = 40
MOST_NAMES = 5
LONGEST_SHOWN = 40
# Units that Go's package testing defines, with the direction of benchstat.
KNOWN: Mapping[str, Better] = {
    "sec/op": "lower",
    "B/op": "lower",
    "allocs/op": "lower",
    "B/s": "higher",
}
# Units with a prefix, as golang.org/x/perf/benchunit converts them: base unit and power of ten.
PREFIXED: Mapping[str, tuple[str, int]] = {"ns": ("sec", -9), "MB": ("B", 6)}
# Keys of the configuration that describe the machine.
HOST = {"cpu": ("cpu", "model"), "goarch": ("kernel", "machine"), "kernel": ("kernel", "release")}
# Go's names of architectures, and the names in uname.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686"}

# Keys of the configuration that describe when, where and from which source something was measured.
# They may differ between the sides. All others are parameters, independent of the file: the
# identity of a result must not depend on the rest of its file.
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
    # The position of the line, e.g. "old.txt:3", and name and value of each metric.
    source: str
    values: tuple[tuple[str, str], ...]


@importer("benchfmt", summary="file or directory in the Go benchmark format")
def import_benchfmt(tree: Tree) -> Imported:
    """Read all results in the order of the files and lines, as runs of one boot.

    :raises InputError: the files have no result, or more than 50,000
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
            for result in self._read_file(content or b"", file):
                count += 1
                if count > MOST_RUNS:
                    raise InputError(
                        f"{self._tree.root}: more than {MOST_RUNS} results (expected one "
                        "recording); import parts of it separately"
                    )
                yield result
            if count > before:
                self.used.append(file)

    def _read_file(self, content: bytes, file: str) -> Iterator[_Result]:
        lines = content.decode(errors="replace").split("\n")
        for number, line in enumerate(lines, start=1):
            try:
                yield from self._read_line(line.rstrip(), f"{file}:{number}")
            except ValueError as error:
                self._bad.append(f"{file}:{number}: {error}")

    def to_run(self, result: _Result) -> ImportedRun:
        rows = [
            (name, value, _unit_of(name), self._direction(name)) for name, value in result.values
        ]
        return ImportedRun(
            workload=result.name,
            command=(result.name,),
            point=result.point,
            text=format_values(rows),
            source=result.source,
        )

    def notes(self) -> Iterator[str]:
        if self._bad:
            count = len(self._bad)
            yield f"left out {count} line{'s' * (count != 1)}: {list_some(self._bad, MOST_NAMES)}"
        if self._conflicts:
            keys = ", ".join(sorted(self._conflicts))
            yield f"the configuration changes between results ({keys}); the first value is used"
        if self._mixed:
            keys = list_some(sorted(self._mixed), MOST_NAMES)
            yield f"results with several values of {keys} are runs of the same point"
        if self._too_many:
            keys = list_some(sorted(self._too_many), MOST_NAMES)
            yield f"at most {MOST_PARAMETERS} keys of the configuration are parameters, not {keys}"

    def _direction(self, name: str) -> Better:
        return self._better.get(name) or KNOWN.get(name, "unknown")

    def _read_line(self, line: str, source: str) -> Iterator[_Result]:
        """Yield the result of a line, if it has one; note units and configuration.

        :raises ValueError: the result is invalid; the message says why
        """
        if match := _RESULT.fullmatch(line):
            values = _values(match[3].split())
            name, point = _take_apart(match[1])
            yield _Result(name=name, point=self._point(point), source=source, values=values)
        elif match := _UNIT.fullmatch(line):
            for pair in match[2].split():
                if pair in ("better=lower", "better=higher"):
                    name, _ = _to_base(match[1])
                    self._better[name] = "lower" if pair.endswith("lower") else "higher"
        elif match := _CONFIGURATION.fullmatch(line):
            self._note_configuration(match[1], (match[2] or "").strip())
        elif line.startswith("Benchmark") and len(line.split(maxsplit=1)) > 1:
            # A line with only the name is progress output of go test -v.
            raise ValueError("invalid result (expected a count, e.g. BenchmarkName 100 12.5 ns/op)")

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
            # A key without a value is unset.
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
    """Return the text as a value of a parameter: a long text is cut and gets a checksum.

    Characters that are invalid in a point become underscores.
    """
    if len(value) > LONGEST_VALUE:
        digest = hashlib.sha256(value.encode()).hexdigest()[:8]
        value = f"{cut(value, LONGEST_VALUE - len(digest))}{digest}"
    return re.sub(rf"[^\w.%+{CUT}-]", "_", value)


def _values(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return name and value of each metric, in base units.

    :param words: values and units in turn
    :raises ValueError: a pair of value and unit is invalid, or a metric has several values
    """
    if len(words) % 2 or len(words) > 2 * MOST_VALUES:
        raise ValueError(
            f"{len(words)} fields after the count (expected pairs of value and unit, at most "
            f"{MOST_VALUES})"
        )
    pairs = tuple(
        _in_base_unit(value, unit) for value, unit in zip(words[::2], words[1::2], strict=True)
    )
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} values of {name} (expected one)")
    return pairs


def _in_base_unit(value: str, unit: str) -> tuple[str, str]:
    """Return name and value of a metric: "p99-ns" is p99-sec.

    :raises ValueError: value or unit is invalid
    """
    if read_number(value) is None:
        raise ValueError(f"invalid value {_shown(value)} (expected a number, e.g. 12.5)")
    if len(unit) > LONGEST_UNIT or not unit.isprintable():
        raise ValueError(
            f"invalid unit {_shown(unit)} (expected at most {LONGEST_UNIT} printable characters)"
        )
    name, exponent = _to_base(unit)
    # Shifts the decimal point in the text, so that all digits are preserved.
    return name, str(Decimal(value).scaleb(exponent)) if exponent else value


def _shown(text: str) -> str:
    return ascii(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")


def _to_base(unit: str) -> tuple[str, int]:
    """Return a unit without prefixes, and the power of ten: "x-ns/op" gives x-sec/op and -9."""
    parts: list[str] = []
    exponent = 0
    is_below = False
    for part in re.findall(r"[*/-]|[^*/-]+", unit):
        if part in "*/":
            is_below = part == "/"
        base, power = (part, 0) if is_below else PREFIXED.get(part, (part, 0))
        parts.append(base)
        exponent += power
    return "".join(parts), exponent


def _unit_of(name: str) -> str:
    """Return the unit in which values of a metric are printed: "s" for "p99-sec/op"."""
    upper, slash, lower = name.partition("/")
    quantity = upper.rpartition("-")[2]
    if quantity not in ("sec", "B"):
        return name
    base = "s" if quantity == "sec" else quantity
    return base if lower in ("", "op") else f"{base}{slash}{lower}"


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
    return cut("/".join(rest), LONGEST_NAME) or "Benchmark", point
