# SPDX-License-Identifier: GPL-2.0-or-later
"""The plain text for a mailing list: ASCII, 72 columns, all numbers with their basis."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from schedperf.evidence.energy.record import Energy, EnergySide
from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sections import Section
from schedperf.model.sides import Recording, SideSummary
from schedperf_reports.formats import Options
from schedperf_reports.formats.lkml import WIDTH, lkml
from tests.energy_records import energy_row

Make = Callable[..., Comparison]

HOSTILE = (
    "\x1b[31mred\u202e",
    "a→b±c µs \N{MULTIPLICATION SIGN} ≥ \N{EN DASH} “x” \N{NO-BREAK SPACE}",
    "ß Łódź 北京",
    "word " * 100,
    "w" * 300,
    "From here\n.\nSubject: x",
)


def draw(comparison: Comparison) -> str:
    return lkml(comparison, Options(width=200, colour=True))


def test_text_is_ascii_of_at_most_72_columns(make_comparison: Make) -> None:
    text = draw(make_comparison())
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_of_a_bundle_breaks_the_form(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison], hostile: str
) -> None:
    comparison = replace(replace_texts(make_comparison(), hostile), command=("schedperf",))
    text = draw(comparison)
    assert text.isascii()
    assert text.isprintable() or set(re.sub("[ -~]", "", text)) == {"\n"}
    assert max(map(len, text.splitlines())) <= WIDTH
    # A line of a mail file that begins so begins another mail.
    assert not re.search("^From ", text, re.MULTILINE)


def test_readers_without_the_files_get_the_commands_that_recorded_them(
    make_comparison: Make,
) -> None:
    comparison = replace(make_comparison(), command=("schedperf", "compare", "a.tar", "b.tar"))
    bare = [replace(side, recordings=()) for side in comparison.sides]
    _, _, commands = draw(replace(comparison, sides=tuple(bare))).partition("- compare with:\n")
    assert commands.split("\n\n")[0].strip() == "schedperf compare a.tar b.tar"
    words = ("schedperf", "ab", "-o", "x", "--setup", "a=echo 1\n\x1b[2J", "--", "hackbench")
    long = ("schedperf", "record", "x" * 2000)
    recordings = tuple(
        Recording(command=command, minutes=None, programs=()) for command in (words, long)
    )
    sides = tuple(replace(side, recordings=recordings) for side in bare)
    text = draw(replace(comparison, sides=sides))
    _, _, commands = text.partition("- record and compare with:\n")
    # A shell reads a command of several lines as one.
    lines = re.sub(r" \\\n *", " ", commands).splitlines()
    first, second, last = (line.strip() for line in lines[:3])
    assert first == "schedperf ab -o x --setup 'a=echo 1 [2J' -- hackbench"
    assert second.startswith("schedperf record xxx")
    assert second.endswith("xxx...")
    assert len(second) < 998
    assert last == "schedperf compare a.tar b.tar"


def test_a_result_has_values_deviation_change_interval_and_n(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    row = make_row(
        metric="hackbench time",
        point="groups=16",
        unit="s",
        base=1.737,
        new=2.117,
        ratio=2.117 / 1.737,
        ci_low=1.161,
        ci_high=1.279,
        n_base=8,
        n_new=8,
        replication="rounds",
    )
    text = draw(make_comparison(rows=(row,)))
    line = " hackbench -g 16  1.737s +-1%  2.117s +-1%  +21.9% [+16.1%, +27.9%] n=8"
    assert line in text.splitlines()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "hackbench -g 4"),
        ({"point": ""}, "hackbench time"),
        ({"workload": "perf bench sched pipe -l {loops}", "point": "loops=9"}, "perf -l 9"),
        ({"workload": "/usr/bin/x --n={n} -t {t}", "point": "n=1,t=2"}, "x --n=1 -t 2"),
        ({"workload": "make", "point": "n=1"}, "hackbench time at n=1"),
        ({"workload": "", "point": "n=1"}, "hackbench time at n=1"),
    ],
)
def test_a_result_is_named_by_its_command_where_parameters_tell_it_apart(
    make_comparison: Make, make_row: Callable[..., Row], changes: dict[str, str], name: str
) -> None:
    text = draw(make_comparison(rows=(make_row(**changes),)))
    results = text.partition("change [95% CI]\n")[2]
    assert results.splitlines()[0].partition("  ")[0].strip() == name


def test_metrics_of_one_command_are_told_apart(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    rows = tuple(make_row(metric=metric) for metric in ("time", "rate"))
    results = draw(make_comparison(rows=rows)).partition("change [95% CI]\n")[2]
    names = [line.split("  ")[0].strip() for line in results.splitlines()[:2]]
    assert names == ["time at groups=4", "rate at groups=4"]


def test_a_result_that_is_wider_than_a_line_has_its_name_above_it(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    row = make_row(metric="a name of some length that needs a line", point="")
    results = draw(make_comparison(rows=(row,))).partition("change [95% CI]\n")[2]
    first, second = results.splitlines()[:2]
    assert first == " a name of some length that needs a line"
    assert second.endswith("n=5+5")


def test_published_means_have_no_deviation(
    make_comparison: Make, make_row: Callable[..., Row]
) -> None:
    row = make_row(values_base=(), values_new=())
    assert "+-" not in draw(make_comparison(rows=(row,))).partition("change [95% CI]")[2]


def test_one_run_has_no_deviation(make_comparison: Make, make_row: Callable[..., Row]) -> None:
    row = make_row()
    single = make_row(values_base=row.values_base[:1], values_new=row.values_new[:1])
    results = draw(make_comparison(rows=(single,))).partition("change [95% CI]")[2]
    assert "+-" not in results.partition("\n\n")[0]


def test_several_sides_are_columns(
    make_comparison: Make, make_row: Callable[..., Row], make_side: Callable[..., SideSummary]
) -> None:
    labels = ("cluster", "repair", "align_first (Patch 1)", "per_cpu")
    sides = (make_side(label="tip"), *(
        make_side(f"new{number}" if number > 1 else "new", label=label)
        for number, label in enumerate(labels, 1)
    ))  # fmt: skip
    rows = tuple(
        make_row(side=side.name, metric="time", point=f"groups={groups}")
        for side in sides[1:]
        for groups in (1, 16)
    )
    text = draw(make_comparison(sides=sides, rows=rows))
    assert max(map(len, text.splitlines())) <= WIDTH
    heads = [line.split() for line in text.splitlines() if line.startswith(" result")]
    # Each part begins with the result and base.
    assert heads == [["result", "tip", *names] for names in (
        ("cluster", "repair"), ("align_first", "per_cpu"),
    )]  # fmt: skip
    for point in ("groups=1", "groups=16"):
        lines = [line for line in text.splitlines() if line.split()[:1] == [point]]
        assert len(lines) == len(heads)


def test_recordings_are_named_by_digest(make_comparison: Make) -> None:
    comparison = make_comparison()
    text = " ".join(draw(comparison).split())
    for side in comparison.sides:
        assert f"data {side.digest[:16]}" in text


def test_rates_of_a_mail_have_one_denominator(make_comparison: Make) -> None:
    rows = tuple(
        energy_row(row=f"new-{domain}-{basis}", domain=domain, basis=basis, unit=unit)
        for domain in ("package-0", "package-1")
        for basis, unit in (("time", "W"), ("share", "J/run"), ("operation", "J/message"))
    )
    sides = tuple(EnergySide(side=side, runs=5, kind="clean") for side in ("base", "new"))
    data = Energy(sides=sides, rows=rows, zeros=(), missing=(), notes=())
    text = draw(make_comparison(sections={"energy": Section.of(data)}))
    assert len(re.findall(r"^  package-\d energy .* mJ ", text, re.MULTILINE)) == 2
    assert len(re.findall(r"\bper message\b", " ".join(text.split()))) == 1


def test_runs_without_a_result_are_counted(make_comparison: Make) -> None:
    caveats = (
        caveat("discarded-runs", discarded=2, total=8, side="new", reason="scx_a was ejected"),
        caveat("failed-runs", failed=1, total=8, side="new"),
        caveat("one-boot", side="new"),
    )
    text = " ".join(draw(make_comparison(caveats=caveats)).split())
    assert "- 2 of 8 runs of new discarded: scx_a was ejected" in text
    assert "- 1 of 8 runs of new failed; failed runs are excluded" in text
    assert "boot-to-boot" not in text


def test_effects_that_cannot_explain_the_result_stand_apart_from_reasons(
    make_comparison: Make,
) -> None:
    comparison = make_comparison()
    effect = replace(comparison.findings[0], clause="energy per message", bearing="effect")
    text = draw(replace(comparison, findings=(*comparison.findings, effect)))
    assert "other effects of the change, not used for the verdict:" in text
    assert text.index("causation not shown") < text.index("energy per message")
    alone = draw(replace(comparison, findings=(effect,)))
    assert "\nFindings\n" in alone
    assert "\nReasons\n" not in alone
