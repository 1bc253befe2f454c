# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes two sides comparable, as commands that settle it at once."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.tables import compare_tables
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.tables.read import open_table
from schedperf.model.comparison import Comparison, NextStep

MakeBundle = Callable[..., Path]
Compare = Callable[..., Comparison]

RUNS = [{"time_s": time} for time in (0.600, 0.612, 0.605, 0.609, 0.598)]
FIELDS = ("model", "microcode", "smt", "count_online", "family_model_stepping", "isolated", "boost")
GUEST = {"kernel": {"cmdline": "virtme_hostname=virtme-ng ro quiet"}}


@pytest.fixture
def compared(make_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """Compare base.tar with new.tar, both in the directory of the process."""
    monkeypatch.chdir(tmp_path)

    def compared(base: dict[str, Any], new: dict[str, Any]) -> Comparison:
        for name, side in (("base", base), ("new", new)):
            make_bundle(tmp_path / f"{name}.tar", **side)
        return compare_bundles([open_bundle(Path(name)) for name in ("base.tar", "new.tar")])

    return compared


def step(comparison: Comparison, name: str) -> NextStep:
    return next(one for one in comparison.next_steps if one.id == name)


def cpu(value: str) -> dict[str, Any]:
    return {"runs": RUNS, "host": {"cpu": dict.fromkeys(FIELDS, value)}}


def test_one_command_allows_every_field_that_blocks(compared: Compare) -> None:
    found = compared(cpu("a"), cpu("b"))
    blocking = [one.path for one in found.comparability.differences if one.severity == "blocking"]
    assert len(blocking) > 5
    advised = step(found, "equalise")
    words = advised.commands[-1].split()
    assert [word for before, word in pairwise(words) if before == "--allow"] == blocking
    assert f"and {len(blocking) - 5} more" in advised.what


def test_another_workload_is_recorded_on_the_new_side_too(compared: Compare) -> None:
    base = {"workload": "hackbench -g 4", **cpu("a")}
    found = compared(base, {"workload": "perf bench sched pipe", **cpu("b")})
    advised = step(found, "equalise")
    assert advised.what == "record the same workload on both sides"
    assert "; also use equal values of cpu.model, " in advised.why
    assert advised.commands == (
        "schedperf rerun base.tar",
        "schedperf compare base.tar rerun/base.tar",
    )
    assert "same-benchmarks" not in [one.id for one in found.next_steps]


def test_guests_run_the_workload_of_base_on_both_kernels(compared: Compare) -> None:
    base, new = (
        {"workload": name, "runs": RUNS, "host": GUEST} for name in ("hackbench -g 4", "hackbench")
    )
    images = "--kernel base=BASE_BZIMAGE --kernel new=NEW_BZIMAGE"
    assert step(compared(base, new), "equalise").commands == (f"schedperf rerun base.tar {images}",)


def test_points_of_one_workload_that_no_side_shares_are_run_on_both(compared: Compare) -> None:
    base, new = (
        {"runs": [{**run, "point": {"groups": groups}} for run in RUNS]} for groups in "14"
    )
    found = compared(base, new)
    assert found.overall.verdict == "invalid"
    advised = step(found, "same-benchmarks")
    assert "base and new have no result in common" in advised.why
    assert advised.commands[0] == "schedperf rerun base.tar"


def test_tables_without_a_common_benchmark_are_told_how_to_record(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.csv" for name in ("base", "new")]
    for path, workload in zip(paths, ("one", "other"), strict=True):
        lines = [f"{workload},time,s,lower,{run['time_s']}\n" for run in RUNS]
        path.write_text("".join(["workload,metric,unit,better,value\n", *lines]))
    found = compare_tables([open_table(path) for path in paths])
    assert found.overall.verdict == "invalid"
    assert step(found, "same-benchmarks").commands[-1] == "schedperf compare base.tar new.tar"


def test_sides_that_share_a_benchmark_get_no_such_advice(compared: Compare) -> None:
    found = compared({"runs": RUNS}, {"runs": RUNS[:4]})
    assert "same-benchmarks" not in [one.id for one in found.next_steps]
