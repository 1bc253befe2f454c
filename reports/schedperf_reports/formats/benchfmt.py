# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the runs in the Go benchmark format (Go proposal 14313), which benchstat reads.

Each metric is a unit, because benchstat prints one table per unit; the command and its parameters
are the name. benchstat puts lines into different tables if a key differs, so only ``side`` differs
between the lines of a result, and the facts of kernels and machines are on all lines::

    new-kernel: 7.1.0-rc2
    Unit hackbench_time-sec better=lower
    side: new
    BenchmarkHackbench/groups=4 1 1.612 hackbench_time-sec
"""

import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

from schedperf.model.comparison import Comparison
from schedperf.model.host import read_host
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean
from schedperf_reports.formats import Options, output_format
from schedperf_reports.formats._values import Question, SideValues, group_sides
from schedperf_reports.verdict.comparable import name_kernel
from schedperf_reports.words.rows import DIRECTIONS

# Maximum length of a name or a value; benchstat reads no line of more than 65536 bytes.
LONGEST_NAME = 300
# Digits that are exact in a float; one more would show rounding errors.
DIGITS = sys.float_info.dig

# benchstat converts numbers of these units, and splits units at -, * and /.
_CONVERTED = re.compile(r"(?:ns|MB|B|bytes)")
_SEPARATORS = re.compile(r"[\s*/-]+")

Key = TypeVar("Key", bound=Hashable)


@output_format("benchfmt", drawings="never")
def benchfmt(comparison: Comparison, _options: Options) -> str:
    """Return the values of all runs in the Go benchmark format, for benchstat -col side."""
    return "".join(f"{line}\n" for line in _lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    grouped = group_sides(comparison)
    yield from _describe(comparison, grouped)
    units = _name_units(grouped)
    for (_metric, better), name in units.items():
        # The format has no word for an unknown direction.
        if better in DIRECTIONS:
            yield f"Unit {name} better={better}"
    names = _number_alike({(q[0], q[1]): name_benchmark(q[0], q[1]) for q in grouped}, "/same-name")
    for side in comparison.sides:
        yield ""
        yield f"side: {_word(side.name)}"
        for question, sides in grouped.items():
            workload, point, metric, unit, better = question
            name, unit_name = names[workload, point], units[f"{metric}\n{unit}", better]
            for value in sides[side.name].numbers if side.name in sides else ():
                yield f"{name} 1 {value:.{DIGITS}g} {unit_name}"


def _describe(
    comparison: Comparison, grouped: Mapping[Question, Mapping[str, SideValues]]
) -> Iterator[str]:
    """Yield comments, and facts of the sides as ``key: value`` lines that hold for all results."""
    yield f"# schedperf {_line(comparison.tool_version)}: benchstat -col side FILE"
    published = sum(
        not each.values and each.mean is not None
        for sides in grouped.values()
        for each in sides.values()
    )
    if published:
        yield f"# lines with a mean or a count instead of the value of a run: {published}"
    for key, fact in SIDE_FACTS.items():
        facts = {side.name: _line(fact(side) or "") for side in comparison.sides}
        if len(set(facts.values())) == 1:
            facts = {"": next(iter(facts.values()))}
        for side, value in facts.items():
            if value:
                yield f"{_word(side.lower())}-{key}: {value}" if side else f"{key}: {value}"


def name_benchmark(workload: str, point: str) -> str:
    """Return the name of a benchmark, with its parameters as sub-benchmarks.

    Go requires an upper-case letter after "Benchmark".

    >>> name_benchmark("hackbench -l 100", "fds=20,groups=10")
    'BenchmarkHackbench_-l_100/fds=20/groups=10'
    >>> name_benchmark("./run", "")
    'BenchmarkX./run'
    """
    name = _word(workload)
    first = name[:1].upper()
    name = f"{first}{name[1:]}" if first.isupper() else f"X{name}"
    parameters = (_word(part.replace("/", "_")) for part in point.split(",") if part)
    return "/".join((f"Benchmark{name}", *parameters))


def name_unit(metric: str, unit: str) -> str:
    """Return the Go unit that a metric is written with: its name and its unit.

    The unit is left out if the name ends in it. Go writes seconds as "sec". benchstat converts some
    units (ns, MB, B, bytes); an underscore in their place keeps such a name as it is.

    >>> name_unit("hackbench time", "s"), name_unit("netperf TCP_RR", "1/s")
    ('hackbench_time-sec', 'netperf_TCP_RR-1/s')
    >>> name_unit("MB", ""), name_unit("sec/op", "s"), name_unit("B/op", "B")
    ('MB_', 'sec/op', 'B/op')
    >>> name_unit("p99-sec", "s"), name_unit("x-bytes", "x-bytes"), name_unit("ns-sec", "s")
    ('p99-sec', 'x-bytes', 'ns_sec-sec')
    """
    # Go writes seconds as "sec".
    go_unit = _word(f"sec{unit[1:]}" if unit.partition("/")[0] == "s" else unit)
    word = _word(metric)
    before, _, last = word.rpartition("-")
    # benchstat also converts a unit at the beginning of the name: ns-sec.
    is_kept = not any(map(_CONVERTED.fullmatch, _SEPARATORS.split(before)))
    ends = (word, last) if is_kept else (word,)
    if unit and any(f"{end}/".startswith(f"{go_unit}/") for end in ends):
        # In Go's own benchmarks, the metric is itself a unit.
        return word
    name = _SEPARATORS.sub("_", _word(metric))
    if _CONVERTED.fullmatch(name):
        name = f"{name}_"
    return f"{name}-{go_unit}" if unit else name


def _name_units(grouped: Mapping[Question, object]) -> Mapping[tuple[str, str], str]:
    """Return the name of the Go unit by metric (with its unit) and better direction.

    Metrics that differ only in the direction get different names.
    """
    names: dict[tuple[str, str], str] = {
        (f"{metric}\n{unit}", better): name_unit(metric, unit)
        for _workload, _point, metric, unit, better in grouped
    }
    return _number_alike(names, "*same-name")


def _number_alike(names: Mapping[Key, str], suffix: str) -> Mapping[Key, str]:
    """Number names that would otherwise be equal.

    >>> _number_alike({1: "a b", 2: "c", 3: "a b"}, "/same-name")
    {1: 'a b', 2: 'c', 3: 'a b/same-name=2'}
    """
    counts: dict[str, int] = {}
    numbered: dict[Key, str] = {}
    for key, name in names.items():
        counts[name] = counts.get(name, 0) + 1
        numbered[key] = name if counts[name] == 1 else f"{name}{suffix}={counts[name]}"
    return numbered


def _name_cpu(side: SideSummary) -> str | None:
    return read_host(side.host).cpu.model


# Facts that identify a side besides its name.
SIDE_FACTS: Mapping[str, Callable[[SideSummary], str | None]] = {
    "label": lambda side: None if side.label == side.name else side.label,
    "kernel": name_kernel,
    "cpu": _name_cpu,
    "machine-class": lambda side: side.machine_class,
}


def _line(text: str) -> str:
    return clean(" ".join(text[: 2 * LONGEST_NAME].split()))[:LONGEST_NAME]


def _word(text: str) -> str:
    """Return a text without blanks, because they separate the fields of a line."""
    return "_".join(_line(text).split())
