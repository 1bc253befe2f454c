# SPDX-License-Identifier: GPL-2.0-or-later
"""Guard against parsers of other packages, which may raise or return anything."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar, get_args

from msgspec.structs import replace

from schedperf.model.errors import BadLine, describe
from schedperf.model.numbers import LARGEST_NUMBER
from schedperf.model.rows import BenchmarkClass, Better, Family
from schedperf_collectors.registry import Origin

if TYPE_CHECKING:
    from schedperf.inputs.benchmarks import BenchmarkParser, Execution, Failure, Measurement

Result = TypeVar("Result")

# Longest name or line, since reports print them.
LONGEST_TEXT = 10_000


def guard_parser(parser: "BenchmarkParser", origin: Origin) -> "BenchmarkParser":
    """Wrap the parser of another package so that its errors name the package.

    Exceptions and invalid results of ``claims``, ``parse`` and ``find_failure`` become a
    PluginError. ``latencies`` are not used.

    :raises PluginError: its ``programs`` are not texts, or its ``class_`` is unknown
    """
    programs: object = parser.programs
    if not isinstance(programs, tuple) or not all(map(_is_text, programs)):
        raise origin.error(f"invalid programs {parser.programs!r} (expected a tuple of texts)")

    classes = get_args(BenchmarkClass)
    if parser.class_ is not None and parser.class_ not in classes:
        raise origin.error(f"invalid class_ {parser.class_!r} (expected {' or '.join(classes)})")

    def claims(text: str) -> bool:
        claim = _call(lambda: parser.claims(text), "claims", origin)
        if not isinstance(claim, bool):
            raise origin.error(f"claims returns {claim!r} (expected True or False)")
        return claim

    def parse(
        lines: Iterable[str], label: str, *execution: "Execution"
    ) -> Iterator["Measurement | BadLine"]:
        items = _call(lambda: iter(parser.parse(lines, label, *execution)), "parse", origin)
        end = object()
        while (item := _call(lambda: next(items, end), "parse", origin)) is not end:
            problem = find_problem(item)
            if problem is not None:
                raise origin.error(f"parse yields {problem}")
            yield item  # type: ignore[misc] # find_problem has checked its type

    return replace(
        parser,
        claims=claims,
        parse=parse,
        latencies=None,
        find_failure=_guard_find_failure(parser, origin),
    )


def _guard_find_failure(
    parser: "BenchmarkParser", origin: Origin
) -> "Callable[[str, Execution], Failure | None] | None":
    find = parser.find_failure
    if find is None:
        return None

    def find_failure(text: str, execution: "Execution") -> "Failure | None":
        failure = _call(lambda: find(text, execution), "find_failure", origin)
        if failure is not None and not _is_failure(failure):
            raise origin.error(f"find_failure returns {failure!r} (expected a Failure or None)")
        return failure

    return find_failure


def _is_failure(item: object) -> bool:
    from schedperf.inputs.benchmarks import Failure  # noqa: PLC0415 # it imports this module

    if not isinstance(item, Failure):
        return False
    line_number: object = item.line_number
    return isinstance(line_number, int) and _is_text(item.problem)


def find_problem(item: object) -> str | None:
    """Return what is invalid in an item that a parser yields; None if it is valid."""
    from schedperf.inputs.benchmarks import Measurement, Metric  # noqa: PLC0415 # it imports this module

    if isinstance(item, BadLine):
        return None if _is_text(item.problem) else f"a BadLine with {item.problem!r}"
    if not isinstance(item, Measurement):
        return f"{item!r} (expected a Measurement or a BadLine)"
    metric = item.metric
    if not isinstance(metric, Metric):
        return f"a measurement of {metric!r} (expected a Metric)"
    checks = {
        "name": _is_text(metric.name) and bool(metric.name.strip()),
        "unit": _is_text(metric.unit),
        "better": metric.better in get_args(Better),
        "family": metric.family in get_args(Family),
        "definition": metric.definition is None or _is_text(metric.definition),
        "value": _is_number(item.value),
        "resolution": item.resolution is None or _is_number(item.resolution),
        "line_number": isinstance(item.line_number, int),
        "line": _is_text(item.line),
    }
    invalid = next((name for name, is_valid in checks.items() if not is_valid), None)
    if invalid is None:
        return None
    value = getattr(metric if hasattr(metric, invalid) else item, invalid)
    return f"an invalid {invalid} {value!r}"


def _call(function: Callable[[], Result], what: str, origin: Origin) -> Result:
    try:
        return function()
    except Exception as error:  # noqa: BLE001 # whatever it raises
        raise origin.error(f"{what} fails ({describe(error)})") from None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and abs(value) <= LARGEST_NUMBER
