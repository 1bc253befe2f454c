# SPDX-License-Identifier: GPL-2.0-or-later
"""Published tables: what they print is checked, what they prove is said, and no more."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.compare.tables import compare_tables
from schedperf.inputs.tables.read import open_table
from schedperf.model.comparison import Comparison

RunCli = Callable[..., subprocess.CompletedProcess[str]]

SEEDS = Path(__file__).parent.parent / "data" / "seeds"
NAMES = sorted(path.stem for path in SEEDS.glob("*.csv"))
# Tables that print every run; of the others it is not said of how many runs a mean is.
WITH_RUNS = ("stress-ng-cfs-bandwidth", "tbench-7742")

# Every printed change that the numbers beside it contradict: table, workload, point, metric.
CONTRADICTIONS = {
    ("load-balance-small", "hackbench", "groups=8", "time"): ("-4.57%", "+0.54%"),
    ("load-balance-large", "hackbench", "groups=16", "time"): ("+4.92%", "+4.26%"),
    ("load-balance-large", "hackbench", "groups=128", "time"): ("-5.82%", "+22.90%"),
    ("load-balance-large", "dbench", "groups=16", "throughput"): ("+0.92%", "+2.59%"),
    ("tg-load-avg-spr", "hackbench(threads,", "fds=20,groups=10", "time"): ("~-8%", "-9.0%"),
    ("tg-load-avg-icelake", "hackbench(pipe,", "", "time"): ("~+1%..+2%", "-3.2%"),
}

# Rows, claimed changes and claimed means of each table, counted in the source.
SIZES = {
    "load-balance-large": (14, 14, 0),
    "load-balance-small": (4, 4, 0),
    "schbench-cfs-bandwidth": (21, 0, 0),
    "stress-ng-cfs-bandwidth": (4, 0, 0),
    "tbench-6148": (10, 10, 0),
    "tbench-7742": (8, 8, 16),
    "tbench-zen3-4-kernels": (33, 33, 0),
    "tbench-zen3-5-kernels": (16, 16, 0),
    "tg-load-avg-cascade-lake": (5, 1, 0),
    "tg-load-avg-icelake": (4, 2, 0),
    "tg-load-avg-spr": (4, 3, 0),
}


@pytest.fixture(scope="module")
def compared() -> Callable[[str], Comparison]:
    """Compare the sides of one table, once: ``compared("tbench-7742")``."""
    done: dict[str, Comparison] = {}

    def compared(name: str) -> Comparison:
        if name not in done:
            done[name] = compare_tables([open_table(SEEDS / f"{name}.csv")])
        return done[name]

    return compared


def test_every_table_is_whole_and_says_where_it_is_from(
    compared: Callable[[str], Comparison],
) -> None:
    assert set(SIZES) == set(NAMES)
    for name, (rows, changes, means) in SIZES.items():
        table = open_table(SEEDS / f"{name}.csv")
        found = [
            sum(map(bool, table.runs[column])) if column in table.runs else 0
            for column in ("claimed", "claimed_mean")
        ]
        assert (len(compared(name).rows), *found) == (rows, changes, means), name
        assert re.match(r"# \w+ [\w ]+, ", (SEEDS / f"{name}.csv").read_text()), name


@pytest.mark.parametrize("name", NAMES)
def test_what_a_table_contradicts_is_told_and_nothing_else(
    name: str, compared: Callable[[str], Comparison]
) -> None:
    found = {
        (name, row.workload.split()[0], row.point, row.metric): (
            one.numbers["claimed"],
            one.numbers["actual"],
        )
        for row in compared(name).rows
        for one in row.caveats
        if one.code in {"claim", "claimed-mean"}
    }
    assert found == {key: told for key, told in CONTRADICTIONS.items() if key[0] == name}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_RUNS])
def test_means_of_unknown_n_are_inconclusive_and_say_what_it_takes(
    name: str, compared: Callable[[str], Comparison]
) -> None:
    table = open_table(SEEDS / f"{name}.csv")
    sides = {side.name: side.label for side in compared(name).sides}
    published = {
        (one["side"], one["workload"], one["point"], one["metric"]): (one["mean"], one.get("cv"))
        for one in table.runs.records()
    }
    for row in compared(name).rows:
        (base, base_cv), (new, new_cv) = (
            published[label, row.workload, row.point, row.metric]
            for label in (sides["base"], sides[row.side])
        )
        assert row.verdict == "inconclusive"
        assert (row.n_base, row.n_new, row.p) == (None, None, None)
        assert [row.base, row.new] == pytest.approx([base, new])
        assert row.ratio == pytest.approx(new / base)
        if (base_cv, new_cv) != (None, None):
            assert row.more_runs is not None
            assert f"{row.more_runs} runs per side would give a verdict" in row.reason
        else:
            assert row.more_runs is None
            assert "the number of runs and the standard deviation are not recorded" in row.reason


def test_no_verdict_of_the_7742_contradicts_what_its_runs_show(
    compared: Callable[[str], Comparison],
) -> None:
    found = compared("tbench-7742")
    assert found.overall.exit_status == 0
    by_point = {row.point: row for row in found.rows}
    # All three runs of the new side are above those of base, and they hardly spread.
    for threads in (4, 8, 16, 32):
        assert by_point[f"threads={threads}"].verdict == "improvement"
    # The runs spread by 7 %, of which a mean of three does not know.
    assert by_point["threads=128"].verdict == "inconclusive"


@pytest.mark.parametrize("name", NAMES)
def test_the_command_reads_every_table(name: str, tmp_path: Path, run_cli: RunCli) -> None:
    path, page = str(SEEDS / f"{name}.csv"), tmp_path / "page.html"
    done = run_cli("compare", path, "--json", "-", "--html", page)
    record = json.loads(done.stdout)
    assert done.stderr == ""
    assert done.returncode == record["overall"]["exit_status"]
    assert len(record["rows"]) == SIZES[name][0]
    assert page.stat().st_size > 0
