"""Counts of runs of one workload and point are compared; what could not be counted is said."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from scipy import stats

from schedperf.sections import Absent
from schedperf.sections.counters import SCHEMA, counters

# One run: counts by event, per node.
Counts = Mapping[str, Sequence[float | str]]
Analyse = Callable[..., Any]

BASE = (100.0, 104.0, 96.0)
NEW = (150.0, 156.0, 144.0)


def csv(counts: Counts, *, per_node: bool = True, percent: float = 100.0) -> str:
    return "".join(
        f"{f'N{node},2,' if per_node else ''}{value},,{event},1000,{percent:.2f},,\n"
        for event, values in counts.items()
        for node, value in enumerate(values)
    )


def run(text: str, **chosen: object) -> dict[str, object]:
    files = {"perf_stat/perf_stat.csv": text}
    return {"kind": "instrumented", "time_s": 1.99, "files": files, **chosen}


def switches(values: Sequence[float]) -> list[dict[str, object]]:
    return [run(csv({"sched:sched_switch": [value]})) for value in values]


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(counters, SCHEMA)


def test_totals_are_means_with_welchs_interval(analyse: Analyse) -> None:
    [row] = analyse(switches(BASE), switches(NEW))["rows"]
    expected = stats.ttest_ind(NEW, BASE, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert (row["event"], row["unit"], row["node"]) == ("sched:sched_switch", "count", None)
    assert (row["n_base"], row["n_new"]) == (3, 3)
    assert (row["total"]["base"], row["total"]["new"]) == (100.0, 150.0)
    assert (row["total"]["difference"], row["total"]["ratio"]) == (50.0, 1.5)
    assert row["total"]["ci_low"] == pytest.approx(low)
    assert row["total"]["ci_high"] == pytest.approx(high)
    assert row["total"]["p"] == pytest.approx(expected.pvalue)


def test_rates_are_a_second_of_wall_time(analyse: Analyse) -> None:
    # The runs take 1.99 s and 0.01 s more from fork to exit.
    [row] = analyse(switches(BASE), switches(NEW))["rows"]
    assert row["per_second"]["base"] == pytest.approx(50.0)
    assert row["per_second"]["difference"] == pytest.approx(25.0)


def test_nodes_are_shown_beside_their_sum(analyse: Analyse) -> None:
    text = csv({"sched:sched_switch": [60, 40], "cpu-migrations": [3, 4]})
    rows = analyse([run(text)] * 2, [run(text)] * 2)["rows"]
    found = {(row["event"], row["node"]): row["total"]["base"] for row in rows}
    assert found == {
        ("sched:sched_switch", None): 100.0,
        ("sched:sched_switch", 0): 60.0,
        ("sched:sched_switch", 1): 40.0,
        ("cpu-migrations", None): 7.0,
        ("cpu-migrations", 0): 3.0,
        ("cpu-migrations", 1): 4.0,
    }


def test_a_sum_without_one_node_is_no_sum(analyse: Analyse) -> None:
    text = csv({"cycles": [60, "<not counted>"]})
    rows = analyse([run(text)] * 2, [run(text)] * 2)["rows"]
    assert [row["node"] for row in rows if row["n_base"]] == [0]


def test_one_run_a_side_has_a_difference_and_no_interval(analyse: Analyse) -> None:
    [row] = analyse(switches(BASE[:1]), switches(NEW[:1]))["rows"]
    assert row["total"]["difference"] == 50.0
    assert row["total"]["ci_low"] is row["total"]["p"] is None


def test_an_event_of_one_side_only_is_missing_and_not_zero(analyse: Analyse) -> None:
    base = [run(csv({"context-switches": [5]}))] * 2
    new = [run(csv({"context-switches": [5], "cycles": [10**9]}))] * 2
    rows = {row["event"]: row for row in analyse(base, new)["rows"]}
    assert rows["cycles"]["n_base"] == 0
    assert rows["cycles"]["total"]["base"] is None
    assert rows["cycles"]["total"]["difference"] is None
    assert rows["cycles"]["total"]["ratio"] is None


def test_a_count_of_zero_has_no_ratio(analyse: Analyse) -> None:
    [row] = analyse(switches([0.0, 0.0]), switches([3.0, 5.0]))["rows"]
    assert row["total"]["ratio"] is None
    assert row["total"]["difference"] == 4.0


def test_points_are_compared_each_with_itself(analyse: Analyse) -> None:
    def at(groups: str, value: int) -> dict[str, object]:
        return run(csv({"sched:sched_switch": [value]}), point={"groups": groups})

    rows = analyse([at("1", 10), at("4", 40)], [at("1", 11), at("4", 80)])["rows"]
    assert {row["point"]: row["total"]["ratio"] for row in rows} == {
        "groups=1": pytest.approx(1.1),
        "groups=4": 2.0,
    }


def test_clean_warm_up_and_failed_runs_do_not_count(analyse: Analyse) -> None:
    text = csv({"sched:sched_switch": [10**6]})
    others = [run(text, kind="clean"), run(text, warmup=True), run(text, exit_status=1)]
    [row] = analyse([*switches(BASE), *others], switches(NEW))["rows"]
    assert (row["n_base"], row["total"]["base"]) == (3, 100.0)


def test_extrapolated_counts_are_marked(analyse: Analyse) -> None:
    text = csv({"cycles": [10**9]}, per_node=False, percent=49.99)
    [row] = analyse([run(text)], [run(text)])["rows"]
    assert row["scaled"]


def test_each_new_side_is_compared_with_base(analyse: Analyse) -> None:
    rows = analyse(switches(BASE), switches(NEW), switches(BASE))["rows"]
    assert {row["side"]: row["total"]["ratio"] for row in rows} == {"new": 1.5, "new2": 1.0}


def test_what_was_not_counted_has_its_reason(analyse: Analyse) -> None:
    facts = json.dumps({"not_counted": {"cycles": "perf says: not supported"}})
    text = csv({"sched:sched_switch": [100]})
    files = {"perf_stat/perf_stat.csv": text, "perf_stat/perf_stat.json": facts}
    data = analyse([run(text, files=files)] * 2, switches(NEW))
    assert data["not_counted"] == [
        {"side": "base", "event": "cycles", "reason": "perf says: not supported"}
    ]


@pytest.mark.parametrize("facts", ["", "[]", '{"not_counted": 3}', '{"not_counted": {"x": []}}'])
def test_a_damaged_run_is_a_note_and_costs_nothing_else(analyse: Analyse, facts: str) -> None:
    text = csv({"sched:sched_switch": [10**6]})
    files = {"perf_stat/perf_stat.csv": text, "perf_stat/perf_stat.json": facts}
    data = analyse([run(text, files=files), *switches(BASE)], switches(NEW))
    assert [row["total"]["base"] for row in data["rows"]] == [100.0]
    [note] = data["notes"]
    assert note.startswith("base: boots/0/runs/000/perf_stat/perf_stat.json")


def test_a_bad_line_is_a_note(analyse: Analyse) -> None:
    bad = run("nonsense\n" + csv({"sched:sched_switch": [100]}))
    data = analyse([bad], switches(NEW))
    assert data["rows"][0]["n_base"] == 1
    assert data["notes"] == [
        "base: boots/0/runs/000/perf_stat/perf_stat.csv:1: 1 fields are too few for perf stat's CSV"
    ]


def test_without_counts_the_recorders_reason_is_given(analyse: Analyse) -> None:
    skipped = {
        "collector": "perf_stat",
        "path": "boots/0/runs/000/perf_stat",
        "status": "skipped",
        "reason": "perf is not permitted to this user",
    }
    with pytest.raises(Absent, match="perf_stat of base: perf is not permitted"):
        analyse([{}], [{}], captures=[skipped])


def test_bundles_without_instrumented_runs_are_absent(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no instrumented run was recorded with perf_stat"):
        analyse([{}], [{}])
