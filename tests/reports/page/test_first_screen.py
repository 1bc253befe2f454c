# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a page: its sentence, labels, drawings, reasons and cells."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.wakeup_latency.section import analyse_sides
from schedperf.model.comparison import Comparison, NextStep
from schedperf.model.rows import Row, RunValue, Verdict
from schedperf.model.sections import Section
from schedperf.model.sides import Difference, SideSummary
from schedperf_reports.page.first_screen.drawings import MOST_LINES, draw_changes, draw_strips
from schedperf_reports.page.first_screen.labels import describe_difference, name_sides
from schedperf_reports.page.first_screen.screen import FirstScreen, draw_first_screen, title_of
from schedperf_reports.page.first_screen.sentence import deciding_rows, describe_change
from schedperf_reports.page.first_screen.why import CORRELATED
from schedperf_reports.sections import shown_sections
from tests.reports.comparison_records import overall_of
from tests.schedperf.evidence.wakeup_latency.conftest import side_of, with_tail

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def draw(comparison: Comparison) -> FirstScreen:
    return draw_first_screen(comparison, shown_sections(comparison))


def with_differences(comparison: Comparison, *fields: tuple[str, object, object]) -> Comparison:
    differences = tuple(
        Difference(path=path, side="new", base=base, new=new, severity="treatment", reason="")
        for path, base, new in fields
    )
    comparability = replace(comparison.comparability, differences=differences)
    return replace(comparison, comparability=comparability)


@pytest.mark.parametrize(
    ("fields", "labels", "words"),
    [
        ((("cgroup.depth", 0, 8),), ("depth 0", "depth 8"), "cgroup depth 0 → 8"),
        (
            (("cgroup.path", "/", "/a"), ("kernel.release", "6.1.2-tip", "6.1.2-cluster")),
            ("tip", "cluster"),
            "kernel 6.1.2-tip → 6.1.2-cluster",
        ),
        ((("kernel.release", "6.1", "6.2"),), ("6.1", "6.2"), "kernel 6.1 → 6.2"),
        # One is the other with a suffix, and an empty label is none.
        (
            (("kernel.release", "6.1-", "6.1-rt"),),
            ("6.1-", "6.1-rt"),
            "kernel 6.1- → 6.1-rt",
        ),
        ((("setup", "a " * 40, "b " * 40),), ("base", "new"), ""),
        ((), ("base", "new"), ""),
    ],
)
def test_sides_are_called_by_what_differs(
    make_comparison: Make,
    fields: tuple[tuple[str, object, object], ...],
    labels: tuple[str, str],
    words: str,
) -> None:
    comparison = with_differences(make_comparison(), *fields)
    assert name_sides(comparison) == labels
    assert describe_difference(comparison) == words


def test_labels_of_the_user_stay(
    make_comparison: Make, make_side: Callable[..., SideSummary]
) -> None:
    sides = (make_side("base", label="v6.18"), make_side("new", label="mine"))
    comparison = with_differences(make_comparison(sides=sides), ("cgroup.depth", 0, 8))
    assert name_sides(comparison) == ("v6.18", "mine")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ratio": 1.218, "point": ""}, "hackbench is 21.8% slower"),
        ({"ratio": 0.8, "point": ""}, "hackbench takes 20.0% less time"),
        ({"ratio": 1.5, "point": "groups=4"}, "hackbench at groups=4 is 50.0% slower"),
        (
            {"ratio": 0.9, "point": "", "metric": "throughput", "unit": "1/s", "better": "higher"},
            "throughput is 10.0% lower",
        ),
    ],
)
def test_a_change_is_one_sentence(
    make_row: MakeRow, changes: dict[str, Any], sentence: str
) -> None:
    row = replace(make_row(), workload="hackbench -g 4", metric="hackbench time", unit="s")
    assert describe_change(replace(row, **changes)) == sentence


def test_an_inconclusive_report_says_why_and_quotes_no_change(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = replace(
        make_row(),
        verdict="inconclusive",
        reason="timings come from an emulator (QEMU's, not KVM's)",
        reason_short="timings come from an emulator",
        more_runs=None,
    )
    overall = overall_of("inconclusive", "emulated", 0)
    screen = draw(make_comparison(rows=(row,), overall=overall))
    assert screen.caption == "No verdict: timings come from an emulator"
    assert screen.changes is not None
    assert [line.number for line in screen.changes.lines] == ["[+35.0%, +39.5%]"]


def test_worst_results_come_first_and_the_rest_is_counted(
    make_comparison: Make, make_row: MakeRow
) -> None:
    ratios = (1.05, 1.4, 1.1, 1.2, 1.3, 1.06, 1.07, 1.08)
    rows = tuple(make_row(point=f"groups={index}", ratio=r) for index, r in enumerate(ratios))
    comparison = make_comparison(rows=rows)
    changes = draw_changes(deciding_rows(comparison), ("base", "new"))
    assert changes is not None
    assert len(changes.lines) == MOST_LINES
    assert [line.change for line in changes.lines][:3] == ["+40.0%", "+30.0%", "+20.0%"]
    assert changes.more == "2 more results"
    assert all(line.strips is not None for line in changes.lines)
    assert changes.lines[0].values == "612 → 856.8 ms"


def three_kernels(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> Comparison:
    """Return two kernels against tip, of which the first is worse at both points."""
    ratios = {"new": (1.25, 1.08), "new2": (1.04, 0.93)}
    verdicts: dict[float, Verdict] = {
        1.25: "regression", 1.08: "regression", 1.04: "no-change", 0.93: "improvement",
    }  # fmt: skip
    rows = tuple(
        replace(
            make_row(point=point, ratio=ratio),
            side=side,
            new=0.5 * ratio,
            base=0.5,
            verdict=verdicts[ratio],
        )
        for side, of_side in ratios.items()
        for point, ratio in zip(("groups=16", "groups=4"), of_side, strict=True)
    )
    names = {"base": "tip", "new": "cluster", "new2": "repair"}
    sides = tuple(make_side(name, label=label) for name, label in names.items())
    return make_comparison(sides=sides, rows=rows)


def test_several_kernels_have_a_line_each_with_value_change_interval_and_n(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    screen = draw(three_kernels(make_comparison, make_row, make_side))
    assert screen.caption == "cluster regresses, repair improves"
    tip, cluster, repair = screen.sides
    assert (tip.label, tip.value, tip.change) == ("tip", "500.0 ms", "")
    assert tip.details.startswith("[95% CI], n\N{NO-BREAK SPACE}=")
    assert (cluster.label, cluster.value, cluster.change) == ("cluster", "625.0 ms", "+25.0%")
    assert re.fullmatch(r"\[.*%\], 2 of 2 worse", cluster.details)
    assert (repair.value, repair.change, repair.place) == ("520.0 ms", "+4.0%", 2)
    assert repair.details.endswith(", 1 of 2 better, most -7.0% at groups=4")
    assert (screen.values, screen.basis, screen.strips) == ((), "", None)


def test_the_drawing_of_several_kernels_has_a_line_per_kernel_and_says_what_is_left(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    comparison = three_kernels(make_comparison, make_row, make_side)
    changes = draw(comparison).changes
    assert changes is not None
    assert changes.title.endswith(" at groups=16")
    assert [(line.name, line.place, line.number) for line in changes.lines] == [
        ("cluster", 1, "+25.0%"),
        ("repair", 2, "+4.0%"),
    ]
    assert changes.runs is not None
    assert [strip.label for strip in changes.runs.strips] == ["tip", "cluster", "repair"]
    assert changes.more == "1 more result"
    assert " +25.0% · cluster, repair vs tip" in title_of(comparison)


def test_runs_of_all_kernels_share_one_axis(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    comparison = three_kernels(make_comparison, make_row, make_side)
    spread = {"base": 0.5, "new": 4.0, "new2": 0.02}
    rows = tuple(
        replace(row, values_base=runs_at(row, spread["base"]), values_new=runs_at(row, mean))
        for row in comparison.rows
        for mean in [spread[row.side]]
    )
    changes = draw(replace(comparison, rows=rows)).changes
    assert changes is not None
    assert changes.runs is not None
    # Titles are values in seconds or milliseconds; in one unit they lie on one line.
    placed = [
        (dot.left, float(dot.title.split()[0]), dot.title.split()[1])
        for strip in changes.runs.strips
        for dot in strip.dots
    ]
    assert len({unit for *_, unit in placed}) == 1
    (left, low, _), *_, (right, high, _) = sorted(placed)
    for at, value, _ in placed:
        assert at == pytest.approx(left + (right - left) * (value - low) / (high - low), abs=0.05)
    assert high / low > 100.0


def runs_at(row: Row, mean: float) -> tuple[RunValue, ...]:
    """Return runs a little beside each other around a mean."""
    return tuple(
        replace(run, value=mean * (1.0 + 0.01 * index)) for index, run in enumerate(row.values_base)
    )


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (
            {"p1": ["regression", "no-change"], "p2": ["no-change"], "p3": ["improvement"]},
            "p1 regresses, p2 is unchanged, p3 improves",
        ),
        # The worst first, whatever their order.
        (
            {"p1": ["improvement"], "p2": ["inconclusive"], "p3": ["regression"]},
            "p3 regresses, p2 is inconclusive, p1 improves",
        ),
        (
            {"p1": ["regression", "improvement", "improvement"], "p2": ["regression"]},
            "p2 regresses, p1 is mixed (1 worse, 2 better)",
        ),
        ({"p1": ["improvement"], "p2": ["improvement"]}, "p1 and p2 improve"),
        ({"p1": ["no-change"], "p2": ["no-change"]}, "p1 and p2 are unchanged"),
        ({f"p{i}": ["regression"] for i in range(5)}, "p0, p1, p2 and 2 more regress"),
    ],
)
def test_the_sentence_tells_each_kernel_the_worst_first(
    make_comparison: Make,
    make_row: MakeRow,
    make_side: Callable[..., SideSummary],
    verdicts: dict[str, list[Verdict]],
    sentence: str,
) -> None:
    names = ["base", "new", *(f"new{index}" for index in range(2, len(verdicts) + 1))]
    sides = tuple(
        make_side(name, label=label) for name, label in zip(names, ("tip", *verdicts), strict=True)
    )
    rows = tuple(
        replace(make_row(point=f"groups={point}"), side=side, verdict=verdict)
        for side, of_side in zip(names[1:], verdicts.values(), strict=True)
        for point, verdict in enumerate(of_side)
    )
    found = {row.verdict for row in rows}
    order: list[Verdict] = ["regression", "inconclusive", "improvement", "no-change"]
    overall = overall_of(next(verdict for verdict in order if verdict in found), "why", 0)
    comparison = make_comparison(sides=sides, rows=rows, overall=overall)
    assert draw(comparison).caption == sentence


def test_runs_are_drawn_in_their_unit_without_covering_each_other(make_row: MakeRow) -> None:
    row = make_row()
    equal = tuple(replace(run, value=row.values_base[0].value) for run in row.values_base)
    strips = draw_strips(replace(row, values_base=equal), ("tip", "mine"))
    assert strips is not None
    base, new = strips.strips
    assert (base.label, new.label) == ("tip", "mine")
    assert len(base.dots) == len(row.values_base)
    assert len({(dot.left, dot.level) for dot in base.dots[:4]}) == 4
    assert all(0.0 < dot.left < 100.0 for strip in strips.strips for dot in strip.dots)
    assert all(dot.title.endswith("s") for dot in new.dots)
    assert any(text.endswith("s") for _, text in strips.ticks)


def test_a_result_without_runs_has_no_drawing_of_them(make_row: MakeRow) -> None:
    assert draw_strips(replace(make_row(), values_base=(), values_new=()), ("a", "b")) is None


def test_a_reason_that_is_a_small_part_of_the_picture_is_listed(
    compared_example: Callable[[str], Comparison],
) -> None:
    screen = draw(compared_example("deep-cgroup"))
    assert screen.why.lead == CORRELATED
    assert screen.time is not None
    # The sample is that of the headline; parts that are too narrow to see have no key.
    assert screen.time.title == "thread-time per message +19.7%"
    assert [each.name for each in screen.time.key] == ["blocked", "waiting for a CPU", "system"]
    # Softirqs of the whole machine are listed with the others.
    (reason,) = screen.why.reasons
    assert reason.text == "system time of the workload's tasks per message 1.177 us → 1.44 us"
    assert (reason.is_weak, screen.why.more) == (False, 1)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("deep-cgroup", "hackbench +21.1% · cgroup depth 0 → 8 · 6.18.44-fc-v595"),
        ("deep-cgroup-arm64", "hackbench inconclusive · cgroup depth 0 → 8 · 6.1.192-tip"),
    ],
)
def test_the_title_names_result_difference_and_kernel(
    name: str, title: str, compared_example: Callable[[str], Comparison]
) -> None:
    assert title_of(compared_example(name)) == title


def test_the_first_screen_of_an_example_answers_each_question(
    compared_example: Callable[[str], Comparison],
) -> None:
    screen = draw(compared_example("deep-cgroup"))
    assert screen.caption == "hackbench is 21.1% slower"
    assert [value.text for value in screen.values] == ["2.22 s", "2.689 s"]
    basis = screen.basis.replace("\N{NO-BREAK SPACE}", " ")
    assert basis == "95% CI [+9.2%, +34.3%], n = 8 pairs"
    assert screen.conditions == "one boot per side: boot-to-boot variance unknown"
    assert screen.facts == (
        ("hackbench -p -l 4000 -g 2", "cgroup depth 0 → 8"),
        ("AMD EPYC, 2 CPUs, 1 node", "Linux 6.18.44-fc-v595", "2026-11-30"),
    )
    assert screen.comparable is True
    assert screen.limits == "smallest detectable change 15.3% (80% power)"
    unseen = "Latency, Scheduler statistics, Task placement, Preemption and 5 more"
    assert screen.unseen == unseen
    assert {cell.title: cell.text for cell in screen.cells} == {
        "Benchmarks": "1 of 1 worse",
        "Latency": "not measured",
        "Scheduler": "2 of 42 changed",
        "Profile": "0 of 58 changed",
        "Memory": "0 of 28 changed",
        "Environment": "3 of 103 differ",
    }


def test_the_next_step_is_one_command(make_comparison: Make) -> None:
    steps = tuple(
        NextStep(id=name, what=f"try {name}", why="", commands=(f"run {name}", "compare"))
        for name in ("this", "that", "more")
    )
    step = draw(make_comparison(next_steps=steps)).next
    assert step is not None
    assert (step.what, step.command, step.steps) == ("Try this", "run this", 3)
    assert draw(make_comparison(next_steps=())).next is None


def test_the_command_of_the_next_step_is_the_one_that_records(make_comparison: Make) -> None:
    commands = ("schedperf vm --check", "schedperf rerun base.tar new.tar --boots 4")
    steps = (NextStep(id="x", what="record", why="it is short", commands=commands),)
    step = draw(make_comparison(next_steps=steps)).next
    assert step is not None
    assert (step.why, step.command) == ("it is short", commands[1])
    steps = (replace(steps[0], why="because " * 20),)
    assert getattr(draw(make_comparison(next_steps=steps)).next, "why", None) == ""


def test_an_emulated_machine_is_called_so_and_next_is_another_one(
    compared_example: Callable[[str], Comparison],
) -> None:
    screen = draw(compared_example("deep-cgroup-arm64"))
    assert screen.facts[1][0] == "Cortex-A57, 4 CPUs, 2 nodes, emulated (QEMU TCG)"
    assert screen.next is not None
    assert screen.next.what == "Record again on aarch64 hardware or under KVM"
    # The large sentence says why.
    assert not screen.next.why
    assert screen.next.command.startswith("schedperf rerun ")


def test_a_chapter_without_data_says_why(
    make_comparison: Make, compared_example: Callable[[str], Comparison]
) -> None:
    notes = {
        cell.title: (cell.text, cell.note) for cell in draw(make_comparison(sections={})).cells
    }
    assert notes["Latency"] == ("not measured", "none printed, none traced")
    cells = draw(compared_example("cluster-percpu")).cells
    [memory] = [cell for cell in cells if cell.title == "Memory"]
    assert memory.note == "2 alarms: cache lines of hot variables changed"


def test_traced_wakeup_latencies_are_latencies(make_comparison: Make) -> None:
    sides = [
        side_of(name, [with_tail(tail, step) for step in range(5)])
        for name, tail in (("base", 200), ("new", 900))
    ]
    data = analyse_sides(sides)
    screen = draw(make_comparison(sections={data.section: Section.of(data)}))
    [cell] = [cell for cell in screen.cells if cell.title == "Latency"]
    assert (cell.text.split(" of ")[0] > "0", cell.href) == (True, "wakeup_latency")
    assert cell.text.endswith(" changed")


def test_a_chapter_that_was_not_measured_at_all_is_one_name(make_comparison: Make) -> None:
    absent = Section(schema="x", status="absent", reason="because", data=None)
    some = dict.fromkeys(("pelt", "placement", "c2c"), absent)
    assert draw(make_comparison(sections=some)).unseen == "Scheduler, Memory"
    other = {"sched_ext": replace(absent, status="not-applicable")}
    assert draw(make_comparison(sections=some | other)).unseen == "Scheduler, Memory"
    failed = replace(absent, status="failed")
    assert draw(make_comparison(sections=some | {"schedstat": failed})).unseen == (
        "Task placement, PELT updates, Memory"
    )
