# SPDX-License-Identifier: GPL-2.0-or-later
"""What instrumented runs leave open: sentences on records whose numbers are known."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.perf_stat.record import Counters
from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedChangeRow,
    ProbedRun,
    ProbeEffect,
)
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Better, Row
from schedperf.model.sections import Section
from schedperf_reports.blocks import Items
from schedperf_reports.sections import shown_sections
from schedperf_reports.verdict.rests_on import list_evidence
from schedperf_reports.words.instruments import (
    describe_agreement,
    list_costs,
    list_doubts,
    pairs_of,
    warn_of_instruments,
)

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
Probed = Callable[..., Comparison]

# Of clean and of instrumented runs.
N = "n = 8 clean and 5 instrumented pairs"

BETWEEN = ProbedChangeRow(
    side="new",
    workload="hackbench -l 1000 -g {groups}",
    point="groups=4",
    metric="hackbench time",
    unit="s",
    better="lower",
    n_base=5,
    n_new=5,
    base=1.0,
    new=None,
    ratio=None,
    ci_low=None,
    ci_high=None,
    replication="runs",
)


def between(
    ratio: float | None, low: float | None, high: float | None, **chosen: Any
) -> ProbedChangeRow:
    return replace(BETWEEN, new=ratio, ratio=ratio, ci_low=low, ci_high=high, **chosen)


def effect(
    ratio: float | None, side: str = "new", better: Better = "lower", width: float | None = 1.2
) -> ProbeCostRow:
    return ProbeCostRow(
        side=side,
        workload="hackbench -l 1000 -g {groups}",
        point="groups=4",
        metric="hackbench time",
        unit="s",
        better=better,
        ratio=ratio,
        ci_low=ratio / width if ratio and width else None,
        ci_high=ratio * width if ratio and width else None,
        replication="rounds",
        n_clean=8,
        n_instrumented=5,
        clean=None,
        instrumented=None,
    )


def run(*collectors: str, side: str = "new") -> ProbedRun:
    return ProbedRun(
        side=side, workload="", point="", boot=0, run=1, collectors=collectors, effects=()
    )


@pytest.fixture
def probed(make_comparison: Make) -> Probed:
    """Return a comparison whose section on the probe effect says these things."""

    def probed(results: Any = (), *, status: str = "ok", **data: Any) -> Comparison:
        effects = replace(ProbeEffect(rows=(), between=(), runs=()), **data)
        section = Section(
            schema="schedperf/section/probe_effect/3",
            status=status,  # type: ignore[arg-type]
            reason=None
            if status == "ok"
            else "no metric was measured in both clean and instrumented runs",
            data=effects if status == "ok" else None,
        )
        return make_comparison(rows=tuple(results), sections={"probe_effect": section})

    return probed


def texts(items: Any) -> list[str]:
    return [item.text for item in items]


def test_a_change_that_instrumented_runs_do_not_show_is_a_doubt_with_its_numbers(
    probed: Probed, make_row: MakeRow
) -> None:
    comparison = probed([make_row()], between=[between(1.066, 0.965, 1.177)])
    [doubt] = list_doubts(comparison)
    assert doubt.text == (
        "the instrumented runs do not reproduce the change but show +6.6% [-3.5%, +17.7%], so "
        "their data may not explain the change"
    )
    assert (doubt.tone, doubt.evidence) == ("warning", ("probe_effect",))
    assert describe_agreement(pairs_of(comparison)) is None


def test_the_same_direction_beyond_noise_shows_the_change(
    probed: Probed, make_row: MakeRow
) -> None:
    comparison = probed([make_row()], between=[between(1.3, 1.2, 1.4)])
    assert not list(list_doubts(comparison))
    assert describe_agreement(pairs_of(comparison)) == (
        "the instrumented runs also show the change: +30.0% [+20.0%, +40.0%]"
    )


@pytest.mark.parametrize(("low", "high"), [(0.7, 0.9), (0.9, 1.8), (1.0, 1.0)])
def test_the_other_direction_or_noise_does_not_show_it(
    probed: Probed, make_row: MakeRow, low: float, high: float
) -> None:
    comparison = probed([make_row()], between=[between(1.0, low, high)])
    assert list(list_doubts(comparison))
    assert describe_agreement(pairs_of(comparison)) is None


def test_an_improvement_is_a_change_as_well(probed: Probed, make_row: MakeRow) -> None:
    row = make_row(ratio=0.8, verdict="improvement")
    assert describe_agreement(pairs_of(probed([row], between=[between(0.8, 0.7, 0.9)])))
    assert list(list_doubts(probed([row], between=[between(1.2, 1.1, 1.3)])))


def test_what_cannot_be_told_is_no_doubt(probed: Probed, make_row: MakeRow) -> None:
    one_run = probed([make_row()], between=[between(1.066, None, None)])
    assert not list(list_doubts(one_run))
    no_ratio = make_row(ratio=None, verdict="regression")
    assert not list(list_doubts(probed([no_ratio], between=[between(None, None, None)])))
    nothing = probed([make_row(verdict="inconclusive")], between=[between(1.5, 0.9, 2.4)])
    assert not list(list_doubts(nothing))
    assert describe_agreement(pairs_of(nothing)) is None


@pytest.mark.parametrize("verdict", ["inconclusive", "no-change"])
def test_a_change_of_instrumented_runs_alone_is_a_doubt(
    probed: Probed, make_row: MakeRow, verdict: str
) -> None:
    comparison = probed([make_row(verdict=verdict)], between=[between(1.5, 1.2, 1.9)])
    [doubt] = list_doubts(comparison)
    assert doubt.text == (
        "only the instrumented runs differ significantly (hackbench time at groups=4 +50.0% "
        "[+20.0%, +90.0%]), so their data may show collector overhead"
    )


def test_of_several_results_the_clearest_is_named_and_the_others_are_counted(
    probed: Probed, make_row: MakeRow
) -> None:
    points = ("groups=1", "groups=4", "groups=16")
    rows = [make_row(point=point) for point in points]
    ratios = {
        "groups=1": (1.3, 1.2, 1.4),
        "groups=4": (1.1, 0.9, 1.3),
        "groups=16": (1.0, 0.9, 1.1),
    }
    pairs = [between(*ratios[point], point=point) for point in points]
    comparison = probed(rows, between=pairs)
    [doubt] = texts(list_doubts(comparison))
    assert doubt.startswith(
        "the instrumented runs do not reproduce the change of hackbench time at groups=16 and 1 "
        "more"
        " but show +0.0% [-10.0%, +10.0%], so "
    )
    assert describe_agreement(pairs_of(comparison)) == (
        "the instrumented runs also show 1 of 3 changes found in the clean runs"
    )


def test_results_are_matched_by_all_that_tells_them_apart(
    probed: Probed, make_row: MakeRow
) -> None:
    others = [between(1.0, 0.9, 1.1, **one) for one in ({"point": "groups=16"}, {"side": "new2"})]
    assert pairs_of(probed([make_row()], between=others)) == ()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            [effect(3.084, "base"), effect(5.798)],
            f"runs by a factor of 3.1 (95% CI [2.6, 3.7], {N}) to 5.8 (95% CI [4.8, 7.0], {N})",
        ),
        (
            [effect(1.03, "base"), effect(1.63)],
            f"runs of new by a factor of 1.6 (95% CI [1.4, 2.0], {N}), so",
        ),
        (
            [effect(1.0, "base"), effect(0.25, better="higher")],
            f"runs of new by a factor of 4.0 (95% CI [3.3, 4.8], {N}), so",
        ),
        (
            [effect(1.0, "base"), effect(1.63, width=3.6)],
            f"runs of new by a factor of 1.6 (95% CI [0.5, 5.9], {N}) (not significant)",
        ),
        (
            [effect(1.63, width=None)],
            f"runs of new by a factor of 1.6 (no CI, {N}) (not significant), so",
        ),
        (
            [effect(3.8, "base", width=30.0), effect(1.63, width=3.6)],
            f"runs of new by a factor of 1.6 (95% CI [0.5, 5.9], {N}) (not significant)",
        ),
        # What is shown is said, and what may be noise is not mixed with it.
        (
            [effect(9.0, "base", width=100.0), effect(2.0)],
            f"runs of new by a factor of 2.0 (95% CI [1.7, 2.4], {N}), so",
        ),
    ],
)
def test_collectors_that_slow_runs_down_are_a_doubt(
    probed: Probed, rows: list[Any], told: str
) -> None:
    [cost] = list_costs(probed(rows=rows, runs=[run("bpf_pelt", "perf_stat")]))
    assert cost.text.startswith(f"collectors slowed the instrumented {told}")
    assert cost.text.endswith("may reflect collector overhead (bpf_pelt, perf_stat)")
    assert (cost.tone, cost.evidence) == ("warning", ("probe_effect",))


def test_a_slowdown_with_a_wide_interval_is_unknown(probed: Probed) -> None:
    rows = [effect(1.0, "base"), effect(3.8, width=30.0)]
    [cost] = list_costs(probed(rows=rows, runs=[run("bpf_pelt")]))
    unknown = "how much collectors slowed the instrumented runs of new is unknown"
    assert cost.text.startswith(f"{unknown} (95% CI too wide, {N}), so their data may reflect")


@pytest.mark.parametrize("rows", [[effect(1.5)], [effect(None)], [effect(0.5)], []])
def test_what_costs_little_is_not_said(probed: Probed, rows: list[Any]) -> None:
    assert not list(list_costs(probed(rows=rows)))


def test_the_evidence_has_doubts_before_other_weaknesses_and_costs_after_them(
    probed: Probed, make_row: MakeRow
) -> None:
    comparison = probed([make_row()], between=[between(1.0, 0.9, 1.1)], rows=[effect(2.0)])
    found = texts(list_evidence(comparison))
    [doubt] = [place for place, text in enumerate(found) if "do not reproduce" in text]
    [weakness] = [place for place, text in enumerate(found) if "runs of new failed" in text]
    [cost] = [place for place, text in enumerate(found) if "collectors slowed" in text]
    assert doubt < weakness < cost
    assert not any("instrumented" in text for text in texts(list_evidence(probed([make_row()]))))


def with_counters(comparison: Comparison) -> Comparison:
    """Return the comparison with a section whose captures are those of perf_stat."""
    counters = Counters(
        sides=(), rows=(), zeros=(), workload_zeros=(), not_counted=(), missing=(), notes=()
    )
    sections = {**comparison.sections, "counters": Section.of(counters)}
    return replace(comparison, sections=sections)


def test_sections_are_warned_of_where_their_collector_ran_in_instrumented_runs_alone(
    probed: Probed, make_row: MakeRow
) -> None:
    probes = {"between": [between(1.0, 0.9, 1.1)], "runs": [run("perf_stat")]}
    comparison = with_counters(probed([make_row()], **probes))
    [items] = warn_of_instruments(comparison, "counters")
    assert isinstance(items, Items)
    assert texts(items.items) == texts(list_doubts(comparison))
    assert not list(warn_of_instruments(comparison, "pelt"))
    assert not list(warn_of_instruments(comparison, "benchmarks"))
    of_another = with_counters(probed([make_row()], **probes | {"runs": [run("perf_profile")]}))
    assert not list(warn_of_instruments(of_another, "counters"))
    harmless = probed([make_row()], **probes | {"between": [between(1.3, 1.2, 1.4)]})
    assert not list(warn_of_instruments(with_counters(harmless), "counters"))


def test_what_is_said_stands_over_the_section(probed: Probed, make_row: MakeRow) -> None:
    probes = {"between": [between(1.0, 0.9, 1.1)], "runs": [run("perf_stat")]}
    comparison = with_counters(probed([make_row()], **probes))
    [section] = [one for one in shown_sections(comparison) if one.name == "counters"]
    first, *_ = section.describe(comparison)
    assert isinstance(first, Items)
    assert texts(first.items) == texts(list_doubts(comparison))


def test_without_instrumented_runs_nothing_is_said(probed: Probed, make_row: MakeRow) -> None:
    comparison = probed([make_row()], status="absent")
    assert pairs_of(comparison) == ()
    assert not [*list_doubts(comparison), *list_costs(comparison)]
    assert not list(warn_of_instruments(with_counters(comparison), "counters"))
