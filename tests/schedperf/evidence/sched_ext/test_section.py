# SPDX-License-Identifier: GPL-2.0-or-later
"""The schedulers that the runs measured, the runs that lost theirs, and hostile captures."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.evidence import Absent
from schedperf.evidence.sched_ext.capture import parse_sched_ext
from schedperf.evidence.sched_ext.findings import partial_scheduler
from schedperf.evidence.sched_ext.findings import sched_ext as mixed_runs
from schedperf.evidence.sched_ext.record import SchedExt
from schedperf.evidence.sched_ext.section import has_scheduler, sched_ext
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import BundleError
from tests.schedperf.evidence.sched_ext.records import (
    EJECTED,
    FAIR,
    IDLE,
    LAVD,
    LOADED,
    REASON,
    SERVICE,
    Run,
    run,
)

MakeBundle = Callable[..., Path]


@pytest.fixture
def write(make_bundle: MakeBundle, tmp_path: Path) -> Callable[..., list[Any]]:
    def open_sides(base: Sequence[Run], new: Sequence[Run]) -> list[Any]:
        return [
            open_bundle(make_bundle(tmp_path / f"{name}.tar", runs=runs, label=name))
            for name, runs in (("base", base), ("new", new))
        ]

    return open_sides


def test_each_side_lists_its_schedulers_and_what_was_discarded(write: Any) -> None:
    record = sched_ext(name_sides(write([FAIR] * 3, [LAVD, EJECTED, LAVD])))
    base, new = record.rows
    assert (base.scheduler, base.runs, base.discarded, base.command) == (None, 3, 0, None)
    assert (base.switch_all, base.rejected) == (None, None)
    assert (new.scheduler, new.runs, new.discarded) == ("lavd_1.0.20", 3, 1)
    assert (new.switch_all, new.rejected) == (True, 4)
    assert (new.command, new.version) == ("scx_lavd --performance", "scx_lavd 1.0.20")
    (lost,) = record.discarded
    assert (lost.side, lost.run, lost.reason) == ("new", "boots/0/runs/001", REASON)


def test_the_summary_counts_discarded_runs_apart_from_failures(write: Any) -> None:
    comparison = compare_bundles(write([FAIR] * 3, [LAVD, EJECTED, LAVD]))
    assert f"1 of 3 runs of new discarded: {REASON}" in [each.text for each in comparison.caveats]
    new = comparison.sides[1]
    assert (new.runs_clean, new.runs_failed, new.runs_discarded) == (2, 0, 1)


def test_runs_with_different_schedulers_weaken_the_result(write: Any) -> None:
    comparison = compare_bundles(write([FAIR, run(LOADED), FAIR], [LAVD] * 3))
    (mixed,) = (each for each in comparison.caveats if each.code == "mixed-runs")
    assert mixed.text == (
        "the runs of base were not all made under the same conditions: of 3 runs 2 with fair "
        "class and 1 with lavd_1.0.20"
    )


def test_a_scheduler_that_leaves_out_the_fair_class_weakens_the_result(write: Any) -> None:
    partial = run(LOADED | {"switch_all": "0"})
    comparison = compare_bundles(write([FAIR] * 2, [partial] * 2))
    (said,) = (each.text for each in comparison.caveats if each.code == "partial-scheduler")
    assert said == (
        "lavd_1.0.20 of new schedules only tasks with the policy SCHED_EXT, so the workload may "
        "have run in the fair class"
    )
    assert not [*partial_scheduler(sched_ext(name_sides(write([FAIR] * 2, [LAVD] * 2))))]


def test_runs_with_several_builds_of_a_scheduler_weaken_the_result(write: Any) -> None:
    other = run(LOADED, service=SERVICE | {"sha256": "cd" * 32})
    comparison = compare_bundles(write([FAIR] * 2, [LAVD, other, other]))
    (mixed,) = (each for each in comparison.caveats if each.code == "mixed-runs")
    assert mixed.numbers["what"] == (
        "of 3 runs 1 with lavd_1.0.20 (scx_lavd --performance, sha256 abababababab) and 2 with "
        "lavd_1.0.20 (scx_lavd --performance, sha256 cdcdcdcdcdcd)"
    )


def test_discarded_runs_are_no_mixture(write: Any) -> None:
    lost = run(IDLE, LOADED, discarded="another program changed the scheduler")
    record = sched_ext(name_sides(write([lost, run(LOADED)], [LAVD] * 2)))
    assert not list(mixed_runs(record))


@pytest.mark.parametrize("base", [[FAIR] * 2, [run({}, {})] * 2, [{}]])
def test_without_a_scheduler_the_section_does_not_apply(write: Any, base: Sequence[Run]) -> None:
    assert not any(map(has_scheduler, name_sides(write(base, [FAIR] * 2))))


def test_a_side_that_was_recorded_without_the_collector_is_named(write: Any) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with sched_ext"):
        sched_ext(name_sides(write([{}], [LAVD] * 2)))


def test_an_unnamed_scheduler_and_unknown_counts_are_not_zero(write: Any) -> None:
    old = {"state": "enabled", "enable_seq": "1"}
    record = sched_ext(name_sides(write([FAIR], [run(old)])))
    new = record.rows[1]
    assert (new.scheduler, new.switch_all, new.rejected) == ("unnamed scheduler", None, None)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"before": {}}', b'{"before": [], "after": {}}',
        b'{"before": {"state": 1}, "after": {}}', b'{"before": {"enable_seq": "-1"}, "after": {}}',
        b'{"before": {"nr_rejected": "1e9"}, "after": {}}', b"\xff\0",
        b'{"before": {"nr_rejected": "1\\n"}, "after": {}}',
        json.dumps({"before": {"ops": "x" * 129}, "after": {}}).encode(),
        b'{"before": {"switch_all": "' + b"9" * 21 + b'"}, "after": {}}',
    ],
)  # fmt: skip
def test_hostile_captures_are_refused_in_one_line(content: bytes) -> None:
    with pytest.raises(BundleError, match=r"\Asched_ext.json: [^\n]+\Z"):
        parse_sched_ext(content, "sched_ext.json")


def test_a_damaged_capture_costs_its_run_only(write: Any) -> None:
    broken = {"files": {"sched_ext/sched_ext.json": "{"}}
    record: SchedExt = sched_ext(name_sides(write([FAIR, broken], [LAVD] * 2)))
    assert [row.runs for row in record.rows] == [1, 2]
    (note,) = record.notes
    assert note.startswith("base: ")
