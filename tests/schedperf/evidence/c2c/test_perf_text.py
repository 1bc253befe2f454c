# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of ``perf c2c report``: of the installed perf, of others, and damaged."""

import random
import re
import shutil
import subprocess

import pytest

from schedperf.evidence.c2c.perf_text import (
    LINES_TITLE,
    C2cText,
    is_c2c_text,
    parse_c2c_text,
    profile_of_text,
)
from schedperf.model.errors import InputError
from schedperf_generators.memory import scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data
from tests.shared_data import shared

TITLE = "Trace Event Information"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what the installed perf prints of a generated recording."""
    if shutil.which("perf") is None:
        pytest.skip("perf not installed; apt-get install linux-perf")
    path = tmp_path_factory.mktemp("c2c") / "perf.data"
    run = scheduler_run("base", numa=Numa(cpus=8, nodes=2))
    path.write_bytes(write_perf_data(run.perf_data()))
    return subprocess.run(
        ["perf", "c2c", "report", "-i", str(path), "--stdio", "-NN"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def sample(name: str) -> C2cText:
    return parse_c2c_text(shared(f"data/c2c/{name}").read_text(errors="replace"), name)


def test_all_parts_of_a_report_are_read(report: str) -> None:
    text = parse_c2c_text(report, "report")
    assert is_c2c_text(report[:4096])
    assert text.totals[TITLE, "Load Remote HITM"] > 0
    assert (TITLE, "LLC Misses to Local DRAM") not in text.totals
    assert text.events == ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P")
    assert text.sorted_on == "Total HITMs"
    assert text.damage == ()
    rows = [row for line in text.lines for row in line.rows]
    assert all(row.symbol for row in rows)


def test_numbers_of_offsets_are_the_shares_of_the_line(report: str) -> None:
    profile = profile_of_text(parse_c2c_text(report, "report"))
    hottest = profile.lines[0]
    assert sum(access.remote for access in hottest.accesses) == hottest.counts["rmt_hitm"] == 2600
    assert sum(access.writes for access in hottest.accesses) == hottest.counts["store"] == 1500
    assert hottest.sharing is None
    assert profile.period is None
    assert any("does not list reading and writing CPUs" in note for note in profile.notes)


def test_every_version_of_perf_says_the_same() -> None:
    texts = [
        sample(f"synthetic/c2c-{version}-new-NN.txt") for version in ("5.13", "5.15", "5.17", "6.1",
                                                                     "6.10")
    ]  # fmt: skip
    common = texts[0].lines[0].counts.keys()
    for text in texts:
        assert text.damage == ()
        assert [line.address for line in text.lines] == [line.address for line in texts[0].lines]
        for line, first in zip(text.lines, texts[0].lines, strict=True):
            assert {name: line.counts[name] for name in common} == first.counts
            assert [row.offset for row in line.rows] == [row.offset for row in first.rows]


@pytest.mark.parametrize(
    ("name", "lines", "rows", "damage"),
    [
        ("synthetic/c2c-6.1-arm-peer.txt", 17, 35, ()),
        ("synthetic/c2c-6.1-new-tidpid.txt", 17, 56, ()),
        ("synthetic/c2c-6.1-new-nosource-showall.txt", 306, 35, ()),
        ("synthetic/c2c-6.10-new-doublecl.txt", 17, 35, ()),
        ("synthetic/c2c-6.1-new-stats.txt", 0, 0, ()),
        ("joemario/c2c_example_report.out", 5, 28, ()),
        # A mail with the first rows only.
        (
            "lkml/arm-spe-peer-tables.txt", 1, 2,
            ("offsets are missing for 1 of 1 contended lines",),
        ),
    ],
)  # fmt: skip
def test_other_layouts_are_read_whole(
    name: str, lines: int, rows: int, damage: tuple[str, ...]
) -> None:
    text = sample(name)
    assert (len(text.lines), sum(len(line.rows) for line in text.lines)) == (lines, rows)
    assert text.damage == damage


def test_large_numbers_of_a_report_are_said_to_be_inexact() -> None:
    profile = profile_of_text(sample("joemario/c2c_example_report.out"))
    assert profile.lines[0].records == 149904
    assert any("are not exact" in note for note in profile.notes)
    double = profile_of_text(sample("synthetic/c2c-6.10-new-doublecl.txt"))
    assert double.line_bytes == 128
    peers = profile_of_text(sample("synthetic/c2c-6.1-arm-peer.txt"))
    assert peers.observable == "peer"


@pytest.mark.parametrize(
    ("name", "address", "records", "loads"),
    [
        ("synthetic/c2c-6.10-base-NN.txt", 0xFFFF88810A2C4100, 1494, 923),
        ("joemario/c2c_example_report.out", 0x602180, 149904, 40400),
    ],
)
def test_records_and_loads_of_a_line_are_perfs_columns(
    name: str, address: int, records: int, loads: int
) -> None:
    first = profile_of_text(sample(name)).lines[0]
    assert (first.address, first.records, first.counts["loads"]) == (address, records, loads)


def test_reads_of_offsets_are_known_where_perf_prints_records_by_offset() -> None:
    known = profile_of_text(sample("synthetic/c2c-6.10-base-NN.txt"))
    assert [(one.reads, one.writes) for one in known.lines[0].accesses] == [(923, 571)]
    unsaid = profile_of_text(sample("joemario/c2c_example_report.out"))
    assert {one.reads for line in unsaid.lines for one in line.accesses} == {None}
    assert any("loads per offset" in note for note in unsaid.notes)


def test_minus_nan_is_left_out(report: str) -> None:
    changed = report.replace("   0.00%", "   -nan%")
    assert changed != report
    text = parse_c2c_text(changed, "report")
    assert text.damage == ()
    shares = [part for line in text.lines for row in line.rows for part in row.shares.values()]
    assert all(part > 0 for part in shares)


def test_rows_that_do_not_fit_their_columns_are_counted(report: str) -> None:
    at = report.index("Shared Data Cache Line Table")
    changed = report[:at] + report[at:].replace("  0xffff", "  0yffff", 1)
    first = parse_c2c_text(report, "report").lines
    text = parse_c2c_text(changed, "report")
    assert text.damage == (
        (
            "1 row(s) of the table of cache lines are left out, because their values do not fit "
            "the columns"
        ),
    )
    # The offsets of the other lines stay theirs.
    assert text.lines == first[1:]


@pytest.mark.parametrize("prefix", ["    ", "\t", "> ", ">", "> > ", ">> ", "| "])
@pytest.mark.parametrize("before", ["", "On Mon, somebody wrote:\n\n" + "words\n" * 1000])
def test_quoted_and_indented_reports_are_read_as_printed(
    prefix: str, before: str, report: str
) -> None:
    quoted = before + "".join(f"{prefix}{line}".rstrip() + "\n" for line in report.splitlines())
    assert is_c2c_text(quoted)
    assert parse_c2c_text(quoted, "mail") == parse_c2c_text(report, "report")


@pytest.mark.parametrize("prefix", ["", "    ", "\t", "> ", ">", "> > ", "| "])
def test_numbered_lines_may_be_quoted_too(prefix: str, report: str) -> None:
    # As cat -n prints them.
    rows = (f"{number:6}\t{line}" for number, line in enumerate(report.splitlines(), 1))
    quoted = "".join(f"{prefix}{row}".rstrip() + "\n" for row in rows)
    assert parse_c2c_text(quoted, "mail") == parse_c2c_text(report, "report")


@pytest.mark.parametrize("width", range(60, 260, 7))
def test_lines_that_are_cut_give_no_wrong_count(width: int, report: str) -> None:
    whole = parse_c2c_text(report, "report")
    cut = parse_c2c_text("".join(f"{line[:width]}\n" for line in report.splitlines()), "cut")
    by_address = {line.address: line for line in whole.lines}
    for line in cut.lines:
        assert line.counts.items() <= by_address[line.address].counts.items()
    assert len(cut.lines) in {0, len(whole.lines)}
    assert cut.damage or cut.lines == whole.lines
    assert_no_wrong_details(cut, whole)
    if not cut.lines:
        assert any(
            f"{len(whole.lines)} row(s) of the table of cache lines are left out, because they lack"
            in each
            for each in cut.damage
        )


def assert_no_wrong_details(cut: C2cText, whole: C2cText) -> None:
    """Check that totals, events and vendor are those of the whole report, or left out."""
    assert cut.totals in ({}, whole.totals)
    assert cut.events == () or len(cut.events) == len(whole.events)
    # Nothing marks the end of the modifiers.
    assert all(
        event.startswith(seen) and seen.count("/") == event.count("/")
        for seen, event in zip(cut.events, whole.events, strict=False)
    )
    ours, theirs = profile_of_text(cut), profile_of_text(whole)
    assert (ours.ldlat, ours.observable) in {(theirs.ldlat, theirs.observable), (None, "unknown")}
    if not cut.totals or not cut.events:
        assert any("left out" in each for each in cut.damage)


@pytest.mark.parametrize("width", range(40, 63))
def test_totals_that_are_cut_are_left_out_and_said(width: int, report: str) -> None:
    # As perf c2c report --stats prints it.
    stats = report[: report.index("=" * 20, report.index("Cachelines sort on"))].rstrip() + "\n"
    whole = parse_c2c_text(stats, "report")
    assert (whole.damage, whole.lines) == ((), ())
    cut = parse_c2c_text("".join(f"{line[:width]}\n" for line in stats.splitlines()), "cut")
    assert_no_wrong_details(cut, whole)
    assert bool(cut.totals) == (width >= 49)
    if width < 49:
        assert any(f"the lines are cut at column {width} " in each for each in cut.damage)


def test_the_last_total_of_a_text_that_ends_in_it_is_left_out(report: str) -> None:
    title = "Load Remote HITM"
    row = next(line for line in report.splitlines() if title in line)
    end = report.index(row) + len(row)
    assert (TITLE, title) in parse_c2c_text(report[: end + 1], "whole").totals
    for cut in (end, end - 1):
        assert (TITLE, title) not in parse_c2c_text(report[:cut], "cut").totals


def test_rulers_of_a_mail_are_no_cut_lines(report: str) -> None:
    mail = f"{'=' * 30}\nMeasurements\n{'=' * 30}\n\n{report}"
    assert parse_c2c_text(mail, "mail") == parse_c2c_text(report, "report")


def test_events_of_user_space_are_said_not_to_count_the_kernel(report: str) -> None:
    def said(text: str) -> list[str]:
        notes = profile_of_text(parse_c2c_text(text, "report")).notes
        return [note for note in notes if "count the kernel" in note]

    assert said(report.replace("cpu/mem-stores/P", "dummy:u")) == []
    assert said(report.replace("ldlat=30/P", "ldlat=30/Pu")) == [
        (
            "cpu/mem-loads,ldlat=30/Pu does not count the kernel, so contention in the kernel is "
            "not measured"
        )
    ]


@pytest.mark.parametrize("width", [72, 76, 80, 100])
def test_wrapped_lines_are_left_out_with_their_number(width: int, report: str) -> None:
    wrapped = "\n".join(
        line[start : start + width]
        for line in report.splitlines()
        for start in range(0, max(len(line), 1), width)
    )
    text = parse_c2c_text(wrapped, "mail")
    assert not text.lines
    assert re.search(
        r"[0-9]+ row\(s\) of the table of cache lines are left out, because they lack ",
        str(text.damage),
    )


def test_a_report_that_ends_early_is_damaged_or_refused(report: str) -> None:
    lines = report.rstrip().splitlines(keepends=True)
    titles = [number for number, line in enumerate(lines) if line.strip() == LINES_TITLE]
    for end in range(len(lines)):
        try:
            text = parse_c2c_text("".join(lines[:end]), "report")
        except InputError:
            continue
        # What ends in front of the table of cache lines is a complete report of --stats.
        if not titles[0] - 3 < end <= titles[0] + 3:
            assert text.damage, f"cut behind line {end}: {lines[end - 1]!r}"


def test_without_its_details_a_report_does_not_name_the_vendor(report: str) -> None:
    at = report.index("=" * 20, report.index("Global Shared"))
    at = report.index("=" * 20, at + 60)
    table = report.index("=" * 20, report.index("Cachelines sort on"))
    text = parse_c2c_text(report[:at] + report[table:], "report")
    assert (text.events, text.damage) == ((), ())
    assert len(text.lines) == len(parse_c2c_text(report, "report").lines)
    assert profile_of_text(text).observable == "unknown"


@pytest.mark.parametrize("text", ["", "hello\n", "=" * 50, "# ..... ......\n", "\0" * 100])
def test_what_is_no_report_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(
        InputError,
        match="unknown format .expected the complete output of `perf c2c report --stdio`",
    ) as caught:
        parse_c2c_text(text, "report")
    assert "\n" not in str(caught.value)


def test_a_gigantic_table_is_refused(report: str) -> None:
    at = report.index("Shared Data Cache Line Table")
    row = next(line for line in report[at:].splitlines() if " 0xffff" in line)
    with pytest.raises(InputError, match="more than 100000 rows"):
        parse_c2c_text(report.replace(row, "\n".join([row] * 100_001), 1), "report")


@pytest.mark.property
def test_damaged_reports_give_a_profile_or_one_line(report: str) -> None:
    chance = random.Random(11)  # noqa: S311 # test data
    for _ in range(300):
        characters = list(report[: chance.randrange(len(report) + 1)])
        for _ in range(chance.randrange(20)):
            if characters:
                place = chance.randrange(len(characters))
                characters[place] = chance.choice(["\n", " ", "9" * 30, "%", "0x", "\0", "=", "é"])
        try:
            profile = profile_of_text(parse_c2c_text("".join(characters), "report"))
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 # it need not be raised
        else:
            assert all(line.records >= 0 for line in profile.lines)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "line", ["  a" + " " * 3990, "  " + "a" * 3990, "  a" + " :" * 1990, "# " + "." * 3990 + "x"]
)
@pytest.mark.parametrize(
    "title", ["Trace Event Information", "c2c details", "Shared Data Cache Line Table"]
)
def test_long_lines_that_say_nothing_are_no_work(title: str, line: str) -> None:
    banner = "=" * 40
    heads = [f"{banner}\n{one}\n{banner}\n" for one in (TITLE, title)]
    text = parse_c2c_text("".join(heads) + f"{line}\n" * 4000, "report")
    assert not text.totals
    assert not text.lines


@pytest.mark.timeout(20)
def test_a_ruler_of_ever_so_many_columns_is_no_work(report: str) -> None:
    at = report.index("Shared Data Cache Line Table")
    row = next(line for line in report[at:].splitlines() if " 0xffff" in line)
    titles = report[at:].splitlines()[2:5]
    ruler = "# ..... " + ". " * 1900
    forged = "\n".join(["=" * 40, "Shared Data Cache Line Table", "=" * 40, *titles, ruler])
    text = parse_c2c_text(forged + f"\n{row}" * 50_000, "report")
    assert not text.lines
