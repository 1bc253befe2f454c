# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of ``ab --jobs``: what each job records, and what is wrong with a file, in one line."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import pytest

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder import jobs as module
from schedperf_collectors.recorder.jobs import Job, read_jobs

TOML = """\
[[job]]
name = "hackbench"
run = ["hackbench", "-l", "500", "-g", "{groups}"]
points = {groups = [1, 4, "1.5"]}
runs = 2
warmup = 0
with = ["default", "perf_stat"]
without = ["account"]

[[job]]
name = "my"
run = ["./my", "{{}}"]
metric = ["rate[1/s,higher]=rate: ([0-9.]+)", "p99[us,lower]=p99 (.*)"]
"""
JOBS = [
    Job(
        "hackbench",
        (
            "--point=groups=1,4,1.5",
            "--runs=2",
            "--warmup=0",
            "--with=default,perf_stat",
            "--without=account",
        ),
        ("hackbench", "-l", "500", "-g", "{groups}"),
    ),
    Job(
        "my",
        ("--metric=rate[1/s,higher]=rate: ([0-9.]+)", "--metric=p99[us,lower]=p99 (.*)"),
        ("./my", "{{}}"),
    ),
]


def _write(folder: Path, text: str | bytes) -> str:
    path = folder / "jobs.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_toml_json_and_text_say_the_same(tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    tree, jobs = read_jobs(_write(tmp_path, TOML))
    assert jobs == JOBS
    assert read_jobs(_write(tmp_path, f"\n {json.dumps(tree)}"))[1] == JOBS
    assert read_jobs(json.dumps(tree))[1] == JOBS


def _job(**changes: object) -> str:
    job = {"name": "a", "run": ["a", "{g}"], "points": {"g": [1]}, **changes}
    return json.dumps({"job": [{key: value for key, value in job.items() if value != "-"}]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "job: expected 1 to 100 tables [[job]]"),
        (b"\xff\xfe", "invalid TOML: "),
        (b"[[job]", "invalid TOML: "),
        (b"{" * 60_000, "invalid JSON: "),
        (b"[" * 60_000, "invalid TOML: "),
        (b"# " + b"x" * (64 << 10), "larger than 64 KiB"),
        (b"job = 3", "job: expected 1 to 100 tables [[job]]"),
        (b"job = [3]", "job 1: expected a table [[job]]"),
        ('{"job": [' + ",".join(["{}"] * 101) + "]}", "job: expected 1 to 100 tables"),
        ('{"jobs\\u001b": []}', "jobs\\x1b: unknown table (expected only [[job]])"),
        (_job(rnus=2), "job a: rnus: unknown key (expected runs)"),
        (_job(name="-"), "job 1: name: expected a text of at most 64 letters, digits and _ . + -"),
        (_job(name="../x"), "job 1: name: expected"),
        (_job(run="-"), 'job a: run: expected a list of words, e.g. ["hackbench"'),
        (_job(run="a {g}"), "job a: run: expected a list of words"),
        (_job(run=[]), "job a: run: expected a list of words"),
        (_job(run=["", "{g}"]), "job a: run: expected a list of words"),
        (_job(run=["a\0", "{g}"]), "job a: run: expected a list of words"),
        (_job(run=["a\ud800", "{g}"]), "job a: run: expected a list of words"),
        (_job(points={}), "job a: points: command: {g} has no values"),
        (_job(points={"g": [1], "h": [1]}), "job a: points: --point h: the command has no {h}"),
        (_job(points={"g": []}), "job a: points: invalid point 'g=': "),
        (_job(points={"g": ["1,2"]}), "job a: points: expected a table with a list of values"),
        (_job(points={"g": [True]}), "job a: points: expected a table"),
        (_job(points=[1]), "job a: points: expected a table"),
        (_job(runs=0), "job a: runs: invalid number '0' (expected 1 or more)"),
        (_job(runs=-1), "job a: runs: invalid number '-1'"),
        (_job(runs=True), "job a: runs: expected a number, e.g. 2"),
        (_job(runs="2"), "job a: runs: expected a number, e.g. 2"),
        (_job(warmup=1.5), "job a: warmup: expected a number"),
        (_job(**{"with": "default"}), "job a: with: expected a list of collectors"),
        (_job(metric=["rate"]), "job a: metric: invalid metric rule 'rate' (expected NAME[UNIT,"),
        (_job(metric=["r[s,lower]=("]), "job a: metric: invalid regular expression '('"),
        (
            json.dumps({"job": [{"name": "a", "run": ["x"]}, {"name": "a", "run": ["y"]}]}),
            "job a: name given twice",
        ),
        (
            json.dumps({"job": [{"name": "a", "run": ["x"]}, {"name": "b", "run": ["x"]}]}),
            "job b: run: same command as job a; omit one of them",
        ),
    ],
)
def test_an_invalid_file_is_one_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    pytest.importorskip("tomllib")
    path = _write(tmp_path, text)
    with pytest.raises(RecordError) as refused:
        read_jobs(path)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert str(refused.value).isprintable()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, said in (("none", "no such file"), ("", "not a regular"), ("fifo", "not a regular")):
        with pytest.raises(RecordError, match=f"{name}: {said}"):
            read_jobs(str(tmp_path / name))
    with pytest.raises(RecordError, match="null byte"):
        read_jobs("a\0b")


def test_an_old_python_reads_json_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(RecordError, match=r"jobs\.toml: this Python reads no TOML"):
        read_jobs(_write(tmp_path, TOML))
    assert module.read_jobs(_job())[1][0].name == "a"
