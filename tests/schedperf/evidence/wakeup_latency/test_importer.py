# SPDX-License-Identifier: GPL-2.0-or-later
"""Texts of perf sched and rtla become runs, whose latencies are compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.inputs.importers.open import Opener, read_results
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from schedperf.runs.values import read_run_values
from tests.schedperf.evidence.wakeup_latency.test_texts import LATENCY, RTLA, TIMEHIST


def timehist(delay_us: int, step: int) -> str:
    """Return a text in which a fifth of the delays of hackbench is as long as given."""
    rows = [
        f"   13231.{index:06} [0001]  hackbench[7/7]  0.000  "
        f"{(delay_us if index % 5 == 0 else 20) + step:>{6}} 0.013"
        for index in range(200)
    ]
    title = "           time    cpu  task name   wait time  sch delay   run time\n"
    texts = [_to_ms(row) for row in rows]
    return title + "\n".join(texts) + "\n"


def _to_ms(row: str) -> str:
    # The delay is in us: 900 is 0.900 ms.
    before, us, after = row.rsplit(maxsplit=2)
    return f"{before}  {int(us) // 1000}.{int(us) % 1000:03}  {after}"


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["compare", *arguments, "--format", "json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def test_files_of_timehist_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, delay_us in (("old", 200), ("new", 900)):
        (tmp_path / side).mkdir()
        for run, step in enumerate((0, 2, -1, 1, -2)):
            (tmp_path / side / f"{run}.txt").write_text(timehist(delay_us, step))
    paths = [f"wakeup-latency:{tmp_path / side}" for side in ("old", "new")]
    section = compare(capsys, *paths)["sections"]["wakeup_latency"]
    rows = {
        row["quantile"]: row for row in section["data"]["rows"] if row["command"] == "hackbench"
    }
    assert rows["p90"]["changed"]
    assert rows["p90"]["new"] == pytest.approx(900e-6, rel=1 / 16)
    assert rows["p50"]["changed"] is False
    assert section["data"]["sides"][0]["sources"] == ["perf sched timehist"]


def test_the_text_of_rtla_is_also_the_output_of_a_benchmark(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_bytes(RTLA)
    with Opener() as opener:
        bundle = opener.open(Path(f"wakeup-latency:{tmp_path}"))
        [run] = bundle.runs
        assert bundle.read(f"{run.folder}/wakeup_latency/rtla.txt") == RTLA
        table = read_run_values(name_sides([bundle])).table
    assert "rtla timerlat thread latency p99" in table["metric"].tolist()


def test_each_kind_of_text_is_a_workload_of_its_own(tmp_path: Path) -> None:
    texts = {"1.txt": TIMEHIST, "2.txt": LATENCY, "3.txt": RTLA, "readme": b"hello\n"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    imported, _ = read_results("wakeup-latency", tmp_path)
    [boot] = imported.boots
    assert [run.workload for run in boot.runs] == [
        "perf sched timehist", "perf sched latency", "rtla timerlat hist",
    ]  # fmt: skip
    assert imported.notes == ("not read, because they are other texts: readme",)
    assert imported.originals == ("1.txt", "2.txt", "3.txt")


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\0\xff")
    with pytest.raises(InputError, match=r"no latencies \(expected text files") as error:
        read_results("wakeup-latency", tmp_path)
    assert "\n" not in str(error.value)
