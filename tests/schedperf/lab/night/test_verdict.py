# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a night acts on a comparison."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.lab.night.verdict import judge
from schedperf.model.errors import InputError

RunCli = Callable[..., subprocess.CompletedProcess[str]]

TABLE = """\
side,workload,point,metric,unit,better,mean,cv,n
base,hackbench,groups=1,time,s,lower,100,1%,8
new,hackbench,groups=1,time,s,lower,{new},1%,8
"""


def _compare(tmp_path: Path, run_cli: RunCli, new: int) -> Path:
    (tmp_path / "t.csv").write_text(TABLE.format(new=new))
    path = tmp_path / "compare.json"
    done = run_cli("compare", str(tmp_path / "t.csv"), "--json", str(path))
    assert path.exists(), done.stderr
    return path


@pytest.mark.parametrize(
    ("new", "expected"), [(120, "regression"), (80, "improvement"), (100, "no-change")]
)
def test_verdict(tmp_path: Path, run_cli: RunCli, new: int, expected: str) -> None:
    judged = judge(_compare(tmp_path, run_cli, new), "new")
    assert judged.verdict == expected
    assert judged.is_regression is (expected == "regression")
    assert not judged.is_emulated
    assert not judge(tmp_path / "compare.json", "new2").is_regression


def test_emulated(tmp_path: Path, run_cli: RunCli) -> None:
    path = _compare(tmp_path, run_cli, 120)
    record: dict[str, Any] = json.loads(path.read_text())
    for row in record["rows"]:
        row["verdict"], row["family"] = "inconclusive", "informational"
        row["caveats"].append({"code": "emulated", "text": "x", "numbers": {"how": "QEMU TCG"}})
    record["overall"]["verdict"] = "inconclusive"
    path.write_text(json.dumps(record))
    judged = judge(path, "new")
    assert judged.is_emulated
    assert judged.verdict is None
    assert judged.is_regression
    assert judged.text.startswith("emulated, so no verdict; slower: time groups=1 +20.0% [")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "schedperf/compare/9"}'])
def test_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / "compare.json").write_text(content)
    with pytest.raises(InputError) as error:
        judge(tmp_path / "compare.json", "new")
    assert str(error.value).startswith(str(tmp_path))
