# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts, levels and histograms of a scheduler are compared; what is unclear is informational."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.scx_stats.capture import Field, parse_scx_stats
from schedperf.evidence.scx_stats.findings import MOST_FINDINGS, scx_stats_changes
from schedperf.evidence.scx_stats.measure import (
    ALWAYS_0,
    NO_METRIC,
    NO_NUMBER,
    SKIPPED,
    UNCLEAR,
    UNCLEAR_FLOAT,
    UNDESCRIBED,
    classify,
)
from schedperf.evidence.scx_stats.section import OTHER_BINS, OTHER_MEANING, scx_stats
from tests.schedperf.evidence.scx_stats.records import (
    META,
    run_of,
    samples_of,
    write_capture,
)

Analyse = Callable[..., Any]

BASE = (1000.0, 1010.0, 990.0, 1004.0)
NEW = (1500.0, 1512.0, 1490.0, 1503.0)
# hackbench of the bundles of tests: 4 groups of 20 senders and 20 receivers, 100 messages each.
MESSAGES = 4 * 20 * 20 * 100


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(scx_stats)


def rows_of(data: Any, field: str) -> dict[str, Any]:
    return {row.basis: row for row in data.rows if row.field == field}


def reasons(data: Any) -> dict[str, str]:
    return {row.field: row.reason for row in data.others}


def runs(rates: tuple[float, ...], **chosen: Any) -> list[Any]:
    return [run_of(2.0 + 0.1 * at, direct=rate, **chosen) for at, rate in enumerate(rates)]


def test_counts_since_the_previous_request_are_compared_per_second_and_operation(
    analyse: Analyse,
) -> None:
    data = analyse(runs(BASE), runs(NEW))
    rows = rows_of(data, "nr_direct")
    assert {basis: (row.kind, row.unit) for basis, row in rows.items()} == {
        "time": ("period", "1/s"),
        "operation": ("period", "1/message"),
    }
    assert rows["time"].base == pytest.approx(1001.0, rel=1e-3)
    assert rows["time"].new == pytest.approx(1501.0, rel=1e-3)
    assert rows["time"].changed is True
    assert rows["time"].ci_low < rows["time"].ratio < rows["time"].ci_high
    of_first = 2.0 * BASE[0] / MESSAGES
    assert rows["operation"].values_base[0] == pytest.approx(of_first, rel=1e-3)
    # A layer by its name.
    layer = rows_of(data, "layers.batch.total")["time"]
    assert layer.base == pytest.approx(2.0 * rows["time"].base, rel=1e-3)


def test_counts_since_the_start_are_differences(analyse: Analyse) -> None:
    rows = rows_of(analyse(runs(BASE), runs(NEW)), "nr_started")
    assert rows["time"].kind == "total"
    assert rows["time"].base == pytest.approx(1001.0 / 4, rel=1e-2)


def test_levels_are_means(analyse: Analyse) -> None:
    data = analyse(runs(BASE, util=40.0), runs(NEW, util=60.0))
    util = rows_of(data, "layers.batch.util")["share"]
    assert (util.kind, util.unit) == ("level", "")
    assert (util.base, util.new) == (pytest.approx(0.4), pytest.approx(0.6))
    cpus = rows_of(data, "nr_cpus")["share"]
    assert (cpus.kind, cpus.unit, cpus.base, cpus.changed) == ("level", "1", 2.0, None)


def test_histograms_are_compared_as_distributions(analyse: Analyse) -> None:
    data = analyse(runs(BASE, waits=(0, 3, 1, 0)), runs(NEW, waits=(0, 1, 3, 0)))
    [row] = data.histograms
    assert (row.field, row.unit) == ("layers.batch.runq_lat_hist", "s")
    assert row.low == pytest.approx((2e-6, 4e-6))
    assert row.base == pytest.approx((0.75, 0.25))
    assert row.new == pytest.approx((0.25, 0.75))


def test_other_fields_are_informational(analyse: Analyse) -> None:
    data = analyse(runs(BASE), runs(NEW))
    assert reasons(data) == {
        "at": SKIPPED,
        "mseq": NO_METRIC,
        "proc_time": UNCLEAR_FLOAT,
        "power_mode": NO_NUMBER,
        "layers.batch.index": SKIPPED,
        "layers.batch.cpus": SKIPPED,
    }
    values = {row.field: (row.base, row.new) for row in data.others}
    assert values["proc_time"] == (pytest.approx(0.01), pytest.approx(0.01))
    assert values["power_mode"] == (None, None)


def test_without_metadata_nothing_is_compared(analyse: Analyse) -> None:
    changed = {"meta": None}
    data = analyse(runs(BASE, changed=changed), runs(NEW, changed=changed))
    assert (data.rows, data.histograms) == ((), ())
    assert reasons(data)["nr_direct"] == UNDESCRIBED
    assert list(scx_stats_changes(data)) == []


def test_a_side_with_the_fair_class_is_shown_beside_the_other(analyse: Analyse) -> None:
    absent = {"scx_stats/absent.json": '{"schema": "schedperf/scx_stats/1", "reason": "none"}'}
    data = analyse([{"time_s": 1.0, "files": absent}] * 4, runs(NEW))
    assert data.rows == ()
    [direct] = [row for row in data.others if row.field == "nr_direct"]
    assert (direct.base, direct.unit, direct.reason) == (None, "1/s", "only new has it")
    assert direct.new == pytest.approx(1501.0, rel=1e-3)
    assert [(side.side, side.runs) for side in data.sides] == [("base", 0), ("new", 4)]


def test_fields_that_are_described_differently_are_not_compared(analyse: Analyse) -> None:
    top = META["SysStats"]
    fields = {**top["fields"], "nr_direct": {"datum": "u64", "desc": "Number of local dispatches"}}
    changed = {"meta": {**META, "SysStats": {**top, "fields": fields}}}
    data = analyse(runs(BASE), runs(NEW, changed=changed))
    assert rows_of(data, "nr_direct") == {}
    found = [(row.base, row.new) for row in data.others if row.reason == OTHER_MEANING]
    assert len(found) == 2
    assert [None in pair for pair in found] == [True, True]


def test_histograms_with_other_bins_are_not_compared(analyse: Analyse) -> None:
    data = analyse(runs(BASE), runs(NEW, waits=(1, 2, 3)))
    assert data.histograms == ()
    assert reasons(data)["layers.batch.runq_lat_hist"] == OTHER_BINS


def test_runs_that_lost_their_scheduler_are_notes(analyse: Analyse) -> None:
    lost = run_of(direct=1.0, changed={"samples": [], "failure": "no answer within 5 s"})
    data = analyse(runs(BASE), [*runs(NEW), lost])
    assert data.sides[1].runs == 4
    [note] = data.notes
    assert "no answer within 5 s; look at service.txt of the run" in note
    with pytest.raises(Absent, match="no answer within 5 s"):
        analyse([lost], [lost])


def integers(*values_of_runs: tuple[float, ...]) -> Any:
    """Classify a field that had these values before, during, again, after, again."""
    moments = ("before", "during", "again", "after", "again")
    captures = [
        parse_scx_stats(
            write_capture(
                [
                    {"ns": at, "when": when, "stats": {"nr_direct": value}}
                    for at, (when, value) in enumerate(zip(moments, values, strict=True))
                ]
            ).encode(),
            "run",
        )
        for values in values_of_runs
    ]
    field = Field("nr_direct", "integer", "Number of direct dispatches")
    return classify(field, [capture.samples for capture in captures])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((5, 800, 0, 900, 1), "period"),
        # What runs now is 0 after the run.
        ((1, 8, 8, 0, 0), None),
        ((1, 12, 11, 0, 0), "level"),
        ((2, 2, 2, 2, 2), "level"),
        # Neither 0 nor the same.
        ((5, 100, 30, 100, 30), None),
        # scx_lavd counts since its own last period, whenever it is asked.
        ((500, 700, 690, 300, 310), "level"),
    ],
)
def test_what_an_integer_is(values: tuple[float, ...], kind: str | None) -> None:
    verdict = integers(values)
    assert verdict == (kind, "" if kind else UNCLEAR)


def test_what_is_always_0_is_listed_by_name(analyse: Analyse) -> None:
    assert integers((0, 0, 0, 0, 0)).reason == ALWAYS_0
    data = analyse(runs(BASE, waits=(0, 0)), runs(NEW, waits=(0, 0)))
    assert data.zeros == ("layers.batch.runq_lat_hist",)
    assert "layers.batch.runq_lat_hist" not in reasons(data)


def test_what_never_decreases_is_a_total() -> None:
    assert integers((0, 5, 6, 9, 10), (3, 7, 8, 11, 12)).kind == "total"
    # It did not increase often enough, and then it decreased once.
    assert integers((0, 50, 60, 90, 99)).kind is None
    assert integers((0, 5, 6, 9, 10), (3, 7, 8, 11, 10)).kind == "level"


def test_a_layer_that_appears_during_the_run_counts_from_then(analyse: Analyse) -> None:
    def late(rate: float) -> Any:
        samples = samples_of(2.0, direct=rate)
        del samples[0]["stats"]["layers"]["batch"], samples[1]["stats"]["layers"]["batch"]
        content = write_capture(samples)
        return {"time_s": 2.0, "files": {"scx_stats/scx_stats.json": content}}

    data = analyse([late(rate) for rate in BASE], [late(rate) for rate in NEW])
    row = rows_of(data, "layers.batch.total")["time"]
    assert row.base == pytest.approx(2.0 * 1001.0 * 1.75 / 2.0, rel=1e-3)


def test_findings_are_the_largest_changes(analyse: Analyse) -> None:
    found = list(scx_stats_changes(analyse(runs(BASE), runs(NEW))))
    assert 0 < len(found) <= MOST_FINDINGS
    assert all(each.of_machine and each.rule == "scx_stats_changes" for each in found)
    claims = " ".join(each.claim for each in found)
    assert "the scheduler's layers.batch.total per message" in claims
    assert "count of sched events during the period" in claims


def test_the_same_scheduler_has_no_findings(analyse: Analyse) -> None:
    same: Mapping[str, Any] = {"util": 40.0}
    assert list(scx_stats_changes(analyse(runs(BASE, **same), runs(BASE, **same)))) == []
