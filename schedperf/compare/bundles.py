# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two or more bundles: build a :class:`~schedperf.model.comparison.Comparison`.

The first bundle is base. Everything that limits the result is recorded in the comparison as a
caveat, a reason or a section's status.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.compare.advice.next_steps import next_steps
from schedperf.compare.advice.recorded import recorded_sides
from schedperf.compare.boots import add_kernels
from schedperf.compare.caveats import caveats_of
from schedperf.compare.comparability import compare_hosts
from schedperf.compare.facts import Facts, unique
from schedperf.compare.kernel_config import option_differences
from schedperf.compare.options import CompareOptions, comparison_id, history_caveats
from schedperf.compare.overall import decide
from schedperf.compare.rows import compare_numbers, to_families
from schedperf.compare.sections import analyse_all
from schedperf.compare.side_by_side import find_movers
from schedperf.compare.sides import summarise
from schedperf.compare.why.find import all_rules, find_all
from schedperf.compare.why.load_avg import name_load_avg
from schedperf.evidence import caveat_rules
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.side import Side, name_sides
from schedperf.model.comparison import SCHEMA, Comparison, Overall
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame
from schedperf.model.rows import Row
from schedperf.model.verdict import describe_blocking
from schedperf.runs.values import RunValues, read_run_values
from schedperf_collectors import __version__


def compare_bundles(
    bundles: Sequence[Bundle],
    options: CompareOptions | None = None,
    *,
    workers: int = 1,
    drawings: bool = True,
) -> Comparison:
    """Compare every bundle with the first one.

    :param bundles: base and at least one more
    :param workers: processes that analyse sections; more than one must not be forked from a program
        with threads
    :param drawings: false to leave out the sections that only drawings use
    :raises InputError: an option is out of range, or a bundle has damaged members or too much
        output (a BundleError)
    :raises PluginError: a plugin of another package cannot be used
    """
    chosen = options or CompareOptions()
    sides = name_sides(bundles)
    facts = Facts.of(sides, compare_hosts(sides, allowed=chosen.allowed))
    values = read_run_values(sides, chosen.better)
    numbers = compare_numbers(sides, facts, values, chosen)
    rows = numbers.rows
    sections = analyse_all(sides, workers, drawings=drawings)
    findings, failed_rules = find_all(all_rules().values(), sections, rows)
    comparison = Comparison(
        schema=SCHEMA,
        id=comparison_id([side.bundle.digest for side in sides], chosen),
        tool_version=__version__,
        sides=tuple(summarise(side, sides, facts.comparability) for side in sides),
        comparability=replace(facts.comparability, options=option_differences(sides)),
        rows=rows,
        sweeps=tuple(sweep for _, sweep in numbers.result.sweeps),
        families=tuple(to_families(rows)),
        side_by_side=numbers.beside,
        movers=find_movers(numbers.beside),
        two_by_two=numbers.two_by_two,
        findings=name_load_avg(
            findings,
            sections,
            facts.comparability.differences,
            {side.name: str(side.bundle.path) for side in sides},
        ),
        sections=sections,
        caveats=unique(
            (
                *caveats_of(sides, facts, values, rows),
                *numbers.caveats,
                *(each for find in caveat_rules.all().values() for each in find(sections)),
                *history_caveats(chosen),
                *failed_rules,
            )
        ),
        overall=decide(rows, sides, facts, values, sections),
    )
    return replace(comparison, next_steps=next_steps(comparison, recorded_sides(sides)))


class Judged(Struct, frozen=True, kw_only=True):
    """The part of a comparison that decides."""

    rows: tuple[Row, ...]
    overall: Overall


def judge_bundles(bundles: Sequence[Bundle], options: CompareOptions) -> Judged:
    """Return only the rows and the verdict of :func:`compare_bundles`, many times as fast.

    :raises InputError: as :func:`compare_bundles`
    """
    if not any(bundle.runs for bundle in bundles):
        # Only the sections tell whether kernels are compared.
        comparison = compare_bundles(bundles, options)
        return Judged(rows=comparison.rows, overall=comparison.overall)
    sides = name_sides(bundles)
    facts, values, rows = _compare_numbers(sides, options)
    return Judged(rows=rows, overall=decide(rows, sides, facts, values, {}))


def _compare_numbers(
    sides: Sequence[Side], options: CompareOptions
) -> tuple[Facts, RunValues, tuple[Row, ...]]:
    facts = Facts.of(sides, compare_hosts(sides, allowed=options.allowed))
    values = read_run_values(sides, options.better)
    return facts, values, compare_numbers(sides, facts, values, options).rows


def compare_rows(bundles: Sequence[Bundle]) -> Sequence[Row]:
    """Return only the rows of :func:`compare_bundles` with default options.

    Interim analyses during a recording need no more.

    :raises InputError: as :func:`compare_bundles`
    """
    *_, rows = _compare_numbers(name_sides(bundles), CompareOptions())
    return rows


def read_past_runs(past: Bundle, base: Bundle, options: CompareOptions) -> Frame:
    """Return the clean runs of an earlier bundle, for ``CompareOptions.history``.

    :raises InputError: a blocking difference to ``base``, such as another machine or workload; or
        the output of ``past`` cannot be read
    """
    sides = name_sides([base, past])
    differences = compare_hosts(sides, allowed=options.allowed).differences
    blocking = [difference for difference in differences if difference.severity == "blocking"]
    if blocking:
        raise InputError(
            f"{past.path}: not comparable with {base.path} ("
            f"{describe_blocking(blocking).text}); leave it out of --history"
        )
    table = read_run_values(sides[1:], options.better).table
    return add_kernels(table.take(table["kind"] == "clean"), sides[1])
