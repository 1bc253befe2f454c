# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf history``: what it prints, and its exit statuses."""

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.commands._history_text import sparkline
from schedperf.history.store.decisions import StepChanged
from schedperf.history.store.directory import open_directory
from schedperf.history.store.writer import writing
from tests.histories import make_night, make_recording, night_name

RunCli = Callable[..., subprocess.CompletedProcess[str]]
NIGHTS = 12


@pytest.fixture
def history(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run subcommands where ``nights`` is."""
    monkeypatch.chdir(tmp_path)
    for number in range(NIGHTS):
        make_night(tmp_path / "nights", number, base=0.5, new=0.5 if number < 6 else 0.55)
    added = run_cli("history", "add", "nights")
    assert (added.returncode, added.stdout) == (
        0,
        "history: 24 added, 0 already in the store, 12 outcomes of nights\n",
    )
    assert "created the store history" in added.stderr

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_cli("history", *arguments)

    return run


def test_a_store_is_filled_checked_and_made_again(history: RunCli, tmp_path: Path) -> None:
    assert history("add", "nights").stdout == "history: 0 added, 24 already in the store\n"
    assert history("check").stdout == "history: no problem found\n"
    done = history("rebuild")
    assert done.stdout == "history: made the database again from 36 decisions\n"
    next((tmp_path / "history" / "objects").glob("??/*")).unlink()
    done = history("check")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1


def test_what_cannot_be_added_is_one_line_and_status_2(history: RunCli, tmp_path: Path) -> None:
    (tmp_path / "cut.tar").write_bytes(b"no tar")
    good = make_recording(tmp_path / "good.tar", night_name(20), "new", [[0.6]])
    done = history("add", "cut.tar", str(good))
    assert done.returncode == 2
    assert done.stdout == "history: 1 added, 0 already in the store, 1 not added\n"
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "--night", "tonight", "nights"], "--night: invalid 'tonight'"),
        (["add", "--fact", "rack", "nights"], "--fact: invalid 'rack'"),
        (["add", "--fact", "Rack=1", "nights"], "--fact: invalid 'Rack=1'"),
        (["add", "--fact", "rack=\x1b", "nights"], "--fact: invalid"),
        (["add"], "missing argument"),
        (["list", "--store", "elsewhere"], "elsewhere: no store"),
        (["list", "--store", "mysql://h/d"], "mysql: invalid URL"),
        (["list", "--store", "sqlite:///missing.db"], "missing.db: no database"),
        (["show", "sysbench"], "no such series"),
        (["show", "hackbench", "--since", "May"], "May: invalid date"),
        (["diff", "2026-06-02", "2026-06-01"], "not after"),
        (["why", "s1"], "no such step"),
        (["sql", "DROP TABLE run"], "expected one SELECT"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: list[str], message: str, history: RunCli) -> None:
    done = history(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_the_list_has_a_line_per_series(history: RunCli) -> None:
    shown = history("list").stdout
    assert "hackbench time" in shown
    # The mean of the last seven nights, of which six are 10% slower.
    assert "+8.6%" in shown
    [listed] = json.loads(history("list", "--json").stdout)
    assert listed["series"]["name"] == "hackbench time"
    assert listed["now"] == pytest.approx(0.086, abs=0.001)
    assert listed["step"] is None


def test_a_series_is_shown_over_time(history: RunCli) -> None:
    shown = history("show", "hackbench", "--since", night_name(6), "--limit", "3").stdout
    assert night_name(NIGHTS - 1) in shown
    assert night_name(NIGHTS - 4) not in shown
    assert "3 earlier nights are left out" in shown
    timeline = json.loads(history("show", "hackbench", "--json").stdout)
    assert len(timeline["nights"]) == NIGHTS
    assert len(timeline["analysed"]["values"]) == NIGHTS


def test_two_dates_are_compared(history: RunCli) -> None:
    shown = history("diff", night_name(5), night_name(NIGHTS), "--nights", "6").stdout
    assert "+10.1%" in shown
    assert "worse" in shown
    shown = history("diff", "2020-01-01", "2020-02-01").stdout
    assert "1 series: no night in the 31 days before the first date" in shown
    found = json.loads(history("diff", "2020-01-01", "2020-02-01", "--json").stdout)
    [change] = found["changes"]
    assert change["change"] is None


def test_series_are_ranked_by_their_noise(history: RunCli) -> None:
    assert "0.1% / 0.06%" in history("noise").stdout
    [noise] = json.loads(history("noise", "--json").stdout)
    assert noise["nights"] == NIGHTS
    assert noise["aa_nights"] == 0


def test_a_query_has_three_formats(history: RunCli) -> None:
    statement = "SELECT role, count(*) AS n FROM runs GROUP BY role ORDER BY role"
    rows = [["role", "n"], ["new", str(4 * NIGHTS)], ["reference", str(4 * NIGHTS)]]
    table = history("sql", statement).stdout
    assert [line.split() for line in table.splitlines()] == rows
    written = history("sql", "--format", "csv", statement).stdout
    assert list(csv.reader(io.StringIO(written))) == rows
    assert json.loads(history("sql", "--format", "json", statement).stdout)[0] == {
        "role": "new",
        "n": 4 * NIGHTS,
    }
    url = "sqlite:///history/history.db"
    assert history("sql", "--store", url, statement).stdout == table
    assert json.loads(history("sql", "--format", "json", "SELECT 1 WHERE 0").stdout) == []


def test_a_store_that_is_changed_is_not_a_url(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("history", "add", "--store", "postgresql://me:swordfish@host/history", "a.tar")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "a URL, postgresql://... (expected a directory" in done.stderr
    assert "swordfish" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_all_tables_are_exported(history: RunCli, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert history("export", "--parquet", "out").returncode == 0
    assert (tmp_path / "out" / "night.parquet").exists()
    done = history("export", "--parquet", "out")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_steps_appear_where_they_are(history: RunCli, tmp_path: Path) -> None:
    [listed] = json.loads(history("list", "--json").stdout)
    nights = json.loads(history("show", "hackbench", "--json").stdout)["nights"]
    step = StepChanged(
        step="s1",
        series=listed["series"]["key"],
        position=nights[6]["position"],
        night=nights[6]["night"],
        direction="worse",
        state="suspected",
        change=0.1,
        ci_low=0.08,
        ci_high=0.12,
        reason="alarm \x1b[31m",
        numbers={"evidence": 7400.0},
    )
    with writing(open_directory(tmp_path / "history"), pytest.fail) as writer:
        writer.commit([(step, None)])
    assert "suspected" in history("list").stdout
    shown = history("show", "hackbench").stdout
    assert "worse, +10.0% [+8.0%, +12.0%], suspected" in shown
    assert "schedperf history why s1" in shown
    why = history("why", "s1").stdout
    assert "suspected: alarm" in why
    assert "(evidence 7400)" in why
    assert "\x1b" not in why
    [change] = json.loads(history("why", "s1", "--json").stdout)["decisions"]
    assert change["state"] == "suspected"


def test_a_sparkline_has_a_character_per_night() -> None:
    assert sparkline([None, 1.0, 1.0]) == "·▁▁"
    assert sparkline([]) == ""
    assert sparkline([0.0, 7.0, 3.5]) == "▁█▅"
