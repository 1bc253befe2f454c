# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of the load are compared beside those of the workload, and decide nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.evidence import Absent
from schedperf.evidence.load.capture import LARGEST_BYTES, parse_load
from schedperf.evidence.load.findings import load as find
from schedperf.evidence.load.record import Load
from schedperf.evidence.load.section import load
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.errors import BundleError
from schedperf.model.sections import data_of
from tests.schedperf.evidence.load.conftest import COMMAND, beside_load, load_files

Analyse = Callable[..., Any]
RATE = "stress-ng cpu bogo ops per real time"
BASE = (400.0, 402.0, 398.0, 401.0, 399.0, 400.5)
NEW = (300.0, 302.0, 298.0, 301.0, 299.0, 300.5)


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(load)


def row_of(data: Load, metric: str) -> Any:
    return next(row for row in data.rows if row.metric == metric)


def test_each_result_of_the_load_is_compared_per_run(analyse: Analyse) -> None:
    data = analyse(beside_load(BASE), beside_load(NEW), manifest={"load": COMMAND})
    row = row_of(data, RATE)
    assert (row.unit, row.better, row.n_base, row.n_new) == ("1/s", "higher", 6, 6)
    assert row.ratio == pytest.approx(0.75, rel=0.001)
    assert row.values_new == NEW
    assert row.changed
    assert data.command == COMMAND
    assert data.notes == ()
    finding = next(finding for finding in find(data) if finding.metric == RATE)
    assert finding.clause == f"the load beside the workload changed: {RATE}"
    assert finding.change == " -25.0%"
    assert finding.better == "higher"
    assert finding.evidence == (f"load#{row.row}",)


def test_points_are_in_the_order_of_the_recording(analyse: Analyse) -> None:
    points = ("slice=1ms", "slice=10ms")
    sides = [
        # The first run of the second point was made first.
        [
            {**run, "point": {"slice": point.partition("=")[2]}}
            for point in reversed(points)
            for run in beside_load(rates)
        ]
        for rates in (BASE, NEW)
    ]
    data = analyse(*sides, manifest={"load": COMMAND, "points": points}, workload="true {slice}")
    assert tuple(dict.fromkeys(row.point for row in data.rows)) == points


def test_the_verdict_is_about_the_workload(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    paths = [
        make_bundle(tmp_path / f"{number}.tar", runs=runs, manifest={"load": COMMAND})
        for number, runs in enumerate((beside_load(BASE), beside_load(NEW)))
    ]
    comparison = compare_bundles([open_bundle(path) for path in paths], drawings=False)
    assert {row.metric for row in comparison.rows} == {"hackbench time"}
    record = data_of(comparison.sections, Load)
    assert record is not None
    assert row_of(record, RATE).changed


def test_other_loads_are_not_compared(tmp_path: Path, make_bundle: Callable[..., Path]) -> None:
    loads = {"0": (COMMAND, BASE), "1": ("stress-ng --cpu 2", NEW), "2": (None, NEW)}
    for name, (command, rates) in loads.items():
        make_bundle(tmp_path / f"{name}.tar", runs=beside_load(rates), manifest={"load": command})
    for other in "12":
        bundles = [open_bundle(tmp_path / f"{name}.tar") for name in ("0", other)]
        comparison = compare_bundles(bundles, drawings=False)
        [difference] = [
            each for each in comparison.comparability.differences if each.path == "load"
        ]
        assert difference.severity == "blocking"
        assert {row.verdict for row in comparison.rows} == {"invalid"}
    section = compare_bundles(
        [open_bundle(tmp_path / f"{name}.tar") for name in "01"], drawings=False
    ).sections["load"]
    assert section.status == "absent"
    assert section.reason == "the loads of base and new differ, so their results are not compared"


def test_what_is_missing_is_said(analyse: Analyse) -> None:
    killed = beside_load(BASE[:4], ended_by="SIGKILL", killed=["sleep"])
    silent = [{"files": load_files("", output_left_out={"stdout": 1 << 30})}]
    data = analyse(killed, [*beside_load(NEW[:4]), *silent])
    assert data.notes == (
        (
            "base: the load did not end when it was interrupted and had to be killed in 4 of 4 "
            "runs, so it may not have printed its results"
        ),
        "new: 1073741824 bytes of the output of the load were not kept",
        "new: no result found in the output of the load in 1 of 5 runs",
    )
    assert row_of(data, RATE).n_new == 4


def test_bundles_without_a_load_have_no_section(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with load"):
        analyse([{}], [{}])


WHOLE = load_files("")["load/load.json"].encode()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"\0" * 64, WHOLE[:-1], WHOLE.replace(b"load/1", b"load/2"),
        WHOLE.replace(b"10.5", b"-1"), WHOLE.replace(b"10.5", b'"1"'),
        WHOLE.replace(b"10.5", b"1e999"), WHOLE.replace(b"SIGINT", b"SIGHUP"),
        WHOLE.replace(b'"killed": []', b'"killed": {}'),
        WHOLE.replace(b'"output_left_out": {}', b'"output_left_out": {"stdout": -1}'),
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_damaged_captures_are_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(BundleError) as refused:
        parse_load(content, "b.tar: load.json")
    text = str(refused.value)
    assert text.startswith("b.tar: load.json: ")
    assert text.isprintable()


@pytest.mark.parametrize("content", ["{", "x" * (LARGEST_BYTES + 1)])
def test_a_damaged_capture_costs_its_run_only(analyse: Analyse, content: str) -> None:
    damaged = {"files": {**load_files(""), "load/load.json": content}}
    data = analyse([*beside_load(BASE), damaged], beside_load(NEW))
    assert row_of(data, RATE).n_base == 6
    assert len(data.notes) == 1
    assert "load/load.json" in data.notes[0]


def test_hostile_output_of_a_load_is_read_as_text(analyse: Analyse) -> None:
    hostile = "\0\r\n\u202eTime: 1e999\r\nTime: \u0661\nRunning in\n" * 3
    data = analyse([*beside_load(BASE), {"files": load_files(hostile)}], beside_load(NEW))
    assert row_of(data, RATE).n_base == 6
