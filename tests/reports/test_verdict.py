from collections.abc import Callable
from typing import Any

import pytest

from schedperf.caveats import caveat
from schedperf.model import Comparability, Comparison, Difference, Overall, Row, SideSummary
from schedperf_reports._words import describe_change, merge_sides, side_letter
from schedperf_reports.blocks import Block, Headline, Table, Text
from schedperf_reports.sections.verdict import verdict

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def headline(comparison: Comparison) -> Headline:
    block = next(iter(verdict(comparison)))
    assert isinstance(block, Headline)
    return block


def tables(blocks: list[Block]) -> list[list[list[str]]]:
    return [
        [[cell.text for cell in row] for row in block.rows]
        for block in blocks
        if isinstance(block, Table)
    ]


def overall(word: Any, reason: str = "because") -> Overall:
    return Overall(verdict=word, reason=reason, exit_status=0)


def test_a_regression_is_one_sentence_with_number_interval_and_n(make_comparison: Make) -> None:
    assert headline(make_comparison()) == Headline(
        word="regression (this boot only)",
        text="hackbench time at groups=4 is 37.2 % slower "
        "(95 % interval 35.0 % to 39.5 %, 5+5 runs)",
        tone="bad",
    )


def test_of_several_regressions_the_largest_is_named(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = tuple(
        make_row(point=f"groups={groups}", ratio=ratio) for groups, ratio in ((1, 1.1), (2, 1.3))
    )
    text = headline(make_comparison(rows=rows)).text
    assert text.startswith(
        "2 of 2 results are worse; the largest: hackbench time at groups=2 is 30"
    )


@pytest.mark.parametrize("word", ["no-change", "inconclusive", "invalid"])
def test_other_verdicts_say_the_reason_of_the_record(make_comparison: Make, word: Any) -> None:
    comparison = make_comparison(overall=overall(word, "same data"), caveats=())
    assert headline(comparison).text == "same data"
    assert headline(comparison).word == word


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
    make_comparison: Make, word: Any, shown: str
) -> None:
    caveats = (caveat("blocks"), caveat("one-boot", side="new"))
    assert headline(make_comparison(overall=overall(word), caveats=caveats)).word == shown
    several = make_comparison(overall=overall(word), caveats=caveats[:1])
    assert headline(several).word == word


def test_equal_bundles_are_called_the_same_data(
    make_comparison: Make, make_side: Callable[..., SideSummary]
) -> None:
    sides = (make_side("base", digest="d"), make_side("new", digest="d"))
    shown = headline(make_comparison(sides=sides, overall=overall("no-change")))
    assert shown.word == "no-change (same data)"
    assert shown.text == "the sides hold the same data; 5 results compared with themselves"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ratio": 1.2}, " is 20.0 % slower"),
        ({"ratio": 0.8}, " is 20.0 % faster"),
        ({"ratio": 0.8, "unit": "1/s", "better": "higher"}, " is 20.0 % lower, which is worse"),
        ({"ratio": 1.2, "unit": "1/s", "better": "higher"}, " is 20.0 % higher, which is better"),
        ({"ratio": 1.2, "unit": "B", "better": "lower"}, " is 20.0 % higher, which is worse"),
        ({"ratio": 1.2, "ci_low": None}, " is 20.0 % slower (5+5 runs)"),
        ({"ratio": None, "base": 0.0, "new": 0.004}, ": 0 before and 4 ms after (5+5 runs)"),
        (
            {"ratio": 1.2, "n_base": None, "n_new": None, "ci_low": None},
            " is 20.0 % slower (number",
        ),
        ({"ratio": 1.2, "ci_low": None, "n_base": None}, " is 20.0 % slower (?+5 runs)"),
        ({"ratio": 1.2, "ci_low": None, "replication": "boots"}, " is 20.0 % slower (5+5 boots)"),
        ({"ratio": 1.2, "ci_low": None, "replication": "rounds"}, " is 20.0 % slower (5 rounds)"),
        ({"ratio": None, "base": None, "new": 4.0}, ": - before and 4 s after (5+5 runs)"),
    ],
)
def test_words_know_the_direction(make_row: MakeRow, changes: dict[str, Any], words: str) -> None:
    assert describe_change(make_row(**changes)).startswith(words)


def test_a_sentence_names_the_side_where_there_are_several(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    comparison = make_comparison(
        sides=tuple(make_side(name) for name in ("base", "new", "new2")),
        rows=(make_row(side="new", ratio=1.1), make_row(side="new2", ratio=1.2)),
    )
    assert "hackbench time at groups=4 on new2 is 20.0 % slower" in headline(comparison).text


def test_rows_of_one_name_are_told_apart_by_their_command(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = (make_row(workload="hackbench -p", ratio=1.5), make_row(workload="hackbench -T"))
    assert (
        "hackbench time at groups=4 (hackbench -p) is" in headline(make_comparison(rows=rows)).text
    )


def test_the_sides_are_listed_with_what_a_reader_must_know(
    make_comparison: Make, make_side: Callable[..., SideSummary]
) -> None:
    new = make_side("new", complete=False, runs_failed=2, boots=2, host={})
    listed = tables(list(verdict(make_comparison(sides=(make_side(), new)))))[0]
    assert ["kernel", "6.12.0-base", "not known"] in listed
    assert ["machine", "Example CPU 9000, 4 CPUs, 2 nodes", "CPU not known"] in listed
    runs = "5 clean + 5 instrumented + 2 failed, 2 boots; recording did not finish"
    assert ["runs", "5 clean + 5 instrumented, 1 boot", runs] in listed


def test_what_is_equal_is_not_said_twice(make_comparison: Make) -> None:
    listed = tables(list(verdict(make_comparison())))[0]
    assert ["machine", "Example CPU 9000, 4 CPUs, 2 nodes", "same"] in listed
    assert "label" not in [row[0] for row in listed]


def test_one_result_is_counted_by_the_headline_alone(
    make_comparison: Make, make_row: MakeRow
) -> None:
    def counts(*rows: Row) -> list[str]:
        blocks = verdict(make_comparison(rows=rows))
        found = [block.text for block in blocks if isinstance(block, Text)]
        return [text for text in found if "primary result" in text]

    assert counts(make_row()) == []
    assert counts(make_row(), make_row()) == ["2 primary results: 2 regression"]


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


def make_difference(severity: Any, path: str, base: object = 1, new: object = 2) -> Difference:
    return Difference(
        path=path, side="new", base=base, new=new, severity=severity, reason=f"why {path}"
    )


def test_differences_are_listed_worst_first_and_ignored_ones_are_not(make_comparison: Make) -> None:
    found = Comparability(
        comparable=False,
        compared=60,
        differences=(
            make_difference("noted", "system.hostname", "a", "b"),
            make_difference("ignored", "state.uptime_s"),
            make_difference("treatment", "kernel.release", base=None, new=True),
            make_difference("blocking", "cpufreq.governor", "performance", "powersave"),
        ),
    )
    blocks = list(verdict(make_comparison(comparability=found)))
    assert tables(blocks)[1] == [
        ["blocking", "cpufreq.governor", "performance", "powersave", "why cpufreq.governor"],
        ["treatment", "kernel.release", "-", "yes", "why kernel.release"],
        ["noted", "system.hostname", "a", "b", "why system.hostname"],
    ]
    text = "comparable: NO (60 fields compared; differences: 1 blocking, 1 treatment, 1 noted)"
    assert Text(text=text, tone="bad") in blocks


def test_equal_machines_have_no_table_of_differences(make_comparison: Make) -> None:
    found = Comparability(comparable=True, compared=60, differences=())
    blocks = list(verdict(make_comparison(comparability=found)))
    assert Text(text="comparable: yes (60 fields compared; differences: none)") in blocks
    assert len(tables(blocks)) == 1


def test_of_long_values_only_the_words_that_differ_are_shown(make_comparison: Make) -> None:
    same = " ".join(f"flag{number}" for number in range(40))
    found = Comparability(
        comparable=True,
        compared=60,
        differences=(make_difference("noted", "cpu.flags", f"{same} avx", f"hle {same} amx"),),
    )
    row = tables(list(verdict(make_comparison(comparability=found))))[1][0]
    assert row[2:4] == ["… (nothing) … avx …", "… hle … amx …"]


def test_enormous_values_are_not_compared_word_by_word(make_comparison: Make) -> None:
    texts = ("a b " * 5000, "b a " * 5000)
    found = Comparability(
        comparable=True, compared=1, differences=(make_difference("noted", "x", *texts),)
    )
    row = tables(list(verdict(make_comparison(comparability=found))))[1][0]
    assert tuple(row[2:4]) == texts


def test_sides_have_letters() -> None:
    assert [side_letter(name) for name in ("base", "new", "new2", "new25", "new26", "x")] == [
        "A", "B", "C", "Z", "?", "?",
    ]  # fmt: skip
