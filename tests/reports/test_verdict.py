"""The verdict's section: the sentence of each side, how sure it is, what may be compared."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from schedperf.caveats import caveat
from schedperf.model import (
    Comparability,
    Comparison,
    Difference,
    FamilySummary,
    Finding,
    OptionDifference,
    Overall,
    Row,
    SideSummary,
)
from schedperf_reports._sentences import describe_diagnostic, judge_sides
from schedperf_reports._words import describe_change, merge_sides, side_letter
from schedperf_reports.blocks import Block, Graphic, Headline, Item, Items, Table, Text
from schedperf_reports.graphics.panels import Panel, Panels
from schedperf_reports.sections.evidence import evidence
from schedperf_reports.sections.verdict import verdict

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
MakeSide = Callable[..., SideSummary]

REGRESSION = (
    "hackbench time at groups=4 is 37.2 % longer (95 % interval 35.0 % to 39.5 %, 5+5 runs)"
)


def headline(comparison: Comparison) -> Headline:
    block = next(iter(verdict(comparison)))
    assert isinstance(block, Headline)
    return block


def plain(blocks: Sequence[Block]) -> list[Block]:
    """Return what formats without boxes show."""
    return [
        inner
        for block in blocks
        for inner in (plain(block.plain()) if isinstance(block, Graphic) else [block])
    ]


def described(comparison: Comparison) -> list[Block]:
    return plain([*verdict(comparison), *evidence(comparison)])


def items(comparison: Comparison) -> list[Item]:
    return [item for block in described(comparison) if isinstance(block, Items)
            for item in block.items]  # fmt: skip


def item(comparison: Comparison, begin: str) -> Item:
    """Return the only item that begins so."""
    [found] = [one for one in items(comparison) if one.text.startswith(begin)]
    return found


def tables(comparison: Comparison) -> list[list[list[str]]]:
    return [
        [[cell.text for cell in row] for row in block.rows]
        for block in described(comparison)
        if isinstance(block, Table)
    ]


def comparable(comparison: Comparison) -> Panel:
    blocks = [*verdict(comparison), *evidence(comparison)]
    boxes = [box for one in blocks if isinstance(one, Panels) for box in one.panels]
    boxes += [one for one in blocks if isinstance(one, Panel)]
    [found] = [box for box in boxes if box.caption.startswith("comparable")]
    return found


def overall(word: Any, reason: str = "because") -> Overall:
    return Overall(verdict=word, reason=reason, exit_status=0)


def regressions(make_row: MakeRow, **ratios: float) -> tuple[Row, ...]:
    return tuple(
        make_row(point=f"groups={name[1:]}", ratio=ratio) for name, ratio in ratios.items()
    )


def test_a_regression_is_one_sentence_with_number_interval_and_n(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = (make_row(ci_low=1.35, ci_high=1.395),)
    assert headline(make_comparison(rows=rows)) == Headline(
        word="regression (this boot only)",
        text=f"B new is worse than A base: {REGRESSION}",
        tone="bad",
    )


def test_some_worse_and_some_better_is_mixed_with_both_numbers(make_comparison: Make) -> None:
    found = headline(make_comparison())
    assert found.word == "regression (mixed, this boot only)"
    assert found.text == (
        f"B new is mixed against A base: 1 of 4 results is worse: {REGRESSION}; 1 of 4 results is "
        f"better: "
        "sched/pipe time per operation is 3.8 % shorter (95 % interval 2.7 % to 4.9 %, 5+5 runs); "
        "1 unchanged, 1 inconclusive"
    )


def test_of_several_regressions_the_largest_is_named(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = (*regressions(make_row, g1=1.1, g2=1.3), make_row(point="x", verdict="no-change"))
    text = headline(make_comparison(rows=rows)).text
    assert text.startswith(
        "B new is worse than A base: 2 of 3 results are worse, the most: hackbench time at "
        "groups=2 is 30.0 %"
    )
    assert text.endswith("; 1 unchanged")


def test_no_change_says_the_smallest_change_that_would_have_been_seen(
    make_comparison: Make, make_row: MakeRow
) -> None:
    equal = {"verdict": "no-change", "ratio": 1.004, "ci_low": 0.991, "ci_high": 1.017}
    one = make_comparison(rows=(make_row(**equal, mde=0.024),), overall=overall("no-change"))
    assert headline(one).text == (
        "B new is unchanged against A base: hackbench time at groups=4 looks 0.4 % longer (95 % "
        "interval -0.9 % to "
        "+1.7 %, 5+5 runs), equal within ±3.0 %; a change of 2.4 % would have been seen"
    )
    rows = (make_row(**equal, mde=0.024), make_row(**equal, point="x", mde=0.05))
    several = headline(make_comparison(rows=rows, overall=overall("no-change"))).text
    assert several == (
        "B new is unchanged against A base: none of 2 results changed, all are equal within ±3.0 "
        "%; "
        "a change of 5.0 % would have been seen in each"
    )
    rows = (make_row(**equal, mde=0.024), make_row(**equal, point="x", mde=None))
    unknown = headline(make_comparison(rows=rows, overall=overall("no-change"))).text
    assert "would have been seen" not in unknown


def test_an_open_result_says_what_it_looks_like_and_how_many_runs_are_missing(
    make_comparison: Make, make_row: MakeRow
) -> None:
    reason = "+4.6 % (95 % interval -1 % to +10.5 %, q = 0.08, 5+5 runs): no significant change"
    row = make_row(
        ratio=1.046, ci_low=0.99, ci_high=1.105, verdict="inconclusive", reason=reason,
        more_runs=6, mde=0.072,
    )  # fmt: skip
    text = headline(make_comparison(rows=(row,), overall=overall("inconclusive"))).text
    assert text == (
        "B new is undecided against A base: hackbench time at groups=4 looks 4.6 % longer "
        "(95 % interval -1.0 % to +10.5 %, 5+5 runs): no significant change; needs about 6 more "
        "runs a side; these find "
        "changes from 7.2 %"
    )


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("invalid", "B new is not comparable with A base: cpu.microcode differs"),
        ("inconclusive", "B new is undecided against A base: cpu.microcode differs"),
    ],
)
def test_without_a_row_that_says_it_the_reason_of_the_record_does(
    make_comparison: Make, word: Any, text: str
) -> None:
    comparison = make_comparison(rows=(), overall=overall(word, "cpu.microcode differs"))
    assert headline(comparison).text == text


def test_what_decides_nothing_is_told_as_such(make_comparison: Make, make_row: MakeRow) -> None:
    reason = "no result can decide: measured under emulation (TCG)"
    wide = make_row(family="diagnostic", ci_low=0.5, ci_high=3.0, point="wide")
    rows = (wide, make_row(family="diagnostic", ratio=1.1, ci_low=1.0, ci_high=1.2))
    comparison = make_comparison(rows=rows, overall=overall("inconclusive", reason), caveats=())
    assert headline(comparison).text == (
        "B new is undecided against A base: measured under emulation (TCG), so no result can decide"
    )
    told = (
        "measured, but deciding nothing, narrowest interval of 2 results: hackbench time at "
        "groups=4 looks 10.0 % longer (95 % interval +0.0 % to +20.0 %, 5+5 runs)"
    )
    assert told in [block.text for block in described(comparison) if isinstance(block, Text)]
    assert describe_diagnostic(make_comparison()) is None


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("regression", "regression (this boot only)"),
        ("no-change", "no-change (this boot only)"),
        ("inconclusive", "inconclusive"),
        ("invalid", "invalid"),
    ],
)
def test_what_one_boot_decides_is_decided_for_this_boot_only(
    make_comparison: Make, make_row: MakeRow, word: Any, shown: str
) -> None:
    caveats = (caveat("blocks"), caveat("one-boot", side="new"))
    made = {"rows": (make_row(),), "overall": overall(word)}
    assert headline(make_comparison(**made, caveats=caveats)).word == shown
    assert headline(make_comparison(**made, caveats=caveats[:1])).word == word


def test_equal_bundles_are_called_the_same_data(make_comparison: Make, make_side: MakeSide) -> None:
    sides = (make_side("base", digest="d"), make_side("new", digest="d"))
    rows = tuple(one for one in make_comparison().rows if one.verdict == "no-change")
    shown = headline(make_comparison(sides=sides, rows=rows, overall=overall("no-change")))
    assert shown.word == "no-change (same data)"
    assert shown.text == "the sides hold the same data; 1 result compared with itself"


def test_each_new_side_has_its_sentence(
    make_comparison: Make, make_row: MakeRow, make_side: MakeSide
) -> None:
    comparison = make_comparison(
        sides=tuple(make_side(name, digest=name) for name in ("base", "new", "new2", "new3")),
        rows=(
            make_row(side="new", ratio=0.9, verdict="improvement"),
            make_row(side="new2", ratio=1.2),
        ),
        comparability=Comparability(comparable=True, compared=1, differences=()),
        findings=(),
    )
    assert headline(comparison).text.startswith(
        "C new2 is worse than A base: hackbench time at groups=4 is 20.0"
    )
    texts = [one.text for one in items(comparison)]
    assert texts[0].startswith(
        "B new is better than A base: hackbench time at groups=4 is 10.0 % shorter"
    )
    assert texts[1] == "D new3 is undecided against A base: no result of it can decide"
    assert [one.verdict for one in judge_sides(comparison)] == [
        "improvement", "regression", "inconclusive",
    ]  # fmt: skip


def test_a_side_that_may_not_be_compared_costs_the_others_nothing(
    make_comparison: Make, make_row: MakeRow, make_side: MakeSide
) -> None:
    blocking = Difference(
        path="cpu.microcode", side="new2", base="1", new="2", severity="blocking", reason="slow"
    )
    comparison = make_comparison(
        sides=tuple(make_side(name, digest=name) for name in ("base", "new", "new2")),
        rows=(make_row(side="new"), make_row(side="new2", verdict="invalid")),
        comparability=Comparability(comparable=False, compared=1, differences=(blocking,)),
    )
    verdicts = {one.side: (one.verdict, one.text) for one in judge_sides(comparison)}
    assert verdicts["new"][0] == "regression"
    assert verdicts["new2"][0] == "invalid"
    assert "not comparable with A base: cpu.microcode differs" in verdicts["new2"][1]


def make_finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "id": "x", "side": "new", "claim": "PELT (a +1, b +2 pp) takes 9 % more; by node 1",
        "metric": "", "value": 1.0, "ci": (0.5, 1.5), "unit": "pp", "better": "lower", "n": (5, 5),
        "evidence": (), "replication": "5+5 runs", "attribution": "co-occurs",
    }  # fmt: skip
    return Finding(**values | changes)


def test_the_best_supported_reason_is_said_as_what_it_is(make_comparison: Make) -> None:
    texts = [block.text for block in described(make_comparison(findings=(make_finding(),)))
             if isinstance(block, Text)]  # fmt: skip
    begin = "best supported reason (goes with the change, not shown to cause it)"
    assert f"{begin}: PELT takes 9 % more" in texts


def test_that_nothing_could_be_seen_is_no_reason(make_comparison: Make) -> None:
    found = make_comparison(findings=(make_finding(bearing="unseen"),))
    texts = [block.text for block in described(found) if isinstance(block, Text)]
    assert "why: not known; PELT (a +1, b +2 pp) takes 9 % more" in texts
    assert not any("best supported" in text for text in texts)


def test_how_sure_it_is_counts_values_order_boots_builds_and_tests(make_comparison: Make) -> None:
    comparison = make_comparison()
    assert item(comparison, "5 runs a side").evidence == ("benchmarks",)
    assert item(comparison, "one side after the other").tone == "warning"
    assert item(comparison, "one boot a side").tone == "warning"
    assert "another build" not in " ".join(one.text for one in items(comparison))
    assert item(comparison, "4 results tested by Welch t on logs").text.endswith(
        "; of those called changed at most 0.1 by chance (FDR 5 %)"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"replication": "rounds", "n_base": 6, "n_new": 6}, "6 rounds: in each"),
        ({"replication": "boots", "n_base": 2, "n_new": 4}, "2 to 4 boots a side: how boots"),
        ({"replication": "runs", "n_base": 1, "n_new": 1}, "1 run a side: one run"),
        ({"replication": "runs", "n_base": None, "n_new": None}, "nobody says of how many runs"),
    ],
)
def test_values_are_counted_in_their_unit(
    make_comparison: Make, make_row: MakeRow, changes: dict[str, Any], text: str
) -> None:
    assert item(make_comparison(rows=(make_row(**changes),)), text).text


def test_rounds_are_interleaved_and_an_unknown_order_is_not(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rounds = make_comparison(rows=(make_row(replication="rounds"),), caveats=())
    assert item(rounds, "interleaved").text
    assert item(make_comparison(caveats=()), "the sides took turns").text
    unknown = make_comparison(rows=(make_row(values_base=(), values_new=()),), caveats=())
    assert item(unknown, "in which order the runs were made is not known").tone == "warning"


def test_other_builds_and_several_boots_are_said(
    make_comparison: Make, make_side: MakeSide
) -> None:
    kernels = [{"kernel": {"build_id": name}} for name in ("a", "b")]
    sides = (make_side(boots=3, host=kernels[0]), make_side("new", boots=4, host=kernels[1]))
    comparison = make_comparison(sides=sides)
    assert item(comparison, "one build of each kernel: another build may").text
    assert item(comparison, "3+4 boots: how boots differ is seen").text
    unknown = make_comparison(sides=(make_side(boots=None), make_side("new", boots=None)))
    assert item(unknown, "how often each side was booted is not known").tone == "warning"


def test_nothing_tested_promises_nothing(make_comparison: Make) -> None:
    family = FamilySummary(
        family="primary", side="new", rows=4, tested=0, expected_false=0.0, verdicts={}
    )
    texts = [one.text for one in items(make_comparison(families=(family,)))]
    assert not any("tested" in text or "chance" in text for text in texts)


def test_weaknesses_beyond_the_first_are_counted(make_comparison: Make) -> None:
    caveats = [caveat("failed-runs", failed=n, total=9, side="new") for n in range(1, 6)]
    comparison = make_comparison(caveats=tuple(caveats))
    texts = [one.text for one in items(comparison)]
    assert "3 of 9 runs of new failed and are left out" in texts
    assert "4 of 9 runs of new failed and are left out" not in texts
    assert item(comparison, "2 more caveats").evidence == ("caveats",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ratio": 1.2}, " is 20.0 % longer"),
        ({"ratio": 0.8}, " is 20.0 % shorter"),
        ({"ratio": 0.8, "unit": "1/s", "better": "higher"}, " is 20.0 % lower, which is worse"),
        ({"ratio": 1.2, "unit": "1/s", "better": "higher"}, " is 20.0 % higher, which is better"),
        ({"ratio": 1.2, "unit": "B", "better": "lower"}, " is 20.0 % higher, which is worse"),
        ({"ratio": 1.2, "ci_low": None}, " is 20.0 % longer (5+5 runs)"),
        ({"ratio": None, "base": 0.0, "new": 0.004}, ": 0 before and 4 ms after (5+5 runs)"),
        (
            {"ratio": 1.2, "n_base": None, "n_new": None, "ci_low": None},
            " is 20.0 % longer (number",
        ),
        ({"ratio": 1.2, "ci_low": None, "n_base": None}, " is 20.0 % longer (?+5 runs)"),
        ({"ratio": 1.2, "ci_low": None, "replication": "boots"}, " is 20.0 % longer (5+5 boots)"),
        ({"ratio": 1.2, "ci_low": None, "replication": "rounds"}, " is 20.0 % longer (5 rounds)"),
        ({"ratio": None, "base": None, "new": 4.0}, ": - before and 4 s after (5+5 runs)"),
    ],
)
def test_words_know_the_direction(make_row: MakeRow, changes: dict[str, Any], words: str) -> None:
    assert describe_change(make_row(**changes)).startswith(words)


@pytest.mark.parametrize(
    ("notes", "merged"),
    [
        (["x of base: y", "x of new: y", "x of new2: z"], ["x of base and new: y", "x of new2: z"]),
        (
            ["base.tar is damaged", "new.tar is damaged"],
            ["base.tar is damaged", "new.tar is damaged"],
        ),
        (["/a/base/x fails", "/a/new/x fails"], ["/a/base/x fails", "/a/new/x fails"]),
        (["nothing", "nothing"], ["nothing"]),
        ([], []),
    ],
)
def test_notes_that_differ_in_the_side_alone_are_merged(
    notes: list[str], merged: list[str]
) -> None:
    assert merge_sides(notes) == merged


def test_rows_of_one_name_are_told_apart_by_their_command(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = (make_row(workload="hackbench -p", ratio=1.5), make_row(workload="hackbench -T"))
    assert (
        "hackbench time at groups=4 (hackbench -p) is" in headline(make_comparison(rows=rows)).text
    )


def test_the_sides_are_listed_with_what_a_reader_must_know(
    make_comparison: Make, make_side: MakeSide
) -> None:
    new = make_side("new", complete=False, runs_failed=2, boots=2, host={}, label="6.13")
    listed = tables(make_comparison(sides=(make_side(), new)))[0]
    machine = "Example CPU 9000, 4 CPUs, 2 nodes"
    runs = "5 clean + 5 instrumented, 1 boot"
    assert listed[0] == ["A base", "base.tar", "base", "6.12.0-base", machine, runs]
    runs = "5 clean + 5 instrumented + 2 failed, 2 boots; recording did not finish"
    assert listed[1] == ["B new", "new.tar", "6.13", "not known", "CPU not known", runs]


def make_difference(severity: Any, path: str, base: object = 1, new: object = 2) -> Difference:
    return Difference(
        path=path, side="new", base=base, new=new, severity=severity, reason=f"why {path}"
    )


def differing(*differences: Difference, comparable: bool = True) -> Comparability:
    return Comparability(comparable=comparable, compared=60, differences=differences)


def test_differences_are_listed_worst_first_and_ignored_ones_are_not(make_comparison: Make) -> None:
    found = differing(
        make_difference("noted", "system.hostname", "a", "b"),
        make_difference("ignored", "state.uptime_s"),
        make_difference("treatment", "kernel.release", base=None, new=True),
        make_difference("blocking", "cpufreq.governor", "performance", "powersave"),
        comparable=False,
    )
    comparison = make_comparison(comparability=found)
    assert tables(comparison)[1] == [
        ["blocking", "cpufreq.governor", "performance", "powersave", "why cpufreq.governor"],
        ["meant to differ", "kernel.release", "-", "yes", "why kernel.release"],
        ["noted", "system.hostname", "a", "b", "why system.hostname"],
    ]
    panel = comparable(comparison)
    assert (panel.caption, panel.tone) == ("comparable: NO", "bad")
    assert panel.aside == "60 fields compared; differences: 1 blocking, 1 meant to differ, 1 noted"


def test_where_no_field_is_known_nobody_is_called_comparable(make_comparison: Make) -> None:
    unknown = make_difference("noted", "machine", None, None)
    found = Comparability(comparable=True, compared=0, differences=(unknown,))
    comparison = make_comparison(comparability=found)
    assert comparable(comparison).caption == "comparable: not known"
    noted = item(comparison, "differs as well, which does not forbid it: ")
    assert noted.text.endswith(": machine (not known)")


def test_a_blocking_difference_says_what_to_do(make_comparison: Make) -> None:
    found = differing(
        make_difference("blocking", "cpufreq.governor", "performance", "powersave"),
        make_difference("blocking", "workload", "hackbench", "schbench"),
        comparable=False,
    )
    comparison = make_comparison(comparability=found)
    governor = item(
        comparison, "cpufreq.governor forbids it: performance in base, powersave in new"
    )
    assert governor.tone == "bad"
    assert governor.detail.endswith("or allow it: --allow cpufreq.governor")
    assert "--allow" not in item(comparison, "workload forbids it").detail


def test_of_many_blocking_differences_some_are_named(make_comparison: Make) -> None:
    found = differing(*(make_difference("blocking", f"cpu.x{n}") for n in range(9)))
    assert item(make_comparison(comparability=found), "5 more fields block").text


def test_what_was_meant_to_differ_is_named_with_short_values(make_comparison: Make) -> None:
    found = differing(
        make_difference("treatment", "kernel.version", "x" * 99, "y"),
        make_difference("treatment", "cgroup.depth", 0, 8),
        make_difference("noted", "tools.x", None, "1"),
    )
    comparison = make_comparison(comparability=found)
    texts = [block.text for block in verdict(comparison) if isinstance(block, Text)]
    assert texts[0].startswith(
        "B new differs from A base by: cgroup.depth 0 → 8, kernel.version; workloads hackbench -l "
    )
    assert texts[0].endswith(", 5 runs a side")
    assert item(comparison, "differs as well, which does not forbid it: tools.x - → 1").text


def test_another_kernel_is_named_once_and_sides_by_their_labels(
    make_comparison: Make, make_side: MakeSide
) -> None:
    found = differing(
        make_difference("treatment", "kernel.build_id", "a", "b"),
        make_difference("treatment", "kernel.release", "6.1-tip", "6.1-cluster"),
        make_difference("treatment", "kernel.version", "#1", "#2"),
    )
    sides = (make_side(label="tip"), make_side("new", label="cluster"))
    comparison = make_comparison(comparability=found, sides=sides, rows=())
    texts = [block.text for block in verdict(comparison) if isinstance(block, Text)]
    assert texts[0] == "B cluster differs from A tip by: kernel.release 6.1-tip → 6.1-cluster"
    assert headline(comparison).text.startswith("B cluster is ")
    assert " A tip: " in headline(comparison).text


def test_what_is_equal_is_listed_by_group(make_comparison: Make) -> None:
    equal = tables(make_comparison())[2]
    groups = {row[0]: row for row in equal}
    assert groups["cpu"][1:] == ["3", "model, count_online, microcode"]
    assert "hostname" not in str(groups.get("system"))


def test_nothing_that_was_meant_to_differ_is_a_warning(make_comparison: Make) -> None:
    comparison = make_comparison(comparability=differing())
    assert item(comparison, "nothing was meant to differ").tone == "warning"
    assert comparable(comparison).aside == "60 fields compared; differences: none"


def test_of_long_values_only_the_words_that_differ_are_shown(make_comparison: Make) -> None:
    same = " ".join(f"flag{number}" for number in range(40))
    found = differing(make_difference("noted", "cpu.flags", f"{same} avx", f"hle {same} amx"))
    row = tables(make_comparison(comparability=found))[1][0]
    assert row[2:4] == ["… (nothing) … avx …", "… hle … amx …"]


def test_enormous_values_are_not_compared_word_by_word(make_comparison: Make) -> None:
    texts = ("a b " * 5000, "b a " * 5000)
    found = differing(make_difference("noted", "x", *texts))
    row = tables(make_comparison(comparability=found))[1][0]
    assert tuple(row[2:4]) == texts


def test_sides_have_letters() -> None:
    assert [side_letter(name) for name in ("base", "new", "new2", "new25", "new26", "x")] == [
        "A", "B", "C", "Z", "?", "?",
    ]  # fmt: skip


def test_of_one_result_nothing_is_said_of_chance(make_comparison: Make, make_row: MakeRow) -> None:
    family = FamilySummary(
        family="primary", side="new", rows=1, tested=1, expected_false=0.05, verdicts={}
    )
    comparison = make_comparison(rows=(make_row(),), families=(family,))
    assert item(comparison, "1 result tested by").text == "1 result tested by Welch t on logs"


def test_a_drift_that_both_sides_share_is_a_warning_in_spite_of_turns(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = make_row(replication="rounds")
    base, new = (
        tuple(
            replace(one, order=2 * place + side, value=1.0 + 0.2 * place)
            for place, one in enumerate(values)
        )
        for side, values in enumerate((row.values_base, row.values_new))
    )
    both = replace(row, values_base=base, values_new=new)
    found = item(make_comparison(rows=(both,), caveats=()), "interleaved")
    assert found.tone == "warning"
    assert "later half" in found.text
    assert found.text.count(" +") == 2
    one_side = replace(row, values_base=base)
    assert item(make_comparison(rows=(one_side,), caveats=()), "interleaved").tone == "plain"


@pytest.mark.parametrize(("number", "tone"), [(2, "warning"), (3, "plain")])
def test_few_boots_are_a_warning(
    make_comparison: Make, make_row: MakeRow, number: int, tone: str
) -> None:
    row = make_row(replication="boots", n_base=number, n_new=number)
    assert item(make_comparison(rows=(row,)), f"{number} boots a side").tone == tone


def test_the_grounds_of_an_emulation_are_not_in_the_headline(make_comparison: Make) -> None:
    caveats = (caveat("emulated", how="psci (v1.0), not KVM's"),)
    why = "no result can decide: measured under emulation (psci (v1.0), not KVM's)"
    comparison = make_comparison(rows=(), overall=overall("inconclusive", why), caveats=caveats)
    assert headline(comparison).text == (
        "B new is undecided against A base: measured under emulation, so no result can decide"
    )
    assert item(comparison, "measured under emulation (psci").tone == "warning"


def test_options_of_the_kernel_that_differ_are_named(make_comparison: Make) -> None:
    options = tuple(
        OptionDifference(side="new", name=f"CONFIG_{name}", base=None, new="y") for name in "ABCDE"
    )
    found = Comparability(comparable=True, compared=1, differences=(), options=options)
    text = item(make_comparison(comparability=found), "5 options of the kernel's").text
    assert text.endswith(": CONFIG_A n → y, CONFIG_B n → y, CONFIG_C n → y, CONFIG_D n → y, 1 more")
