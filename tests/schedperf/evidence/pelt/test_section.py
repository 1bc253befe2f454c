# SPDX-License-Identifier: GPL-2.0-or-later
"""The section on bundles: rates by place, durations, and what must not be compared."""

import json
import time
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.pelt.capture import MOST_CONTEXTS, MOST_FUNCTIONS, MOST_NOTES
from schedperf.evidence.pelt.comparability import NOT_SHORTER, READS_TOO_MUCH
from schedperf.evidence.pelt.compare import EMULATED
from schedperf.evidence.pelt.record import Pelt
from schedperf.model.schema import to_plain
from schedperf.model.sections import MissingSide
from tests.schedperf.evidence.pelt.conftest import stalled

Json = dict[str, Any]
Make = Callable[..., Json]
Runs = Callable[..., list[Json]]
Analyse = Callable[..., Pelt]

BASE = (1000, 1020, 990, 1010)
NEW = (3000, 3020, 2990, 3010)


def row_of(data: Pelt, **wanted: Any) -> Any:
    """Return the row of update_cfs_group's calls per wakeup, or what is wanted instead."""
    default = {"function": "update_cfs_group", "what": "calls", "node": None, "context": ""}
    chosen = default | {"per": "wakeup" if wanted.get("what", "calls") == "calls" else ""} | wanted
    (found,) = [
        row
        for row in data.rows
        if all(getattr(row, name) == value for name, value in chosen.items())
    ]
    return found


def test_calls_are_divided_by_wakeups_operations_and_time(
    analyse: Analyse, traced_runs: Runs
) -> None:
    data = analyse(traced_runs(BASE), traced_runs(NEW))
    row = row_of(data)
    # 1.5 times the calls of CPU 0, and 1000 wakeups a run.
    assert (row.unit, row.status, row.changed) == ("1/wakeup", "ok", True)
    assert row.base == pytest.approx(1.5 * 1.005, rel=0.001)
    assert row.new == pytest.approx(1.5 * 3.005, rel=0.001)
    assert row.total_base == pytest.approx(1.5 * 1005)
    assert row.ci_low < row.ratio < row.ci_high
    # 4 groups of 20 senders and receivers pass 100 messages each, in 2 s.
    messages = 160_000
    assert row_of(data, per="operation").new == pytest.approx(4507.5 / messages, rel=0.001)
    assert row_of(data, per="second").new == pytest.approx(4507.5 / 2, rel=0.001)


def test_nodes_and_contexts_add_up_to_the_whole(analyse: Analyse, traced_runs: Runs) -> None:
    data = analyse(traced_runs(BASE), traced_runs(NEW))
    whole = row_of(data).new
    nodes = [row_of(data, node=node).new for node in (0, 1)]
    assert nodes == [pytest.approx(whole * 2 / 3, rel=0.001), pytest.approx(whole / 3, rel=0.001)]
    contexts = [row_of(data, context=name).new for name in ("enqueue", "dequeue")]
    assert sum(contexts) == pytest.approx(whole, rel=0.001)
    assert contexts[0] == pytest.approx(whole * 2 / 3, rel=0.001)
    # What never was is no row of zeros.
    assert "tick" not in {row.context for row in data.rows}


def test_durations_are_less_the_probe_s_own_reading_and_shown_as_read(
    analyse: Analyse, traced_runs: Runs
) -> None:
    data = analyse(traced_runs(BASE, (200, 210, 190, 200)), traced_runs(BASE, (400, 410, 390, 400)))
    mean = row_of(data, what="mean")
    assert mean.base == pytest.approx(160e-9, rel=0.01)
    assert mean.read_base == pytest.approx(200e-9, rel=0.01)
    assert mean.ratio == pytest.approx(360 / 160, rel=0.01)
    assert mean.changed
    median = row_of(data, what="p50")
    assert median.resolution_base == pytest.approx(50e-9)
    assert abs(median.base - 200e-9) <= 50e-9
    # 1507.5 calls of 360 ns in 2 s of the 4 CPUs of the machine; two thirds on one node of two.
    assert row_of(data, what="share").new == pytest.approx(1507.5 * 360e-9 / 8, rel=0.01)
    assert row_of(data, what="share", node=0).new == pytest.approx(1005 * 360e-9 / 4, rel=0.01)
    probe = data.sides[0].probe
    assert probe is not None
    assert (probe.reads_ns, probe.pair_ci) == (40.0, (85.0, 95.0))


@pytest.mark.parametrize(("ns", "changes"), [(200, {"empty_probe": None}), (39, {})])
def test_a_reading_that_is_unknown_or_longer_than_the_calls_is_not_taken_off(
    analyse: Analyse, traced_runs: Runs, ns: int, changes: Json
) -> None:
    data = analyse(*[traced_runs(BASE, (ns,), **changes) for _ in range(2)])
    mean = row_of(data, what="mean")
    assert mean.base == pytest.approx(ns * 1e-9)
    assert mean.read_base == pytest.approx(ns * 1e-9)
    assert mean.remarks == (NOT_SHORTER,)


def test_a_reading_longer_than_the_calls_of_one_node_is_not_taken_off(
    analyse: Analyse, traced_runs: Runs
) -> None:
    def with_a_fast_node() -> list[Json]:
        runs = traced_runs(BASE)
        for run in runs:
            capture = json.loads(run["files"]["bpf_pelt/pelt.json"])
            durations = capture["functions"]["update_cfs_group"]["durations"]
            durations["sum_ns"]["2"] = 39 * durations["timed"]["2"]
            run["files"]["bpf_pelt/pelt.json"] = json.dumps(capture)
        return runs

    data = analyse(with_a_fast_node(), with_a_fast_node())
    assert row_of(data, what="mean").remarks == (NOT_SHORTER,)
    means = [row for row in data.rows if row.what == "mean"]
    assert len(means) > 1
    read = [row for row in means if row.read_base is not None]
    assert [row.base for row in read] == pytest.approx([row.read_base for row in read])
    assert all(row.base is not None and row.base > 0.0 for row in means)


def test_a_reading_longer_than_all_that_the_probe_adds_is_not_taken_off(
    analyse: Analyse, traced_runs: Runs, capture: Make
) -> None:
    probe = {**capture({})["empty_probe"], "reads_ns": 91.0}
    data = analyse(traced_runs(BASE), traced_runs(BASE, empty_probe=probe))
    mean = row_of(data, what="mean")
    assert (mean.base, mean.new) == (pytest.approx(200e-9), pytest.approx(200e-9))
    assert mean.remarks == (READS_TOO_MUCH,)
    # As long as all of it is possible; so is a cost that is not known.
    for kind in ({"reads_ns": 90.0}, {"pair_ns": None}):
        data = analyse(*[traced_runs(BASE, empty_probe={**probe, **kind})] * 2)
        assert row_of(data, what="mean").remarks == ()


def test_a_mean_that_few_calls_carry_says_so_and_has_a_trimmed_one_beside_it(
    analyse: Analyse, traced_runs: Runs
) -> None:
    data = analyse(traced_runs(BASE), stalled(traced_runs(BASE), 2))
    mean, trimmed, p99 = (row_of(data, what=what) for what in ("mean", "trimmed", "p99"))
    assert mean.new > p99.new
    assert mean.ratio > 10.0
    assert trimmed.ratio == pytest.approx(1.0, abs=0.01)
    text = (
        "new: the slowest 1% of the calls take 97.9% of the total duration of all calls; the "
        "trimmed mean excludes these slowest calls"
    )
    assert mean.remarks[-1] == row_of(data, what="share").remarks[-1] == text
    assert (mean.few_calls, trimmed.few_calls) == (True, False)


def test_a_mean_of_calls_that_take_alike_has_no_such_remark(
    analyse: Analyse, traced_runs: Runs
) -> None:
    mean = row_of(analyse(traced_runs(BASE), traced_runs(NEW)), what="mean")
    assert not mean.few_calls
    assert not any("slowest" in remark for remark in mean.remarks)


def test_sampled_calls_stand_for_the_others(analyse: Analyse, traced: Make, function: Make) -> None:
    one = function({0: 1000}, 240)
    sampled = function({0: 100}, 240)["durations"]
    runs = [traced({"update_cfs_group": {**one, "durations": sampled}}, sampling=10)] * 2
    data = analyse(runs, runs)
    assert row_of(data, what="share").base == pytest.approx(1000 * 200e-9 / 8)
    assert data.sides[0].sampling == (10,)


def test_other_mechanisms_are_invalid_and_both_are_named(
    analyse: Analyse, traced_runs: Runs
) -> None:
    breakpoint_ = {"mechanism": "breakpoint", "contexts": None, "durations": None}
    data = analyse(traced_runs(BASE), traced_runs(NEW, of_function=breakpoint_))
    row = row_of(data)
    assert (row.status, row.reason) == ("invalid", "base: fentry/fexit, new: breakpoint")
    assert row.base == pytest.approx(1.5e-3 * geometric_mean(BASE))
    assert row.new == pytest.approx(1.5e-3 * geometric_mean(NEW))
    assert (row.ratio, row.q, row.changed) == (None, None, None)
    # Of a node or a context there is nothing to set beside each other.
    assert all(row.node is None and not row.context for row in data.rows)


def test_one_run_that_was_seen_otherwise_makes_the_side_invalid(
    analyse: Analyse, traced_runs: Runs
) -> None:
    odd = traced_runs((1000,), of_function={"mechanism": "kprobe/kretprobe"})
    data = analyse(traced_runs(BASE), [*traced_runs(NEW), *odd])
    assert row_of(data).reason == "base: fentry/fexit, new: fentry/fexit and kprobe/kretprobe"


def test_what_one_side_could_not_see_says_all_that_was_tried(
    analyse: Analyse, traced_runs: Runs
) -> None:
    blind = {
        "mechanism": None, "calls": None, "contexts": None, "durations": None,
        "tried": {"fentry/fexit": "no BTF", "breakpoint": "not supported"},
    }  # fmt: skip
    data = analyse(traced_runs(BASE), traced_runs(NEW, of_function=blind))
    row = row_of(data)
    assert (row.status, row.new, row.n_new) == ("invalid", None, 0)
    assert row.reason == (
        "base: fentry/fexit, new: not measured (fentry/fexit: no BTF; breakpoint: not supported)"
    )
    [unseen] = data.unseen
    assert (unseen.side, unseen.function, unseen.runs) == ("new", "update_cfs_group", 4)
    assert [(one.mechanism, one.reason) for one in unseen.tried] == [
        ("fentry/fexit", "no BTF"),
        ("breakpoint", "not supported"),
    ]


def test_what_no_side_could_see_has_no_row(analyse: Analyse, traced: Make) -> None:
    blind = {"mechanism": None, "tried": {"fentry/fexit": "no BTF"}, "calls": None}
    runs = [traced({"update_cfs_group": blind})] * 2
    data = analyse(runs, runs)
    assert data.rows == ()
    assert [one.side for one in data.unseen] == ["base", "new"]


def test_other_sampling_makes_durations_invalid_and_leaves_calls(
    analyse: Analyse, traced_runs: Runs
) -> None:
    data = analyse(traced_runs(BASE), traced_runs(NEW, sampling=64))
    assert row_of(data).status == "ok"
    mean = row_of(data, what="mean")
    assert mean.status == "invalid"
    assert mean.reason == (
        "base: all calls timed by fentry/fexit, new: 1 in 64 calls timed by fentry/fexit"
    )


def test_other_markers_make_contexts_no_rows_and_leave_calls(
    analyse: Analyse, traced_runs: Runs
) -> None:
    markers = {"mechanism": "fentry/fexit", "markers": {"enqueue": ["f"]}, "missing": {}}
    data = analyse(traced_runs(BASE), traced_runs(NEW, contexts=markers))
    assert row_of(data).changed
    assert not any(row.context for row in data.rows)
    (note,) = data.notes
    assert note == (
        "per-context calls of update_cfs_group are not compared (base: contexts marked by "
        "fentry/fexit: dequeue, enqueue, new: contexts marked by fentry/fexit: enqueue)"
    )


def test_exits_without_an_entry_are_said_from_one_in_a_thousand_calls(
    analyse: Analyse, traced_runs: Runs
) -> None:
    few, many = ({"lost": {"unpaired": number, "nested": 0}} for number in (1, 2))
    data = analyse(traced_runs(BASE, of_function=few), traced_runs(BASE, of_function=many))
    assert row_of(data).remarks == (
        "new: update_cfs_group has 8 exits without a recorded entry among 6030 calls",
    )


def test_durations_of_an_emulated_guest_are_diagnostic_and_calls_are_valid(
    analyse: Analyse, traced_runs: Runs
) -> None:
    host = {"virtualisation": {"emulated": True}}
    data = analyse(traced_runs(BASE), traced_runs(NEW), host=host)
    assert row_of(data).remarks == ()
    assert EMULATED in row_of(data, what="mean").remarks
    assert data.sides[0].emulated is True


def test_runs_without_a_count_of_wakeups_have_no_calls_per_wakeup(
    analyse: Analyse, traced_runs: Runs
) -> None:
    data = analyse(traced_runs(BASE), traced_runs(NEW, wakeups=None))
    assert {row.per for row in data.rows if row.what == "calls"} == {
        "operation",
        "second",
    }
    assert any("new: calls per wakeup are unknown" in note for note in data.notes)


@pytest.mark.parametrize(
    "text",
    [
        "N0,2,900,,sched:sched_wakeup,9,100.00,,\nN1,2,<not counted>,,sched:sched_wakeup,0,0,,\n",
        "0,,sched:sched_wakeup,9,100.00,,\n",
        "1e-300,,sched:sched_wakeup,9,100.00,,\n",
        "900,,sched:sched_waking,9,100.00,,\n",
        "sched:sched_wakeup\n",
    ],
)
def test_a_wakeup_count_that_perf_did_not_make_is_none(
    analyse: Analyse, traced_runs: Runs, text: str
) -> None:
    runs = traced_runs(BASE)
    for run in runs:
        run["files"]["perf_stat/perf_stat.csv"] = text
    data = analyse(runs, traced_runs(NEW))
    assert not any(row.per == "wakeup" for row in data.rows)


def test_a_call_that_the_gate_cut_off_does_not_make_few_calls_disagree(
    analyse: Analyse, traced_runs: Runs
) -> None:
    def checked(counted: int) -> Json:
        return {"breakpoints": {"functions": {"update_cfs_group": counted}}}

    # 30 calls in all, of which the breakpoint saw one more.
    data = analyse(traced_runs((20,), **checked(31)), traced_runs((20,), **checked(33)))
    assert [one.agrees for one in data.cross_checks] == [True, False]


def test_histograms_and_second_counts_are_data(analyse: Analyse, traced_runs: Runs) -> None:
    def checked(counted: int) -> Json:
        return {"breakpoints": {"functions": {"update_cfs_group": counted}}}

    data = analyse(traced_runs((1000,), **checked(1500)), traced_runs((1000,), **checked(1400)))
    one = data.histograms[0]
    assert (one.side, one.runs, sum(one.log2_ns), one.linear_ns[4]) == (
        "base", 1, 1500, 1500,
    )  # fmt: skip
    assert [(one.calls, one.breakpoint, one.agrees) for one in data.cross_checks] == [
        (1500, 1500, True),
        (1500, 1400, False),
    ]


def test_a_count_by_breakpoints_alone_is_no_check_of_itself(
    analyse: Analyse, traced_runs: Runs
) -> None:
    chosen = {"of_function": {"mechanism": "breakpoint", "contexts": None, "durations": None},
              "breakpoints": {"functions": {"update_cfs_group": 1500}}}  # fmt: skip
    data = analyse(*[traced_runs((1000,), **chosen) for _ in range(2)])
    assert data.cross_checks == ()


def test_the_same_runs_have_no_change(analyse: Analyse, traced_runs: Runs) -> None:
    runs = traced_runs(BASE, (200, 210, 190, 205))
    data = analyse(runs, runs)
    assert data.rows
    assert not any(row.changed for row in data.rows)
    assert all(row.ratio == pytest.approx(1.0) for row in data.rows)


def test_a_run_that_cannot_be_read_is_left_out_and_said(
    analyse: Analyse, traced_runs: Runs
) -> None:
    damaged = traced_runs((1000,))
    damaged[0]["files"]["bpf_pelt/pelt.json"] = '{"schema": "schedperf/bpf_pelt/1"}'
    data = analyse([*traced_runs(BASE), *damaged], traced_runs(NEW, lost_cpus=[3], notes=["odd"]))
    assert row_of(data).n_base == 4
    assert data.notes[0] == (
        "base: boots/0/runs/004/bpf_pelt/pelt.json: $.seconds is missing; copy the file again"
    )
    assert "new: odd (4 runs)" in data.notes
    assert "new: CPUs that went online or offline during a run: 3" in data.notes


def loaded_by(used: str | None, no_types: str | None = None) -> dict[str, Any]:
    return {
        "loader": {
            "used": used, "asked": "auto", "tried": {"libbpf": None}, "no_types": no_types,
            "seconds": 0.4,
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("base", "new", "loaders"),
    [
        ({}, {}, None),
        (loaded_by("libbpf"), loaded_by("libbpf"), None),
        (loaded_by("libbpf"), loaded_by("bcc"), "(base: libbpf, new: bcc)"),
        (loaded_by(None), {}, "(base: no program loaded, new: loader not recorded)"),
    ],
)
def test_sides_whose_loaders_differ_say_so(
    analyse: Analyse, traced_runs: Runs, base: Any, new: Any, loaders: str | None
) -> None:
    notes = analyse(traced_runs(BASE, **base), traced_runs(NEW, **new)).notes
    told = [note for note in notes if "different BPF loaders" in note]
    assert [note.endswith(loaders or "") for note in told] == [True] * (loaders is not None)


def test_what_a_kernel_without_types_lacks_is_said(analyse: Analyse, traced_runs: Runs) -> None:
    lacking = loaded_by("bcc", "/sys/kernel/btf/vmlinux: no types in it: no fentry")
    notes = analyse(traced_runs(BASE, **lacking), traced_runs(NEW, **lacking)).notes
    assert "new: /sys/kernel/btf/vmlinux: no types in it: no fentry (4 runs)" in notes


def test_a_run_of_endless_notes_has_some_of_them(analyse: Analyse, traced_runs: Runs) -> None:
    notes = [f"odd {number}" for number in range(10 * MOST_NOTES)]
    data = analyse(traced_runs(BASE), traced_runs(NEW, notes=notes))
    assert sum("odd" in note for note in data.notes) == MOST_NOTES


def test_points_of_one_side_only_are_said(analyse: Analyse, traced_runs: Runs) -> None:
    more = [{**run, "point": {"groups": "8"}} for run in traced_runs(BASE)]
    four = [{**run, "point": {"groups": "4"}} for run in traced_runs(BASE)]
    data = analyse([*four, *more], four)
    assert any("at groups=8 was traced only on base" in note for note in data.notes)
    assert {row.point for row in data.rows} == {"groups=4"}


def test_bundles_without_a_trace_say_why(analyse: Analyse, traced_runs: Runs) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with bpf_pelt"):
        analyse([{}], [{}])
    skipped = {
        "collector": "bpf_pelt",
        "path": "boots/0/runs/000/bpf_pelt",
        "status": "skipped",
        "reason": "no kernel headers, so bcc cannot compile",
    }
    with pytest.raises(Absent, match="bpf_pelt of base: no kernel headers, so bcc cannot compile"):
        analyse([{}], [{}], captures=[skipped])
    with pytest.raises(Absent, match="no run of new was recorded"):
        analyse(traced_runs(BASE), [{}])
    with pytest.raises(Absent, match="no new side"):
        analyse(traced_runs(BASE))


def test_one_of_several_new_sides_may_lack_the_trace(analyse: Analyse, traced_runs: Runs) -> None:
    data = analyse(traced_runs(BASE), [{}], traced_runs(NEW))
    assert data.missing == (
        MissingSide(side="new", reason="no run of new was recorded with bpf_pelt"),
    )
    assert {row.side for row in data.rows} == {"new2"}


@pytest.mark.slow
def test_a_hostile_machine_takes_bounded_time(
    analyse: Analyse, traced: Make, function: Make
) -> None:
    cpus = [
        {"cpu": cpu, "core": cpu, "cluster": None, "llc": cpu, "socket": 0, "node": cpu}
        for cpu in range(128)
    ]
    calls = dict.fromkeys(range(128), 10)
    contexts = {f"c{number}": {"0": 80} for number in range(MOST_CONTEXTS)}
    many = {
        f"f{number}": function(calls, 200, contexts=contexts) for number in range(MOST_FUNCTIONS)
    }
    runs = [traced(many)]
    begin = time.process_time()
    data = analyse(runs, runs, host={"topology": {"cpus": cpus}})
    assert time.process_time() - begin < 120.0
    assert len(json.dumps(to_plain(data))) < 64 << 20


def test_more_nodes_than_any_machine_has_are_not_looked_at(
    analyse: Analyse, traced_runs: Runs
) -> None:
    cpus = [{"cpu": cpu, "node": cpu} for cpu in range(129)]
    data = analyse(traced_runs(BASE), traced_runs(NEW), host={"topology": {"cpus": cpus}})
    assert all(row.node is None for row in data.rows)
