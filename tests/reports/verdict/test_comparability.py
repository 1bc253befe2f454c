# SPDX-License-Identifier: GPL-2.0-or-later
"""Sides, and what differs between them: meant, noted, or forbidding a comparison."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sides import Comparability, Difference, OptionDifference, SideSummary
from schedperf_reports.blocks import Block, Headline, Item, Table, Text
from schedperf_reports.formats import Options, all_formats
from schedperf_reports.formats.html import html
from schedperf_reports.formats.text import text
from schedperf_reports.graphics.panels import Fold, Panel, Panels
from schedperf_reports.verdict.comparable import MOST_DEFAULTS, describe_treatments
from schedperf_reports.verdict.environment import environment
from schedperf_reports.verdict.evidence import evidence
from schedperf_reports.verdict.verdict import verdict
from tests.reports.comparison_records import make_host, overall_of

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
MakeSide = Callable[..., SideSummary]
HeadlineOf = Callable[[Comparison], Headline]
BlocksOf = Callable[[Comparison], list[Block]]
ItemOf = Callable[[Comparison, str], Item]
TablesOf = Callable[[Comparison], list[list[list[str]]]]


@pytest.fixture
def tables(described: BlocksOf) -> TablesOf:
    """Return the texts of the cells of each table."""
    return lambda comparison: [
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


def make_difference(severity: Any, path: str, base: object = 1, new: object = 2) -> Difference:
    return Difference(
        path=path, side="new", base=base, new=new, severity=severity, reason=f"why {path}"
    )


def differing(*differences: Difference, comparable: bool = True) -> Comparability:
    return Comparability(comparable=comparable, compared=60, differences=differences)


def test_the_sides_are_listed_with_what_a_reader_must_know(
    make_comparison: Make, make_side: MakeSide, tables: TablesOf
) -> None:
    new = make_side("new", complete=False, runs_failed=2, boots=2, host={}, label="6.13")
    listed = tables(make_comparison(sides=(make_side(), new)))[0]
    machine = "Example CPU 9000, 4 CPUs, 2 nodes"
    runs = "5 clean + 5 instrumented, 1 boot"
    assert listed[0] == ["base", "base.tar", "base", "6.12.0-base", machine, runs]
    runs = "5 clean + 5 instrumented + 2 failed, 2 boots; incomplete recording"
    assert listed[1] == ["new", "new.tar", "6.13", "unknown", "CPU unknown", runs]


def test_differences_are_listed_worst_first_and_ignored_ones_are_not(
    make_comparison: Make, tables: TablesOf
) -> None:
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
        ["expected", "kernel.release", "-", "yes", "why kernel.release"],
        ["noted", "system.hostname", "a", "b", "why system.hostname"],
    ]
    panel = comparable(comparison)
    assert (panel.caption, panel.tone) == ("comparable: NO", "bad")
    assert panel.aside == "60 fields compared; differences: 1 blocking, 1 expected, 1 noted"


def test_where_no_field_is_known_nobody_is_called_comparable(
    make_comparison: Make, make_side: MakeSide
) -> None:
    unknown = make_difference("noted", "machine", None, None)
    found = Comparability(comparable=True, compared=0, differences=(unknown,))
    sides = (make_side(host={}), make_side("new", host={}))
    comparison = make_comparison(comparability=found, sides=sides)
    panel = comparable(comparison)
    assert (panel.caption, panel.aside) == ("comparable: unknown", "why machine")
    [fold] = panel.blocks
    assert isinstance(fold, Fold)
    assert fold.caption == "sides"
    [table] = [block for block in fold.blocks if isinstance(block, Table)]
    assert table.caption == "2 sides compared"
    assert [column.title for column in table.columns] == ["side", "bundle", "runs"]
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_what_one_side_alone_says_of_its_machine_is_shown(
    make_comparison: Make, make_side: MakeSide, tables: TablesOf
) -> None:
    unknown = make_difference("noted", "host.json", None, None)
    found = Comparability(comparable=True, compared=0, differences=(unknown,))
    sides = (make_side(), make_side("new", host={}))
    comparison = make_comparison(comparability=found, sides=sides)
    assert comparable(comparison).aside == "why host.json"
    assert tables(comparison)[0][1][2:4] == ["unknown", "CPU unknown"]


def test_a_side_without_a_machine_beside_others_is_named(
    make_comparison: Make, item: ItemOf
) -> None:
    comparison = make_comparison(
        comparability=differing(make_difference("noted", "host.json", None, None))
    )
    noted = item(comparison, "other differences (allowed): ")
    assert noted.text.endswith(": host.json (unknown)")


def test_a_blocking_difference_says_what_to_do(make_comparison: Make, item: ItemOf) -> None:
    found = differing(
        make_difference("blocking", "cpufreq.governor", "performance", "powersave"),
        make_difference("blocking", "workload", "hackbench", "schbench"),
        make_difference("blocking", "load", None, "stress-ng"),
        comparable=False,
    )
    comparison = make_comparison(comparability=found)
    assert item(comparison, "load differs: base none, new stress-ng").tone == "bad"
    governor = item(comparison, "cpufreq.governor differs: base performance, new powersave")
    assert governor.tone == "bad"
    assert governor.detail.endswith(
        "record again with equal values, or use --allow cpufreq.governor"
    )
    workloads = item(comparison, "workloads differ: base hackbench, new schbench")
    assert workloads.detail.endswith("; record the same one")


def test_of_many_blocking_differences_some_are_named(make_comparison: Make, item: ItemOf) -> None:
    found = differing(*(make_difference("blocking", f"cpu.x{n}") for n in range(9)))
    more = item(make_comparison(comparability=found), "5 more")
    assert (more.text, more.tone) == ("5 more fields with blocking differences", "bad")
    assert more.evidence == ("environment",)
    found = differing(*(make_difference("blocking", f"cpu.x{n}") for n in range(5)))
    assert (
        item(make_comparison(comparability=found), "1 more").text
        == "1 more field with blocking differences"
    )


def test_the_fields_that_are_not_named_are_found(make_comparison: Make) -> None:
    differences = [make_difference("blocking", f"cpu.x{n}") for n in range(9)]
    comparison = make_comparison(
        comparability=differing(*differences, comparable=False),
        overall=overall_of("invalid", "cpu.x0 differs", 4),
    )
    options = Options(width=78, colour=False)
    assert "  - 5 more fields with blocking differences (see --all)\n" in text(comparison, options)
    page = html(comparison, options)
    assert re.search(
        r'>5 more fields with blocking differences</span><a [^>]*href="#environment"', page
    )
    assert 'id="environment"' in page
    assert all(one.path in page for one in differences)


def test_what_was_meant_to_differ_is_named_with_short_values(
    make_comparison: Make, item: ItemOf
) -> None:
    found = differing(
        make_difference("treatment", "kernel.version", "x" * 99, "y"),
        make_difference("treatment", "cgroup.depth", 0, 8),
        make_difference("noted", "tools.x", None, "1"),
    )
    comparison = make_comparison(comparability=found)
    texts = [block.text for block in verdict(comparison) if isinstance(block, Text)]
    assert texts[0].startswith(
        "new differs from base: cgroup.depth 0 → 8, kernel.version; workloads hackbench -l "
    )
    assert texts[0].endswith(", 5 runs per side")
    assert item(comparison, "other differences (allowed): tools.x - → 1").text


def test_another_kernel_is_named_once_and_sides_by_their_labels(
    make_comparison: Make, make_side: MakeSide, make_row: MakeRow, headline: HeadlineOf
) -> None:
    found = differing(
        make_difference("treatment", "kernel.build_id", "a", "b"),
        make_difference("treatment", "kernel.release", "6.1-tip", "6.1-cluster"),
        make_difference("treatment", "kernel.version", "#1", "#2"),
    )
    sides = (make_side(label="tip"), make_side("new", label="cluster"))
    comparison = make_comparison(comparability=found, sides=sides, rows=())
    texts = [block.text for block in verdict(comparison) if isinstance(block, Text)]
    assert texts[0] == "cluster differs from tip: kernel.release 6.1-tip → 6.1-cluster"
    third = make_side("new2", label="numa", digest="f" * 64)
    row = make_row(family="primary")
    several = make_comparison(comparability=found, sides=(*sides, third), rows=(row,))
    assert headline(several).text.startswith("cluster (new): hackbench time")


def test_what_is_equal_is_listed_by_group(make_comparison: Make, tables: TablesOf) -> None:
    equal = ("cpu.model", "kernel.cmdline.quiet", "cpu.microcode")
    comparability = Comparability(comparable=True, compared=3, differences=(), equal=equal)
    rows = tables(make_comparison(comparability=comparability))[-1]
    assert [list(row) for row in rows] == [
        ["cpu", "2", "model, microcode"],
        ["kernel", "1", "cmdline.quiet"],
    ]


def test_nothing_that_was_meant_to_differ_is_a_warning(
    make_comparison: Make, item: ItemOf, tables: TablesOf
) -> None:
    comparison = make_comparison(comparability=differing())
    assert (
        item(comparison, "A/A comparison: same kernel, no intended difference declared").tone
        == "warning"
    )
    panel = comparable(comparison)
    assert (panel.caption, panel.tone) == ("comparable: yes", "plain")
    assert panel.aside == "60 fields compared; differences: none"
    # The first column of differences says how severe each is.
    severities = {"blocking", "expected", "noted"}
    assert not [row for table in tables(comparison) for row in table if row[0] in severities]


def test_sides_without_a_kernel_are_no_comparison_of_the_same_kernel(
    make_comparison: Make, item: ItemOf
) -> None:
    sides = [
        replace(side, host=make_host(kernel={"release": None})) for side in make_comparison().sides
    ]
    comparison = make_comparison(comparability=differing(), sides=tuple(sides))
    text = "kernel not recorded, no intended difference declared"
    assert item(comparison, text).tone == "warning"


def test_of_long_values_only_the_words_that_differ_are_shown(
    make_comparison: Make, tables: TablesOf
) -> None:
    same = " ".join(f"flag{number}" for number in range(40))
    found = differing(make_difference("noted", "cpu.flags", f"{same} avx", f"hle {same} amx"))
    row = tables(make_comparison(comparability=found))[1][0]
    assert row[2:4] == ["… (nothing) … avx …", "… hle … amx …"]


def test_enormous_values_are_not_compared_word_by_word(
    make_comparison: Make, tables: TablesOf
) -> None:
    texts = ("a b " * 5000, "b a " * 5000)
    found = differing(make_difference("noted", "x", *texts))
    row = tables(make_comparison(comparability=found))[1][0]
    assert tuple(row[2:4]) == texts


def test_options_of_the_kernel_that_differ_are_named(make_comparison: Make, item: ItemOf) -> None:
    options = tuple(
        OptionDifference(side="new", name=f"CONFIG_{name}", base=None, new="y") for name in "ABCDE"
    )
    found = Comparability(comparable=True, compared=1, differences=(), options=options)
    text = item(make_comparison(comparability=found), "5 kernel config options differ: ").text
    assert text.endswith(
        ": CONFIG_A n → y, CONFIG_B n → y, CONFIG_C n → y, CONFIG_D n → y and 1 more"
    )


@pytest.fixture
def two_kernels() -> Comparability:
    """Return what differs between two kernels: releases, and defaults of the scheduler."""
    differences = (
        make_difference("treatment", "kernel.release", "6.12", "6.18"),
        *(
            replace(make_difference("treatment", path, *values), origin="unknown")
            for path, values in (
                ("sched.features.PLACE_LAG", (None, True)),
                ("sched.base_slice_ns", (3000000, 2800000)),
                ("sched.preempt", ("voluntary", "lazy")),
            )
        ),
    )
    return differing(*differences)


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_defaults_that_the_kernels_changed_are_in_the_second_line(
    make_comparison: Make, two_kernels: Comparability, form: str
) -> None:
    comparison = make_comparison(comparability=two_kernels)
    printed = all_formats()[form].render(comparison, Options(width=10_000, colour=False))
    plain = printed.replace("\\", "").replace("`", "")
    sentence = (
        "new differs from base: kernel.release 6.12 → 6.18; part of the change: "
        "sched.preempt voluntary → lazy, sched.base_slice_ns 3000000 → 2800000, "
        "sched.features.PLACE_LAG - → yes"
    )
    if form == "html":
        assert sentence in printed
    else:
        # Markdown has blank lines between, and the kernels and digests above.
        lines = [line.strip() for line in plain.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("- base:", "- new:"))]
        assert lines[1].startswith(sentence)


def test_the_record_names_them_too(make_comparison: Make, two_kernels: Comparability) -> None:
    printed = all_formats()["json"].render(
        make_comparison(comparability=two_kernels), Options(width=78, colour=False)
    )
    record = json.loads(printed)["comparability"]
    assert record["part_of_change"] == [
        "sched.features.PLACE_LAG", "sched.base_slice_ns", "sched.preempt",
    ]  # fmt: skip
    assert [each["origin"] for each in record["differences"]] == [None] + ["unknown"] * 3


def test_what_nobody_recorded_is_said(
    make_comparison: Make, two_kernels: Comparability, item: ItemOf
) -> None:
    comparison = make_comparison(comparability=two_kernels)
    said = item(comparison, "unknown whether an administrator")
    assert said.text.endswith("set sched.preempt, sched.base_slice_ns, sched.features.PLACE_LAG")
    known = tuple(
        replace(each, origin=each.origin and "kernel") for each in two_kernels.differences
    )
    found = comparable(make_comparison(comparability=replace(two_kernels, differences=known)))
    assert "unknown whether an administrator" not in str(found)
    assert found.aside == "60 fields compared; differences: 1 expected, 3 part of the change"


def test_many_defaults_are_counted(make_comparison: Make) -> None:
    many = (
        replace(make_difference("treatment", f"sched.features.F{n}"), origin="kernel")
        for n in range(MOST_DEFAULTS + 5)
    )
    [sentence] = describe_treatments(make_comparison(comparability=differing(*many)))
    assert sentence.endswith(" and 5 more")


def test_a_setup_is_what_differs(make_comparison: Make) -> None:
    short, long = ("renice -n 5 -p $$", "echo 1 >/proc/sys/kernel/x && " * 4)
    for setup, expected in ((short, "setup none → renice -n 5 -p $$"), (long, "setup")):
        found = differing(make_difference("treatment", "setup", None, setup))
        [sentence] = describe_treatments(make_comparison(comparability=found))
        assert sentence == f"new differs from base: {expected}"
        assert "A/A" not in str(comparable(make_comparison(comparability=found)))


def test_options_of_the_scheduler_come_first_and_those_of_tools_apart(
    make_comparison: Make, item: ItemOf
) -> None:
    names = {"CONFIG_AAA": False, "CONFIG_CC_VERSION_TEXT": True, "CONFIG_PREEMPT_LAZY": False}
    options = tuple(
        OptionDifference(side="new", name=name, base=None, new="y", toolchain=toolchain)
        for name, toolchain in names.items()
    )
    found = Comparability(comparable=True, compared=1, differences=(), options=options)
    comparison = make_comparison(comparability=found)
    assert item(comparison, "2 kernel config options differ: ").text.endswith(
        ": CONFIG_PREEMPT_LAZY n → y, CONFIG_AAA n → y"
    )
    captions = [block.caption for block in environment(comparison) if isinstance(block, Fold)]
    assert captions == [
        "2 kernel config options differ: CONFIG_PREEMPT_LAZY, CONFIG_AAA",
        "1 kernel config option of the toolchain and the build differs: CONFIG_CC_VERSION_TEXT",
    ]


def test_configurations_that_differ_in_unknown_options_are_said_to(
    make_comparison: Make, item: ItemOf
) -> None:
    found = differing(make_difference("noted", "kernel.config_sha256", "c0", "d1"))
    text = item(make_comparison(comparability=found), "the kernel configurations differ").text
    assert text == "the kernel configurations differ, but not all bundles contain the options"


def test_options_of_several_kernels_name_the_kernel(
    make_comparison: Make, make_side: Callable[..., SideSummary]
) -> None:
    options = tuple(
        OptionDifference(side=side, name="CONFIG_HZ", base="250", new=value, toolchain=False)
        for side, value in (("new", "1000"), ("new2", "300"))
    )
    found = Comparability(comparable=True, compared=1, differences=(), options=options)
    sides = (make_side(), make_side("new"), make_side("new2"))
    comparison = make_comparison(comparability=found, sides=sides)
    captions = [block.caption for block in environment(comparison) if isinstance(block, Fold)]
    rest = "1 kernel config option differs: CONFIG_HZ"
    assert captions == [f"new: {rest}", f"new2: {rest}"]
    assert f"new2: {rest} 250 → 300" in str(comparable(comparison))
