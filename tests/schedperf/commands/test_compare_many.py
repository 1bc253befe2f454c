# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare --many``: one line per pair, with the verdict of ``compare``."""

import csv
import importlib.util
import io
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import fsspec
import pytest

from schedperf.compare.many import judge
from tests.histories import make_recording

RunCli = Callable[..., subprocess.CompletedProcess[str]]
LEVELS = {"base": 1.0, "same": 1.0, "slow": 1.5, "fast": 0.5}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory with bundles of four kernels, and one that is damaged."""
    monkeypatch.chdir(tmp_path)
    for name, level in LEVELS.items():
        boots = [[level * (1 + 0.001 * ((boot * 3) % 5))] * 2 for boot in range(6)]
        make_recording(tmp_path / f"{name}.tar", "2026-06-01", name, boots, release=f"6.{name}")
    wide = [[0.8], [1.3], [0.9], [1.4]]
    make_recording(tmp_path / "wide.tar", "2026-06-01", "wide", wide, release="6.wide")
    (tmp_path / "bad.tar").write_bytes(b"no tar")
    return tmp_path


def write_pairs(folder: Path, news: Sequence[str]) -> None:
    lines = [f"base.tar,{new}.tar,{new}\n" for new in news]
    (folder / "pairs.csv").write_text("base,new,name\n" + "".join(lines))


@pytest.mark.parametrize(
    ("news", "options", "status"),
    [
        (["same", "fast"], [], 0),
        (["fast", "wide"], [], 0),
        (["fast", "wide"], ["--strict"], 3),
        (["bad", "same"], ["--strict"], 2),
        (["bad", "slow", "fast"], [], 1),
    ],
)
def test_the_exit_status_is_that_of_the_first_of_an_order(
    folder: Path, run_cli: RunCli, news: list[str], options: list[str], status: int
) -> None:
    write_pairs(folder, news)
    done = run_cli("compare", "--many", "pairs.csv", *options)
    assert done.returncode == status
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["name", *news]


def test_a_pair_has_the_verdict_that_compare_prints(folder: Path, run_cli: RunCli) -> None:
    news = ["same", "slow", "fast", "wide"]
    write_pairs(folder, news)
    done = run_cli("compare", "--many", "pairs.csv", "--json", "all.json", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    for new, row, pair in zip(
        news, rows, json.loads((folder / "all.json").read_text()), strict=True
    ):
        alone = json.loads(run_cli("compare", "base.tar", f"{new}.tar", "--json", "-").stdout)
        assert pair["verdict"] == row["verdict"] == alone["overall"]["verdict"]
        assert pair["reason"] == row["reason"] == alone["overall"]["reason"]
        [decides] = [each for each in alone["rows"] if each["family"] == "primary"]
        assert pair["result"] == f"{decides['workload']} {decides['metric']}"
        assert pair["change"] == pytest.approx(decides["ratio"] - 1.0)
        assert float(row["ci_high"]) == pytest.approx(decides["ci_high"] - 1.0)


def test_whole_comparisons_are_those_of_compare(folder: Path, run_cli: RunCli) -> None:
    write_pairs(folder, ["slow", "bad", "fast"])
    done = run_cli("compare", "--many", "pairs.csv", "--output", "out", "--margin", "5%")
    assert done.stderr.startswith("schedperf: 1 of 3 pairs not compared; first: bad: ")
    assert "bad.tar: invalid tar archive" in done.stderr
    for new in ("slow", "fast"):
        alone = run_cli("compare", "base.tar", f"{new}.tar", "--json", "-", "--margin", "5%")
        assert (folder / "out" / f"{new}.json").read_text() == alone.stdout
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["fast.json", "slow.json"]
    done = run_cli("compare", "--many", "pairs.csv", "--output", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert "out: not empty" in done.stderr


def test_kernels_without_runs_have_the_verdict_of_the_sections(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for side in ("base", "new"):
        make_recording(tmp_path / f"{side}.tar", "2026-06-01", side, [], runs=[])
    write_pairs(tmp_path, ["new"])
    done = run_cli("compare", "--many", "pairs.csv", "--json", "-")
    alone = json.loads(run_cli("compare", "base.tar", "new.tar", "--json", "-").stdout)
    [pair] = json.loads(done.stdout)
    assert (pair["verdict"], pair["reason"]) == (
        alone["overall"]["verdict"],
        alone["overall"]["reason"],
    )


def test_bundles_are_read_by_url(folder: Path, run_cli: RunCli) -> None:
    files = fsspec.filesystem("memory")
    files.pipe("/many/slow.tar", (folder / "slow.tar").read_bytes())
    (folder / "pairs.csv").write_text(
        f"base,new\nfile://{folder}/base.tar,memory://many/slow.tar\n"
        "base.tar,memory://many/none.tar\nhttp://[x/a.tar,base.tar\nbase.tar,none:base.tar\n"
    )
    done = run_cli("compare", "--many", "pairs.csv")
    files.rm("/many", recursive=True)
    lines = done.stdout.splitlines()
    assert "regression" in lines[1]
    assert "memory://many/none.tar: cannot be used: no such file" in lines[2]
    assert "invalid URL" in lines[3]
    assert "unknown format 'none'" in lines[4]


def test_an_internal_error_of_a_pair_does_not_cost_the_others(
    folder: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(folder, ["fast"])

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(judge, "judge_bundles", fail)
    done = run_cli("compare", "--many", "pairs.csv")
    assert done.returncode == 2
    assert "internal error: MemoryError" in done.stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["base.tar", "fast.tar"], "paths: not valid with --many"),
        (["--html", "x.html"], "--html: not valid with --many"),
        (["--history", "base.tar"], "--history: not valid with --many"),
        (["--format", "junit"], "junit is not available with --many"),
        (["--json", "pairs.csv"], "also an input"),
    ],
)
def test_options_without_meaning_are_refused(
    folder: Path, run_cli: RunCli, options: list[str], problem: str
) -> None:
    write_pairs(folder, ["fast"])
    done = run_cli("compare", "--many", "pairs.csv", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


@pytest.mark.parametrize("option", ["--scheduler", "--output"])
def test_options_of_many_pairs_are_refused_without_them(
    folder: Path, run_cli: RunCli, option: str
) -> None:
    del folder
    done = run_cli("compare", "base.tar", "fast.tar", option, "x")
    assert f"{option}: only valid with --many" in done.stderr


def test_without_the_extra_one_line_names_it(
    folder: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(folder, ["fast"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    done = run_cli("compare", "--many", "pairs.csv", "--scheduler", "tcp://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "schedperf: error: distributed: not installed (--scheduler needs it); run: pip install "
        "'schedperf[scale]'\n"
    )
