# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two or more bundles: build a :class:`~schedperf.model.comparison.Comparison`.

The first bundle is base. Everything that limits the result travels in it as a
caveat, a reason or a section's status.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from schedperf.bundle.open import Bundle
from schedperf.compare.advice.next_steps import next_steps
from schedperf.compare.advice.rerun import recordings_of
from schedperf.compare.comparability import compare_hosts, name_unchecked
from schedperf.compare.interaction import (
    boots_of,
    find_design,
    judge_interactions,
    overrule,
    to_two_by_two,
)
from schedperf.compare.kernel_config import option_differences
from schedperf.compare.machine_class import machine_class
from schedperf.compare.side_by_side import compare_side_by_side, find_movers
from schedperf.compare.why.find import all_rules, find_all
from schedperf.compare.why.load_avg import name_load_avg
from schedperf.compare.workers import do_all
from schedperf.evidence import Absent, SectionPlugin, all_sections, caveat_rules
from schedperf.evidence.c2c.sources import measure_heat
from schedperf.evidence.perf_stat.capture import count_wakeups
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import (
    BASE,
    SCHEMA,
    BenchmarkClass,
    Better,
    Comparability,
    Comparison,
    Difference,
    Family,
    FamilySummary,
    GitSource,
    Overall,
    Program,
    Recording,
    Row,
    RunValue,
    Section,
    SideBySide,
    SideSummary,
    TwoByTwo,
    Verdict,
    digest_of,
)
from schedperf.model.errors import InputError, describe
from schedperf.model.frame import Frame, numbers_of
from schedperf.model.host import Virtualisation
from schedperf.model.schema import to_plain
from schedperf.model.text import join_names
from schedperf.model.verdict import (
    CHANGED,
    FALSE_DISCOVERY_RATE,
    MARGIN,
    Reason,
    decide_overall,
    describe_blocking,
    reason_of,
    undecided,
)
from schedperf.runs.output import correct_rule, omitted_bytes, prints_nothing, say_unread
from schedperf.runs.side import Side, name_sides
from schedperf.runs.timeline import find_unbalanced
from schedperf.runs.values import RunValues, read_run_values
from schedperf.stats import KEY, JudgedRow, Result, compare_runs
from schedperf_collectors import __version__

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")

# Processes that a caveat names.
MOST_PROCESSES = 3
# Why a result that was measured in an emulator has no verdict.
EMULATED = "timings come from an emulator"

# Sections that take longest, as bench/compare.py measures them. They start first, so that no worker
# begins a long one when the others are done.
LONGEST = ("profile", "layout", "placement")

# Kinds of evidence do not import each other: what one takes of another is handed to it here.
GIVEN: Mapping[str, Mapping[str, Callable[..., object]]] = {
    "layout": {"measure_heat": measure_heat},
    "pelt": {"count_wakeups": count_wakeups},
}


class CompareOptions(Struct, frozen=True, kw_only=True):
    """What the user can choose.

    :param margin: half-width of the equivalence band, as a fraction of the value
    :param allowed: host.json paths that are known to differ, beside the bundles' own treatment
    :param better: direction of metrics whose format does not state it, by name
    :param history: runs of earlier recordings on the same machine, which tell how much it varies
    """

    margin: float = MARGIN
    allowed: tuple[str, ...] = ()
    better: Mapping[str, Better] = field(default_factory=dict)
    history: "tuple[Frame | pd.DataFrame, ...]" = ()


def comparison_id(digests: Sequence[str], options: CompareOptions) -> str:
    """Return the same text for the same data and options, wherever they are compared."""
    history = [
        digest_of([[*map(str, row)] for row in Frame.of(past).rows()]) for past in options.history
    ]
    better = [sorted(options.better.items())] if options.better else []
    return digest_of(
        [SCHEMA, [*digests], options.margin, sorted(options.allowed), history, *better]
    )


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
    """
    chosen = options or CompareOptions()
    sides = name_sides(bundles)
    facts = _Facts.of(sides, compare_hosts(sides, allowed=chosen.allowed))
    values = read_run_values(sides, chosen.better)
    numbers = _compare_numbers(sides, facts, values, chosen)
    rows = numbers.rows
    sections = _analyse_all(sides, workers, drawings=drawings)
    findings, failed_rules = find_all(all_rules().values(), sections, rows)
    comparison = Comparison(
        schema=SCHEMA,
        id=comparison_id([side.bundle.digest for side in sides], chosen),
        tool_version=__version__,
        sides=tuple(_summarise(side, sides, facts.comparability) for side in sides),
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
        caveats=_unique(
            (
                *_caveats(sides, facts, values),
                *numbers.caveats,
                *(each for find in caveat_rules.all().values() for each in find(sections)),
                *say_history(chosen),
                *failed_rules,
            )
        ),
        overall=_decide(rows, sides, facts, values, sections),
    )
    return replace(comparison, next_steps=next_steps(comparison, recordings_of(sides)))


def compare_rows(bundles: Sequence[Bundle]) -> Sequence[Row]:
    """Return the rows of :func:`compare_bundles` alone, for a look while runs are made."""
    sides = name_sides(bundles)
    facts = _Facts.of(sides, compare_hosts(sides))
    return _compare_numbers(sides, facts, read_run_values(sides), CompareOptions()).rows


class _Numbers(Struct, frozen=True, kw_only=True):
    rows: tuple[Row, ...]
    result: Result
    beside: tuple[SideBySide, ...]
    two_by_two: TwoByTwo | None = None
    caveats: tuple[Caveat, ...] = ()


def _compare_numbers(
    sides: Sequence[Side], facts: "_Facts", values: RunValues, options: CompareOptions
) -> "_Numbers":
    clean = _clean_runs(values.table, sides, facts)
    recorded = {side.name: side.bundle.sequential for side in sides[1:]}
    result = compare_runs(
        clean,
        base=BASE,
        new=[side.name for side in sides[1:]],
        margin=options.margin,
        history=options.history,
        looks={name: looks.max_runs for name, looks in recorded.items() if looks is not None},
    )
    judged = [facts.overrule(row) for row in result.rows]
    rows = tuple(to_rows(judged, clean, options.margin))
    digests = {side.name: side.bundle.digest for side in sides}
    crossed = _cross(sides, facts, clean, options.margin)
    return _Numbers(
        rows=rows,
        result=result,
        beside=tuple(compare_side_by_side(rows, digests, clean)),
        two_by_two=crossed if isinstance(crossed, TwoByTwo) else None,
        caveats=(crossed,) if isinstance(crossed, Caveat) else (),
    )


def _cross(
    sides: Sequence[Side], facts: "_Facts", clean: Frame, margin: float
) -> TwoByTwo | Caveat | None:
    """Return the interaction of kernels and settings, or why it is not known; None without."""
    design = find_design(sides)
    if design is None:
        return None
    judged = judge_interactions(design, boots_of(sides), clean, margin)
    if isinstance(judged, Caveat):
        return judged
    replication, results = judged
    overruled = [
        overrule(result, facts.overrule_all(result.row, design.sides(result.row.side)))
        for result in results
    ]
    return to_two_by_two(design, replication, overruled)


def read_past_runs(past: Bundle, base: Bundle, options: CompareOptions) -> Frame:
    """Return the runs of an earlier bundle, for ``CompareOptions.history``.

    :raises InputError: it was recorded on another machine, or with another workload, than ``base``
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
    return table.take(table["kind"] == "clean")


class _Facts(Struct, frozen=True, kw_only=True):
    # Facts that overrule the numbers: equal data, emulation and blocking differences.
    comparability: Comparability
    same_data: frozenset[str]
    emulated: Mapping[str, Virtualisation]

    @classmethod
    def of(cls, sides: Sequence[Side], comparability: Comparability) -> "_Facts":
        base = sides[0].bundle
        same = frozenset(side.name for side in sides[1:] if side.bundle.digest == base.digest)
        emulators = {side.name: _emulation(side.bundle) for side in sides}
        emulated = {name: found for name, found in emulators.items() if found is not None}
        return cls(comparability=comparability, same_data=same, emulated=emulated)

    def blocking(self, side: str) -> list[Difference]:
        """Return the differences that block a comparison of this side with base."""
        if side in self.same_data:
            return []
        return [
            difference
            for difference in self.comparability.differences
            if difference.severity == "blocking" and difference.side in (BASE, side)
        ]

    def emulation(self, side: str) -> Virtualisation | None:
        return None if side in self.same_data else self.emulated.get(BASE, self.emulated.get(side))

    def overrule(self, row: JudgedRow) -> JudgedRow:
        """Return the row with the verdict that these facts allow."""
        emulator = self.emulation(row.side)
        if row.side in self.same_data:
            return say_same_data(row)
        if emulator is not None:
            return _say_emulated(row, emulator)
        if row.family != "informational" and (blocking := self.blocking(row.side)):
            return replace(row, verdict="invalid", reason=describe_blocking(blocking))
        return row

    def overrule_all(self, row: JudgedRow, sides: Sequence[str]) -> JudgedRow:
        """Return a row that rests on several sides with the verdict that these facts allow."""
        emulator = next(filter(None, map(self.emulation, sides)), None)
        if emulator is not None:
            return _say_emulated(row, emulator)
        blocking = _unique(each for side in sides[1:] for each in self.blocking(side))
        if row.family != "informational" and blocking:
            return replace(row, verdict="invalid", reason=describe_blocking(blocking))
        return row


def _say_emulated(row: JudgedRow, emulator: Virtualisation) -> JudgedRow:
    caveats = (*row.caveats, caveat("emulated", how=emulator.evidence))
    if row.verdict == "invalid":
        return replace(row, family="informational", caveats=caveats)
    # More runs under emulation would not give a verdict either.
    why, own = _say_emulator(emulator), row.reason
    reason = Reason(
        sentence=f"{why}; {own.sentence}",
        plain=f"{why}; {own.plain}",
        short=EMULATED,
        finds=own.finds,
    )
    return replace(
        row,
        family="informational",
        caveats=caveats,
        verdict="inconclusive",
        reason=reason,
        more_runs=None,
    )


def _say_emulator(emulator: Virtualisation) -> str:
    return f"{EMULATED} ({emulator.machine})"


def say_same_data(row: JudgedRow) -> JudgedRow:
    """Return the row of a side whose data is identical to base."""
    ratio = row.ratio and 1.0
    return replace(
        row,
        ratio=ratio,
        ci_low=ratio,
        ci_high=ratio,
        p=None,
        q=None,
        mde=None,
        more_runs=None,
        verdict="no-change",
        method="same data",
        reason=reason_of("same data"),
        caveats=(),
    )


def _emulation(bundle: Bundle) -> Virtualisation | None:
    # The emulator of the first emulated boot of this bundle; None without one.
    machines = (boot.host.virtualisation for boot in bundle.boots)
    return next((machine for machine in machines if machine.emulated), None)


def _clean_runs(table: Frame, sides: Sequence[Side], facts: _Facts) -> Frame:
    # Numbers that were measured under emulation are informational before rows are corrected for
    # each other: they must not weaken the verdict of real ones.
    clean = table.take(table["kind"] == "clean")
    emulated = {side.name for side in sides[1:] if facts.emulation(side.name) is not None}
    families = [
        "informational" if side in emulated else family
        for side, family in clean.rows(["side", "family"])
    ]
    return clean.assign(family=families)


def to_rows(judged: Sequence[JudgedRow], clean: Frame, margin: float) -> Iterator[Row]:
    """Yield the rows of the record, each with the runs that it rests on.

    :param clean: the runs that were compared, with ``boot, run, order, round`` (None where
        unknown), and where they are known ``definition``, ``class_`` and ``source``
    """
    values: dict[tuple[object, ...], list[RunValue]] = {}
    definitions: dict[tuple[object, ...], str] = {}
    classes: dict[tuple[object, ...], BenchmarkClass] = {}
    for run in clean.take(clean["status"] == "ok").records():
        value = RunValue(
            boot=_whole(run["boot"]),
            run=int(run["run"]),
            order=_whole(run["order"]),
            round=_whole(run["round"]),
            value=run["value"],
            source=run.get("source"),
        )
        key = tuple(run[name] for name in KEY)
        values.setdefault((run["side"], *key), []).append(value)
        if (definition := run.get("definition")) is not None:
            definitions.setdefault(key, definition)
        if (class_ := run.get("class_")) is not None:
            classes.setdefault(key, class_)
    for row in judged:
        # What holds of whole sides is said once, of the comparison.
        caveats = tuple(row_caveat for row_caveat in row.caveats if row_caveat.code != "one-boot")
        yield Row(
            **replace(row, caveats=caveats).as_fields(),
            margin=margin,
            reason=row.reason.text,
            reason_plain=row.reason.plain,
            reason_short=row.reason.short,
            values_base=tuple(values.get((BASE, *row.question), ())),
            values_new=tuple(values.get((row.side, *row.question), ())),
            definition=definitions.get(row.question),
            class_=classes.get(row.question),
        )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def to_families(rows: Sequence[Row]) -> Iterator[FamilySummary]:
    """Yield how many rows of each family and side got which verdict."""
    families: dict[tuple[Family, str], list[Row]] = {}
    corrected_for: Counter[Family] = Counter()
    for row in rows:
        families.setdefault((row.family, row.side), []).append(row)
        corrected_for[row.family] += _is_tested(row)
    for (family, side), members in families.items():
        verdicts = Counter(row.verdict for row in members)
        yield FamilySummary(
            family=family,
            side=side,
            rows=len(members),
            tested=sum(map(_is_tested, members)),
            corrected_for=corrected_for[family],
            expected_false=FALSE_DISCOVERY_RATE * sum(row.verdict in CHANGED for row in members),
            verdicts=verdicts,
        )


def _is_tested(row: Row) -> bool:
    return row.p is not None and row.same_as is None


def _analyse_all(sides: Sequence[Side], workers: int, *, drawings: bool) -> dict[str, Section]:
    # Sections that read the same captures are one task: those of one kind of evidence, and those
    # that take what another kind measured.
    plugins = {
        name: plugin for name, plugin in all_sections().items() if drawings or not plugin.is_drawing
    }
    kinds: dict[str, list[str]] = {}
    for name, plugin in plugins.items():
        reads = next(iter(GIVEN.get(name, {}).values()), plugin.analyse)
        kinds.setdefault(_kind(reads), []).append(name)

    def analyse(names: Sequence[str]) -> dict[str, Section]:
        return {name: analyse_sides(plugins[name], sides, **GIVEN.get(name, {})) for name in names}

    tasks = sorted(kinds.values(), key=_start_rank)
    done = do_all([partial(analyse, names) for names in tasks], workers)
    sections = {name: section for part in done for name, section in part.items()}
    return {name: sections[name] for name in plugins}


def _start_rank(names: Sequence[str]) -> int:
    return min(LONGEST.index(name) if name in LONGEST else len(LONGEST) for name in names)


def _kind(function: Callable[..., object]) -> str:
    # schedperf.evidence.KIND, or a module beside the packages.
    return ".".join(function.__module__.split(".")[:3])


def analyse_sides(plugin: SectionPlugin, sides: Sequence[Side], **given: object) -> Section:
    """Run one analysis; whatever goes wrong in it costs its section only.

    :param given: what it takes of another kind of evidence
    """
    try:
        if plugin.applies is not None and not any(map(plugin.applies, sides)):
            return plugin.without("not-applicable", "no side has what it is about")
        data = plugin.analyse(sides, **given)
        json.dumps(to_plain(data), allow_nan=False)
    except Absent as absent:
        return plugin.without("absent", str(absent))
    except Exception as error:  # noqa: BLE001 # one analysis must not cost the others
        return plugin.without("failed", describe(error))
    return Section.of(data)


def _summarise(side: Side, sides: Sequence[Side], comparability: Comparability) -> SideSummary:
    bundle = side.bundle
    treatment = [path for each in sides for path in each.bundle.treatment]
    runs = [run for run in bundle.runs if not run.warmup]
    kinds = [run.kind for run in runs if run.succeeded]
    return SideSummary(
        name=side.name,
        label=bundle.label,
        path=str(bundle.path),
        digest=bundle.digest,
        created=bundle.created,
        complete=bundle.complete,
        boots=len(bundle.boots),
        runs_clean=kinds.count("clean"),
        runs_instrumented=kinds.count("instrumented"),
        runs_failed=sum(run.failed for run in runs),
        runs_discarded=sum(run.discarded is not None for run in runs),
        host=bundle.host_fields,
        recorded_by=_recorder(bundle),
        source=None if bundle.source is None else GitSource(**asdict(bundle.source)),
        recordings=tuple(_recordings(bundle)),
        machine_class=machine_class(bundle, treatment, comparability.differences),
        imported=bundle.imported.format if bundle.imported else None,
    )


def _recordings(bundle: Bundle) -> Iterator[Recording]:
    tools = bundle.host_fields.get("tools")
    versions = tools if isinstance(tools, Mapping) else {}
    for entry in bundle.recordings:
        programs = (
            Program(name=each.name, version=_text(versions.get(each.name)), sha256=each.sha256)
            for each in entry.programs
        )
        yield Recording(command=entry.command, minutes=entry.minutes, programs=tuple(programs))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _recorder(bundle: Bundle) -> str | None:
    # Of an imported bundle the version is that of the importer.
    is_known = bundle.tool_version is not None and bundle.imported is None
    return f"schedperf {bundle.tool_version}" if is_known else None


def _caveats(sides: Sequence[Side], facts: _Facts, values: RunValues) -> Iterator[Caveat]:
    for side in sides:
        yield from side.bundle.caveats
        if not side.bundle.complete:
            reason = side.bundle.incomplete_reason or "no reason recorded"
            yield caveat("incomplete", side=side.name, reason=reason)
        if side.bundle.imported is not None:
            missing = join_names(name_unchecked(side.bundle.host_fields))
            yield caveat(
                "imported",
                side=side.name,
                format=side.bundle.imported.format,
                missing=missing or "nothing else",
            )
    yield from values.caveats
    yield from chain.from_iterable(map(_caveats_of_runs, sides))
    different = [side for side in sides[1:] if side.name not in facts.same_data]
    if not different:
        return
    for side in (sides[0], *different):
        boots = len({run.boot for run in side.bundle.runs if run.kind == "clean"})
        if boots == 1:
            yield caveat("one-boot", side=side.name)
        if side.name in facts.emulated:
            yield caveat("emulated", how=facts.emulated[side.name].evidence)
    for side in different:
        if side.bundle.sequential is not None:
            max_runs = side.bundle.sequential.max_runs
            yield caveat("looks", side=side.name, max_runs=max_runs)
    yield from _caveats_of_order(sides, different, values)


def _caveats_of_order(
    sides: Sequence[Side], different: Sequence[Side], values: RunValues
) -> Iterator[Caveat]:
    if any(_are_blocks(values.table, side.name) for side in different):
        yield caveat("blocks")
    unbalanced = find_unbalanced(sides)
    if unbalanced is not None:
        # Orders in a Williams design (schedperf_collectors.recorder.plan.williams).
        cycle = unbalanced.sides * (1 + unbalanced.sides % 2)
        yield caveat("unbalanced", sides=unbalanced.sides, rounds=unbalanced.rounds, cycle=cycle)


def _caveats_of_runs(side: Side) -> Iterator[Caveat]:
    runs = side.bundle.runs
    left = [run for run in runs if run.left_behind]
    if left:
        names = list(dict.fromkeys(name for run in left for name in run.left_behind))
        more = ", …" if len(names) > MOST_PROCESSES else ""
        listed = f"{', '.join(names[:MOST_PROCESSES])}{more}"
        yield caveat("left-behind", side=side.name, count=len(left), names=listed)
    omitted = {run.folder: size for run in runs if (size := omitted_bytes(side.bundle, run))}
    if omitted:
        first, size = next(iter(omitted)), sum(omitted.values())
        yield caveat("output-left-out", side=side.name, count=len(omitted), bytes=size, first=first)


def say_history(options: CompareOptions) -> Iterator[Caveat]:
    """Yield what is to be said of the earlier recordings that were used."""
    if options.history:
        yield caveat("history", count=len(options.history))


def _are_blocks(runs: Frame, side: str) -> bool:
    # Was one of the two sides recorded wholly before the other?
    # Unknown places in time are before and after nothing.
    orders = numbers_of(runs["order"])
    base, new = (orders[runs["side"] == name] for name in (BASE, side))
    return bool(len(base) and len(new) and (base.max() < new.min() or new.max() < base.min()))


def _decide(
    rows: Sequence[Row],
    sides: Sequence[Side],
    facts: _Facts,
    values: RunValues,
    sections: Mapping[str, Section],
) -> Overall:
    blocking = _unique(difference for side in sides[1:] for difference in facts.blocking(side.name))
    are_compared = any(section.data is not None for section in sections.values())
    if are_compared and not any(side.bundle.runs for side in sides):
        absence: tuple[Verdict, Reason] = (
            "inconclusive",
            undecided("no run was recorded and only the kernels are compared"),
        )
    else:
        absence = _absence(rows, sides, facts, values)
    overall = decide_overall(rows, blocking=blocking, absence=absence)
    lost = next(filter(None, map(_say_lost, sides)), None)
    if overall.verdict != "invalid" or blocking or lost is None:
        return overall
    # The rows say only that a side has no value.
    reason = reason_of(f"no result, because {lost}")
    return replace(overall, reason=reason.text, reason_short=reason.short)


def _say_lost(side: Side) -> str | None:
    """Return why a side has no valid clean run; None if it has one, or none was discarded."""
    runs = [run for run in side.bundle.runs if run.kind == "clean" and not run.warmup]
    reasons = [run.discarded for run in runs if run.discarded is not None]
    if not reasons or any(run.succeeded for run in runs):
        return None
    return f"{len(reasons)} of {len(runs)} clean runs of {side.name} were discarded: {reasons[0]}"


def _unique(items: Iterable[Item]) -> tuple[Item, ...]:
    # Caveats and differences hold JSON values, which need not be hashable, and a hostile bundle
    # can make a hundred thousand of them.
    return tuple({repr(item): item for item in items}.values())


def _absence(
    rows: Sequence[Row], sides: Sequence[Side], facts: _Facts, values: RunValues
) -> tuple[Verdict, Reason]:
    # Why there is no primary row: the runs, their text, or what they were measured on.
    if any(row.values_base or row.values_new for row in rows):
        emulator = next(iter(facts.emulated.values()), None)
        if emulator is None:
            return "inconclusive", undecided("no primary metric was measured")
        return "inconclusive", replace(undecided(_say_emulator(emulator)), short=EMULATED)
    same = all(side.name in facts.same_data for side in sides[1:])
    verdict: Verdict = "inconclusive" if same else "invalid"
    for side in sides:
        runs = [run for run in side.bundle.runs if run.kind == "clean" and not run.warmup]
        if not any(run.succeeded for run in runs):
            why = f"0 of {len(runs)} clean runs of {side.name} succeeded"
            return verdict, reason_of(
                f"no result, because {why if runs else f'{side.name} has no clean run'}"
            )
    for value_caveat in values.caveats:
        if value_caveat.code == "bad-lines":
            return verdict, reason_of(f"no result, because {value_caveat.text}")
    unread, remedy = _unread(sides)
    whole = reason_of(f"no result, because {unread}", remedy)
    return "inconclusive", replace(whole, short=unread)


def _unread(sides: Sequence[Side]) -> tuple[str, str]:
    # Why no number is read from runs that succeeded, and what to do.
    bundles = [side.bundle for side in sides]
    if all(map(prints_nothing, bundles)):
        if any(bundle.imported for bundle in bundles):
            return "imported files have no benchmark results", "record a benchmark as workload"
        return "the workload prints nothing", "record a benchmark as workload"
    has_rules = any(bundle.metric_rules for bundle in bundles)
    remedy = "record the workload again with --metric 'name[unit,higher]=REGEX'"
    if has_rules:
        is_whole = not any(omitted_bytes(bundle, run) for bundle in bundles for run in bundle.runs)
        remedy = correct_rule(is_whole=is_whole)
    return say_unread(has_rules=has_rules), remedy
