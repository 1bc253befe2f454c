# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.tables, and ``schedperf compare`` on tables: only numbers, nothing else."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.compare.options import CompareOptions
from schedperf.compare.tables import compare_tables
from schedperf.inputs.tables.read import open_table
from schedperf.model.comparison import Comparison

HEADER = "workload,point,metric,unit,better,value"
TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)

Write = Callable[..., Path]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a table: ``write("a.csv", "workload,…", "hackbench,…")``."""

    def write(name: str, *lines: str) -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def runs(values: Sequence[float], point: str = "groups=1", side: str | None = None) -> list[str]:
    start = "" if side is None else f"{side},"
    return [f"{start}hackbench,{point},time,s,lower,{value:.4f}" for value in values]


def slower(factor: float = 1.3) -> tuple[float, ...]:
    return tuple(factor * time for time in TIMES)


@pytest.fixture
def base(write: Write) -> Path:
    """Write base.csv."""
    return write("base.csv", HEADER, *runs(TIMES))


@pytest.fixture
def new(write: Write) -> Path:
    """Write new.csv, which is 30% slower."""
    return write("new.csv", HEADER, *runs(slower()))


def compared(*paths: Path, base: str | None = None, **options: Any) -> Comparison:
    return compare_tables(
        [open_table(path) for path in paths], CompareOptions(**options), base=base
    )


class TestRecord:
    def test_the_numbers_are_judged_as_those_of_bundles_are(self, base: Path, new: Path) -> None:
        found = compared(base, new)
        assert (found.overall.verdict, found.overall.exit_status) == ("regression", 1)
        [row] = found.rows
        assert (row.side, row.verdict, row.n_base, row.n_new) == ("new", "regression", 5, 5)
        assert row.ratio == pytest.approx(1.3, rel=0.001)
        assert [run.value for run in row.values_base] == list(TIMES)

    def test_each_value_names_its_line_of_the_file(self, write: Write, base: Path) -> None:
        new = write("new.csv", "# a comment", HEADER, *runs(slower()))
        [row] = compared(base, new).rows
        assert row.definition is None
        sources = [run.source for run in (*row.values_base, *row.values_new)]
        places = [(one.member, one.line) for one in sources if one is not None]
        assert places == [
            *((str(base), line) for line in range(2, 7)),
            *((str(new), line) for line in range(3, 8)),
        ]
        assert sources[0] is not None
        assert sources[0].text == "hackbench,groups=1,time,s,lower,0.6000"

    def test_sides_of_one_file_name_their_own_lines(self, write: Write) -> None:
        lines = [
            line
            for pair in zip(runs(TIMES, side="tip"), runs(slower(), side="new"), strict=True)
            for line in pair
        ]
        [row] = compared(write("both.csv", f"side,{HEADER}", *lines)).rows
        for values, first in ((row.values_base, 2), (row.values_new, 3)):
            places = [run.source.line for run in values if run.source is not None]
            assert places == list(range(first, 12, 2))
        assert [(run.run, run.boot, run.order, run.round) for run in row.values_new] == [
            (number, None, None, None) for number in range(5)
        ]

    def test_equal_files_are_the_same_data(self, base: Path, write: Write, new: Path) -> None:
        copy = write("copy.csv", *base.read_text().splitlines())
        found = compared(base, copy, new)
        assert [(row.side, row.verdict, row.method == "same data") for row in found.rows] == [
            ("new", "no-change", True),
            ("new2", "regression", False),
        ]

    def test_one_run_that_is_the_same_file_is_no_change(self, write: Write) -> None:
        path = write("one.csv", HEADER, *runs((0.6,)))
        found = compared(path, path)
        assert found.overall.verdict == "no-change"
        assert found.overall.reason == "time at groups=1: same data"

    def test_equal_numbers_of_two_sides_of_one_file_are_two_measurements(
        self, write: Write
    ) -> None:
        path = write("all.csv", f"side,{HEADER}", *runs((0.6,), side="A"), *runs((0.6,), side="B"))
        [row] = compared(path).rows
        assert (row.verdict, row.method) != ("no-change", "same data")

    def test_the_margin_can_be_chosen(self, base: Path, write: Write) -> None:
        near = write("near.csv", HEADER, *runs((*TIMES, 0.601)))
        assert compared(base, near).overall.verdict == "no-change"
        assert compared(base, near, margin=0.001).overall.verdict == "inconclusive"

    def test_points_make_a_sweep(self, write: Write) -> None:
        points = [line for groups in (1, 4) for line in runs(TIMES, f"groups={groups}")]
        worse = [line for groups in (1, 4) for line in runs(slower(), f"groups={groups}")]
        found = compared(write("a.csv", HEADER, *points), write("b.csv", HEADER, *worse))
        [sweep] = found.sweeps
        assert sweep.points == ("groups=1", "groups=4")
        assert sweep.geomean_ratio == pytest.approx(1.3, rel=0.001)
        assert [side.runs_clean for side in found.sides] == [10, 10]
        assert found.families[0].verdicts == {"regression": 2}

    def test_metrics_of_one_run_are_not_more_runs(self, write: Write) -> None:
        latency = [line.replace("time", "latency") for line in runs(TIMES)]
        path = write("a.csv", HEADER, *runs(TIMES), *latency)
        assert compared(path, path).sides[0].runs_clean == 5

    def test_boots_rounds_and_orders_reach_the_statistics(self, write: Write) -> None:
        header = f"side,round,order,boot,{HEADER}"
        lines = [
            f"{side},{place},{2 * place + index},0,hackbench,,time,s,lower,{factor * time:.4f}"
            for place, time in enumerate(TIMES)
            for index, (side, factor) in enumerate((("A", 1.0), ("B", 1.3)))
        ]
        found = compared(write("all.csv", header, *lines))
        [row] = found.rows
        assert row.replication == "rounds"
        assert [(run.boot, run.order, run.round) for run in row.values_new[:2]] == [
            (0, 1, 0),
            (0, 3, 1),
        ]
        assert [side.boots for side in found.sides] == [1, 1]
        assert [(one.code, one.numbers["side"]) for one in found.caveats] == [
            ("one-boot", "base"),
            ("one-boot", "new"),
        ]

    def test_runs_that_failed_are_counted(self, base: Path, write: Write) -> None:
        failed = [f"{line.rpartition(',')[0]},,failed" for line in runs(TIMES[:2])]
        lines = [f"{line},ok" for line in runs(slower())]
        found = compared(base, write("new.csv", f"{HEADER},status", *lines, *failed))
        assert found.sides[1].runs_failed == 2
        assert [one.text for one in found.caveats] == [
            "2 of 7 runs of new failed; failed runs are excluded"
        ]
        assert {row.metric: row.n_new for row in found.rows}["time"] == 5

    def test_a_table_that_may_be_cut_has_a_caveat(self, base: Path, new: Path) -> None:
        assert compared(base, new).caveats == ()
        new.write_bytes(new.read_bytes()[:-2])
        [found] = compared(base, new).caveats
        assert found.text.startswith(f"line 6 of {new}, the last one, has no end of line, so the")

    def test_a_table_without_a_primary_row_decides_nothing(self, write: Write) -> None:
        lines = [f"{line},informational" for line in runs(TIMES)]
        sides = [
            write(name, f"{HEADER},family", *lines[:n]) for name, n in (("a.csv", 5), ("b.csv", 4))
        ]
        overall = compared(*sides).overall
        assert (overall.verdict, overall.exit_status) == ("inconclusive", 0)
        assert (
            overall.reason
            == "no row of the tables has `primary` in column `family`, so no verdict is given"
        )


class TestSummaries:
    HEADER = "side,workload,metric,unit,better,mean,cv,n,claimed"

    def test_of_known_n_are_judged(self, write: Write) -> None:
        lines = ["A,t,time,s,lower,45.5,0.4%,10,", "B,t,time,s,lower,41.4,0.4%,10,-9%"]
        found = compared(write("all.csv", self.HEADER, *lines))
        [row] = found.rows
        assert (row.verdict, row.n_base, row.values_base, row.caveats) == (
            "improvement",
            10,
            (),
            (),
        )
        assert [side.runs_clean for side in found.sides] == [10, 10]


@pytest.fixture
def folder(base: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a directory with base.csv, tip.csv and all.csv (one and two named sides), bad.csv."""
    write("tip.csv", f"side,{HEADER}", *runs(TIMES, side="tip"))
    write("all.csv", f"side,{HEADER}", *runs(TIMES, side="A"), *runs(TIMES, side="B"))
    write("bad.csv", HEADER.replace("workload", "wrkload"), *runs(TIMES))
    monkeypatch.chdir(base.parent)


class TestCommand:
    def test_means_of_unknown_n_are_drawn_everywhere(
        self, write: Write, tmp_path: Path, capsys: Capture
    ) -> None:
        lines = ["A,t,time,s,lower,45.51,,,", "B,t,time,s,lower,41.41,0.4%,,~-8%"]
        path = str(write("all.csv", TestSummaries.HEADER, *lines))
        page = tmp_path / "page.html"
        assert main(["compare", path, "--strict", "--html", str(page)]) == 3
        printed = capsys.readouterr().out
        assert "the source states a change of ~-8%" in printed
        assert "the source states a change of ~-8%" in page.read_text()
        assert "None" not in printed

    def test_one_table_with_a_chosen_base(self, write: Write, capsys: Capture) -> None:
        sides = {"tip": TIMES, "patch 1": slower(), "patch 2": slower(1.1)}
        lines = [line for side, values in sides.items() for line in runs(values, side=side)]
        path = str(write("all.csv", f"side,{HEADER}", *lines))
        for options, labels in (
            ([], ["tip", "patch 1", "patch 2"]),
            (["--base", "patch 1"], ["patch 1", "tip", "patch 2"]),
        ):
            main(["compare", path, "--json", "-", *options])
            record = json.loads(capsys.readouterr().out)
            assert [side["label"] for side in record["sides"]] == labels
            assert [side["name"] for side in record["sides"]] == ["base", "new", "new2"]
            assert len({side["digest"] for side in record["sides"]}) == 3
        assert record["overall"]["verdict"] == "improvement"

    def test_text_of_strangers_stays_text(
        self, write: Write, tmp_path: Path, capsys: Capture
    ) -> None:
        evil = "=HYPERLINK(1)<script>alert(1)</script>\u202e\x1b[31m"
        lines = [line.replace("time", evil) for line in runs(TIMES)]
        page = tmp_path / "page.html"
        sides = [
            str(write(name, HEADER, *lines[:count])) for name, count in (("a.csv", 5), ("b.csv", 4))
        ]
        main(["compare", *sides, "--html", str(page)])
        for text in (capsys.readouterr().out, page.read_text()):
            assert "=HYPERLINK(1)" in text
            assert "\x1b[31m" not in text
            assert "\u202e" not in text
        assert "<script>alert" not in page.read_text()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["base.csv"],
                (
                    "base.csv: contains one side (expected at least 2 sides); give a second table, "
                    "or add a "
                ),
            ),
            (
                ["tip.csv"],
                "tip.csv: contains only the side 'tip' (expected at least 2 sides); give",
            ),
            (["base.csv", "x.tar"], "x.tar: a bundle cannot be compared with a table, "),
            (["x.tar", "base.csv"], "x.tar: a bundle cannot be compared with a table, "),
            (
                ["base.csv", "all.csv"],
                (
                    "all.csv: contains 2 sides (A, B; expected one side per table); compare this "
                    "table alone"
                ),
            ),
            (["all.csv", "--base", "C"], "all.csv: unknown side 'C' (expected one of A, B)"),
            (["base.csv", "base.csv", "--base", "A"], "--base: only valid with a single table"),
            (["x.tar", "y.tar", "--base", "A"], "--base: only valid with a single table"),
            (["all.csv", "--allow", "cpu.smt"], "--allow: tables have no fields of host.json"),
            (["absent.csv", "base.csv"], "absent.csv: cannot be read: no such file"),
            (["bad.csv", "base.csv"], "bad.csv:1: unknown column 'wrkload' (did you mean"),
        ],
    )
    @pytest.mark.usefixtures("folder")
    def test_wrong_use_is_one_line_and_status_2(
        self, arguments: list[str], message: str, capsys: Capture
    ) -> None:
        assert main(["compare", *arguments]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.err.count("\n") == 1
        assert captured.out == ""

    def test_all_missing_columns_of_one_table_are_named_at_once(
        self, write: Write, capsys: Capture
    ) -> None:
        only = write("a.csv", "workload,better,value", "t,lower,1")
        assert main(["compare", str(only)]) == 2
        assert capsys.readouterr().err == (
            f"schedperf: error: {only}:1: missing columns `metric`, `unit`, `side` (or give a "
            "second table); add these columns\n"
        )

    def test_names_of_strangers_stay_one_short_line(self, write: Write, capsys: Capture) -> None:
        sides = [f"\x1b[31m\u202e{number}" + 500 * "x" for number in range(3)]
        lines = [line for side in sides for line in runs(TIMES, side=side)]
        assert (
            main(["compare", str(write("all.csv", f"side,{HEADER}", *lines)), "--base", "y"]) == 2
        )
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert len(said) < 500
        assert "\x1b" not in said
        assert "\u202e" not in said

    def test_a_table_is_never_overwritten(self, base: Path, new: Path, capsys: Capture) -> None:
        before = base.read_bytes()
        assert main(["compare", str(base), str(new), "--json", str(base)]) == 2
        assert "also an input" in capsys.readouterr().err
        assert base.read_bytes() == before
