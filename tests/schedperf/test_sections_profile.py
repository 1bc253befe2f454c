"""The profile section and its finding rule on bundles whose samples are known."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from schedperf.bundle import open_bundle
from schedperf.findings.hotter_symbols import MOST_FINDINGS, hotter_symbols
from schedperf.model import Finding, Section
from schedperf.sections import Absent
from schedperf.sections.profile import MOST_ROWS, SCHEMA, profile
from schedperf.sides import name_sides

TEXT = 0xFFFFFFFF81000000
SYMBOLS = ("update_cfs_group", "update_load_avg.isra.0", "vfs_write", "default_idle", "end_of_text")
KALLSYMS = "".join(
    f"{address:016x} T {name}\n"
    for address, name in [(TEXT - 0x1000, "_text")]
    + [(TEXT + 0x100 * number, name) for number, name in enumerate(SYMBOLS)]
)
NMI = {
    "event": "cycles",
    "clock": "pmu",
    "blind": False,
    "blind_reason": "the PMU interrupts by NMI",
}
TIMER = [("cpu-clock:ppp", 1, 0)]

Weights = Mapping[str, int]
MakePerfData = Callable[..., bytes]
Compare = Callable[..., dict[str, Any]]


def samples_of(nodes: Mapping[int, Weights]) -> list[dict[str, Any]]:
    """Return one sample a CPU and symbol; CPU n is on node n // 2 of the generated machine."""
    return [
        {
            "ip": TEXT + 0x100 * SYMBOLS.index(name) + 8,
            "cpu": cpu,
            "period": weight,
            "pid": 0 if name == "default_idle" else 9,
        }
        for cpu, weights in nodes.items()
        for name, weight in weights.items()
    ]


def instrumented(
    perf_data: bytes, facts: Mapping[str, Any] | None = NMI, **chosen: Any
) -> dict[str, Any]:
    files: dict[str, bytes | str] = {"perf_profile/perf.data": perf_data}
    if facts is not None:
        files["perf_profile/perf_profile.json"] = json.dumps(facts)
    return {"kind": "instrumented", "files": files, **chosen}


@pytest.fixture
def compare(tmp_path: Path, make_bundle: Callable[..., Path]) -> Compare:
    """Return the section's data for sides that are given as runs; it follows its schema."""

    def run(
        *sides: Sequence[Mapping[str, Any]], layout: Mapping[str, str] | None = None, **chosen: Any
    ) -> dict[str, Any]:
        captured = {"kallsyms": KALLSYMS} if layout is None else layout
        files = {f"boots/0/layout/{name}": text for name, text in captured.items()}
        paths = [
            make_bundle(tmp_path / f"{number}.tar", runs=runs, files=files, **chosen)
            for number, runs in enumerate(sides)
        ]
        data = profile(name_sides([open_bundle(path) for path in paths]))
        jsonschema.validate(data, SCHEMA)
        return json.loads(json.dumps(data))  # type: ignore[no-any-return] # the schema says what it is

    return run


@pytest.fixture
def runs_of(make_perf_data: MakePerfData) -> Callable[..., list[dict[str, Any]]]:
    """Return instrumented runs, one for each share of update_cfs_group in per mille."""

    def make(*per_mille: int, **chosen: Any) -> list[dict[str, Any]]:
        events = chosen.pop("events", [("cycles", 0, 0)])
        return [
            instrumented(
                make_perf_data(
                    samples_of({0: {"update_cfs_group": hot, "vfs_write": 1000 - hot}}),
                    events=events,
                ),
                **chosen,
            )
            for hot in per_mille
        ]

    return make


Runs = Callable[..., list[dict[str, Any]]]


def findings_of(data: Mapping[str, Any]) -> list[Finding]:
    section = Section(schema="", status="ok", reason=None, data=data)
    return list(hotter_symbols({"profile": section}))


def points_of(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    return data["comparisons"][0]["events"][0]["points"]  # type: ignore[no-any-return] # the schema says so


def row_of(data: Mapping[str, Any], symbol: str = "update_cfs_group") -> dict[str, Any]:
    return next(row for row in points_of(data)[0]["rows"] if row["symbol"] == symbol)


def test_shares_and_ranges_over_nodes_are_those_of_the_samples(
    compare: Compare, make_perf_data: MakePerfData
) -> None:
    base = samples_of(
        {
            0: {"update_cfs_group": 10, "vfs_write": 40, "default_idle": 50},
            2: {"update_cfs_group": 40, "vfs_write": 60},
        }
    )
    new = samples_of({0: {"update_cfs_group": 50, "vfs_write": 50}, 2: {"update_cfs_group": 100}})
    data = compare([instrumented(make_perf_data(base))], [instrumented(make_perf_data(new))])
    row = row_of(data)
    assert (row["base"], row["new"], row["change_pp"]) == (25.0, 75.0, 50.0)
    assert row["base_nodes"] == {"0": 20.0, "1": 40.0}
    assert row["new_nodes"] == {"0": 50.0, "1": 100.0}
    assert (row["base_range"], row["new_range"]) == ([20.0, 40.0], [50.0, 100.0])
    assert (row["ci_low"], row["ci_high"], row["p"], row["changed"]) == (None, None, None, False)
    assert points_of(data)[0]["idle"] == {"base": 25.0, "new": 0.0}
    idle = row_of(data, "default_idle")
    assert (idle["idle"], idle["base_range"]) == (True, [0.0, 0.0])


def test_shares_are_averaged_over_runs_and_the_change_has_an_interval(
    compare: Compare, runs_of: Runs
) -> None:
    data = compare(runs_of(10, 20, 30), runs_of(110, 120, 130))
    row = row_of(data)
    assert points_of(data)[0]["runs"] == {"base": 3, "new": 3}
    assert (row["base"], row["new"], row["change_pp"]) == pytest.approx((2.0, 12.0, 10.0))
    # Welch with 4 degrees of freedom: 2.776 times sqrt(1/3 + 1/3).
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((10 - 2.2669, 10 + 2.2669), abs=1e-3)
    assert row["changed"]
    assert points_of(data)[0]["rows"][0] == row


def test_the_same_data_has_no_finding(compare: Compare, runs_of: Runs) -> None:
    data = compare(runs_of(10, 20, 30), runs_of(10, 20, 30))
    assert row_of(data)["change_pp"] == 0.0
    assert findings_of(data) == []


def test_a_function_of_the_scheduler_that_changed_is_a_finding_with_its_numbers(
    compare: Compare, runs_of: Runs
) -> None:
    four = {"point": {"groups": "4"}}
    data = compare(runs_of(10, 20, 30, **four), runs_of(110, 120, 130, **four))
    (found,) = findings_of(data)
    assert found.claim == (
        "update_cfs_group takes 12.00 % of all CPUs at groups=4, 10.00 pp more than before "
        "(95 % interval +7.73..+12.27 pp)"
    )
    assert found.evidence == ("profile#update_cfs_group",)
    assert (found.n, found.unit) == ((3, 3), "pp")
    assert found.attribution == "co-occurs; not shown to cause the change"
    assert found.value == pytest.approx(10.0)


def test_other_functions_are_no_findings(compare: Compare, make_perf_data: MakePerfData) -> None:
    def runs(*idle: int) -> list[dict[str, Any]]:
        weights = [samples_of({0: {"vfs_write": 1000 - i, "default_idle": i}}) for i in idle]
        return [instrumented(make_perf_data(samples)) for samples in weights]

    data = compare(runs(10, 20, 30), runs(510, 520, 530))
    assert row_of(data, "vfs_write")["p"] < 0.01
    assert findings_of(data) == []


def test_a_small_or_uncertain_change_is_no_finding(compare: Compare, runs_of: Runs) -> None:
    assert findings_of(compare(runs_of(100, 300, 20), runs_of(150, 60, 420))) == []
    tiny = compare(runs_of(100, 100, 101), runs_of(100, 101, 101))
    assert findings_of(tiny) == []


def test_a_blind_event_is_the_finding_and_changes_are_not(compare: Compare, runs_of: Runs) -> None:
    chosen = {"events": TIMER, "facts": {"blind": True, "clock": "hrtimer", "blind_reason": "x"}}
    data = compare(runs_of(10, 20, 30, **chosen), runs_of(110, 120, 130, **chosen))
    event = data["comparisons"][0]["events"][0]
    assert event["event"] == "cpu-clock"
    assert event["blind"] == {"base": True, "new": True}
    assert not any(row["changed"] for point in event["points"] for row in point["rows"])
    (found,) = findings_of(data)
    assert found.claim.startswith("the profile cannot see the scheduler's own cost: cpu-clock is")
    assert found.value is None
    assert found.attribution == "neither shows nor rules out a cause in the scheduler"


def test_cpu_clock_is_blind_whatever_perf_profile_json_says(
    compare: Compare, runs_of: Runs
) -> None:
    data = compare(runs_of(10, 20, events=TIMER), runs_of(30, 40, events=TIMER, facts=None))
    assert data["comparisons"][0]["events"][0]["blind"] == {"base": True, "new": True}


def test_without_perf_profile_json_nobody_knows_whether_a_pmu_is_blind(
    compare: Compare, runs_of: Runs
) -> None:
    data = compare(runs_of(10, 20, 30, facts=None), runs_of(110, 120, 130))
    assert data["comparisons"][0]["events"][0]["blind"] == {"base": None, "new": False}
    assert findings_of(data) == []


def test_different_events_are_not_compared(compare: Compare, runs_of: Runs) -> None:
    data = compare(runs_of(10), runs_of(10, events=TIMER))
    assert data["comparisons"][0]["events"] == []
    assert data["comparisons"][0]["notes"] == [
        "cycles was sampled on base only, so it is compared with nothing",
        "cpu-clock was sampled on new only, so it is compared with nothing",
    ]


def test_modifiers_do_not_make_another_event(compare: Compare, runs_of: Runs) -> None:
    data = compare(runs_of(10), runs_of(10, events=[("cycles:ppp", 0, 0)]))
    assert [event["event"] for event in data["comparisons"][0]["events"]] == ["cycles"]


def test_only_runs_of_one_point_are_compared_and_the_heaviest_comes_first(
    compare: Compare, runs_of: Runs, make_perf_data: MakePerfData
) -> None:
    heavy = instrumented(
        make_perf_data(samples_of({cpu: {"vfs_write": 5, "default_idle": 1} for cpu in range(4)})),
        point={"groups": "8"},
    )
    base = [*runs_of(10, point={"groups": "1"}), heavy, *runs_of(10, point={"groups": "2"})]
    data = compare(base, [*runs_of(20, point={"groups": "1"}), heavy])
    assert [point["point"] for point in points_of(data)] == ["groups=8", "groups=1"]
    assert [point["rows"][0]["row"] for point in points_of(data)] == [
        "vfs_write",
        "hackbench -l 100 -g {groups}/groups=1/vfs_write",
    ]
    assert data["comparisons"][0]["notes"] == [
        "hackbench -l 100 -g {groups} at groups=2 was profiled with cycles on base only"
    ]


def test_every_new_side_is_compared_and_row_ids_are_unique(compare: Compare, runs_of: Runs) -> None:
    data = compare(runs_of(10), runs_of(20), runs_of(30))
    sides = [(one["side"], one["events"][0]["points"][0]["rows"]) for one in data["comparisons"]]
    assert [side for side, _ in sides] == ["new", "new2"]
    names = [row["row"] for _, rows in sides for row in rows]
    assert len(names) == len(set(names)) == 4


def test_a_side_without_profiles_is_missing_and_the_others_are_compared(
    compare: Compare, runs_of: Runs
) -> None:
    data = compare(runs_of(10), [{}], runs_of(30))
    assert [one["side"] for one in data["comparisons"]] == ["new2"]
    assert data["missing"] == [
        {"side": "new", "reason": "new: no instrumented run was recorded with perf_profile"}
    ]


def test_clean_failed_and_warmup_runs_do_not_count(compare: Compare, runs_of: Runs) -> None:
    unused = [
        *runs_of(900, kind="clean"),
        *runs_of(900, exit_status=1),
        *runs_of(900, warmup=True),
    ]
    data = compare([*runs_of(10), *unused], runs_of(10))
    assert points_of(data)[0]["runs"] == {"base": 1, "new": 1}


def test_a_run_with_unreadable_perf_data_is_a_note(compare: Compare, runs_of: Runs) -> None:
    data = compare([*runs_of(10), instrumented(b"nonsense")], runs_of(10))
    assert points_of(data)[0]["runs"] == {"base": 1, "new": 1}
    where = "base: boots/0/runs/001/perf_profile/perf.data"
    why = "not a perf.data file: it starts with b'nonsense'; give one of perf record"
    assert data["comparisons"][0]["notes"] == [f"{where}: {why}"]


@pytest.mark.parametrize("facts", [["x"], {"blind": "yes"}, {"clock": 5}])
def test_a_wrong_perf_profile_json_is_a_note(compare: Compare, runs_of: Runs, facts: Any) -> None:
    data = compare(runs_of(10, 20), [*runs_of(10), *runs_of(10, facts=facts)])
    assert points_of(data)[0]["runs"] == {"base": 2, "new": 1}
    assert "perf_profile.json" in data["comparisons"][0]["notes"][0]


def test_without_any_profile_the_section_is_absent_and_says_why(
    compare: Compare, runs_of: Runs
) -> None:
    skipped = {"collector": "perf_profile", "path": "boots/0/runs/000/perf_profile"}
    why = {**skipped, "status": "skipped", "reason": "perf is not installed"}
    with pytest.raises(Absent, match="^base: perf_profile was skipped: perf is not installed$"):
        compare([{}], runs_of(10), captures=[why])
    with pytest.raises(Absent, match="^base: boots/0/runs/000/perf_profile/perf.data: not a perf"):
        compare([instrumented(b"nonsense")], runs_of(10))
    with pytest.raises(Absent, match="^there is no new side$"):
        compare(runs_of(10))


def test_system_map_is_slid_to_where_the_kernel_was(
    compare: Compare, make_perf_data: MakePerfData
) -> None:
    slide = 0x12000000
    samples = [{"ip": TEXT + slide + 8}]
    slid = make_perf_data(samples, kernel=("_text", TEXT - 0x1000 + slide))
    hidden = "0000000000000000 T _text\n0000000000000000 T schedule\n"
    data = compare(
        [instrumented(slid)],
        [instrumented(slid)],
        layout={"System.map": KALLSYMS, "kallsyms": hidden},
    )
    assert row_of(data)["base"] == 100.0
    assert "all addresses are hidden" in data["comparisons"][0]["notes"][0]


def test_without_an_address_system_map_is_of_no_use(compare: Compare, runs_of: Runs) -> None:
    data = compare(runs_of(10), runs_of(10), layout={"System.map": KALLSYMS})
    assert points_of(data)[0]["rows"][0]["symbol"] == "[kernel] unresolved"
    notes = data["comparisons"][0]["notes"]
    assert notes[0].endswith("perf.data does not say where the kernel was; use kallsyms")
    assert notes[1] == "base: boots/0: kernel addresses stay unresolved"


def test_a_recording_of_another_kernel_is_noted(
    compare: Compare, make_perf_data: MakePerfData
) -> None:
    build_id = (
        b"\0\0\0\0\1\0\x38\0" + b"\xff" * 4 + b"\xab" * 20 + b"\0" * 4 + b"[kernel.kallsyms]\0\0\0"
    )
    data = make_perf_data(samples_of({0: {"vfs_write": 1}}), features={2: build_id})
    notes = compare([instrumented(data)], [instrumented(data)])["comparisons"][0]["notes"]
    assert notes[0] == (
        f"base: boots/0: perf.data is of the kernel with build id {'ab' * 20}, host.json of 3f1c5a"
    )


def test_nodes_of_perf_data_are_used_where_host_json_has_none(
    compare: Compare, make_perf_data: MakePerfData
) -> None:
    data = make_perf_data(samples_of({0: {"vfs_write": 1}, 1: {"vfs_write": 1}}), nodes={5: "0-1"})
    runs = [instrumented(data)]
    assert row_of(compare(runs, runs, host=None), "vfs_write")["base_nodes"] == {"5": 100.0}
    topology = {"topology": {"cpus": [{"cpu": "x"}, 3, {"cpu": 0, "node": None}]}}
    assert row_of(compare(runs, runs, host=topology), "vfs_write")["base_nodes"] == {"5": 100.0}


def test_lost_records_are_counted(compare: Compare, make_perf_data: MakePerfData) -> None:
    lost = b"\0" * 8 + b"\7" + b"\0" * 7
    data = make_perf_data(samples_of({0: {"vfs_write": 1}}), records=[(2, lost)])
    point = points_of(compare([instrumented(data)], [instrumented(data)]))[0]
    assert point["lost"] == {"base": 7, "new": 7}


def test_cold_symbols_are_left_out_but_not_those_of_the_scheduler(
    compare: Compare, make_perf_data: MakePerfData
) -> None:
    names = [*(f"cold_{i:03d}" for i in range(60)), "pick_eevdf", "_end"]
    kallsyms = "".join(f"{TEXT + 16 * i:016x} T {name}\n" for i, name in enumerate(names))
    samples = [{"ip": TEXT + 16 * i, "period": 1000 - i} for i in range(60)]
    data = make_perf_data([*samples, {"ip": TEXT + 16 * 60, "period": 1}])
    found = compare([instrumented(data)], [instrumented(data)], layout={"kallsyms": kallsyms})
    point = points_of(found)[0]
    symbols = [row["symbol"] for row in point["rows"]]
    assert point["symbols"] == 61
    assert len(symbols) == MOST_ROWS + 1
    assert symbols[-1] == "pick_eevdf"


def test_findings_are_limited(compare: Compare, make_perf_data: MakePerfData) -> None:
    names = [*(f"psi_{i}" for i in range(9)), "vfs_write", "_end"]
    kallsyms = "".join(f"{TEXT + 16 * i:016x} T {name}\n" for i, name in enumerate(names))

    def runs(*periods: int) -> list[dict[str, Any]]:
        return [
            instrumented(
                make_perf_data(
                    [{"ip": TEXT + 16 * i, "period": period * (i + 1)} for i in range(9)]
                    + [{"ip": TEXT + 16 * 9, "period": 1000}]
                )
            )
            for period in periods
        ]

    data = compare(runs(1, 1, 2), runs(11, 12, 13), layout={"kallsyms": kallsyms})
    found = findings_of(data)
    assert len(found) == MOST_FINDINGS
    assert found[0].metric == "share of cycles samples"
    assert found[0].evidence == ("profile#psi_8",)
