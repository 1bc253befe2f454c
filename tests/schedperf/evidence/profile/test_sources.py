# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the profile section's samples and names come from, and what it says cannot be read."""

from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.model.base_new import BaseNew
from schedperf.model.sections import MissingSide
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.features import BuildId, Cpu, Machine
from schedperf_generators.kernel import BUILD_ID
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.records import KERNEL_PID, Lost, Mmap
from schedperf_generators.samples import MODE_KERNEL, MODE_USER, Sample

TEXT = 0xFFFFFFFF81000000
TIMER = Event(name="cpu-clock:ppp", type=1)


def test_cpu_clock_is_blind_whatever_perf_profile_json_says(profiled: Any) -> None:
    data = profiled.compare(
        profiled.runs(10, 20, event=TIMER), profiled.runs(30, 40, event=TIMER, facts=None)
    )
    assert data.comparisons[0].events[0].blind == BaseNew(base=True, new=True)


def test_on_x86_a_pmu_is_known_to_interrupt_by_nmi(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10, facts=None), profiled.runs(110, facts=None))
    event = data.comparisons[0].events[0]
    assert (event.blind, event.nmi) == (
        BaseNew(base=False, new=False),
        BaseNew(base=True, new=True),
    )


def test_different_events_are_not_compared(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10), profiled.runs(10, event=TIMER))
    assert list(data.comparisons[0].events) == []
    assert list(data.comparisons[0].notes) == [
        "cycles was sampled on base only, so it is not compared",
        "cpu-clock was sampled on new only, so it is not compared",
    ]


_WITHOUT_KERNEL = (
    "cycles:u of new are different events (new does not count the kernel or the hypervisor)"
)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (
            Event(name="cycles:ppp", precise_ip=3),
            "cycles:ppp of new are different events (precise level 0 in base and 3 in new)",
        ),
        (Event(name="cycles:u", excluded=frozenset({"kernel", "hv"})), _WITHOUT_KERNEL),
        (
            Event(name="cycles:G", excluded=frozenset({"host"})),
            "cycles:G of new are different events (new counts guests only)",
        ),
    ],
)
def test_events_of_different_modifiers_are_not_compared(
    profiled: Any, new: Event, why: str
) -> None:
    data = profiled.compare(profiled.runs(10), profiled.runs(10, event=new))
    assert list(data.comparisons[0].events) == []
    assert list(data.comparisons[0].notes) == [
        f"cycles of base and {why}, so they are not compared; record the same event on both sides"
    ]


def test_one_event_that_two_versions_of_perf_print_differently_is_compared(profiled: Any) -> None:
    base, new = Event(name="cycles", precise_ip=3), Event(name="cycles:P", precise_ip=3)
    data = profiled.compare(profiled.runs(10, event=base), profiled.runs(10, event=new))
    assert [event.event for event in data.comparisons[0].events] == ["cycles"]
    assert list(data.comparisons[0].notes) == []


def test_both_kinds_of_cpu_of_a_hybrid_machine_are_events_of_their_own(profiled: Any) -> None:
    # The kernel keeps the number of the PMU in the upper half of the config.
    events = tuple(
        Event(
            name=f"{pmu}/cycles/",
            config=number << 32,
            sample_type=PLAIN | SampleType.IDENTIFIER,
            ids=(100 + place,),
        )
        for place, (pmu, number) in enumerate({"cpu_core": 4, "cpu_atom": 10}.items())
    )
    samples = (Sample(ip=TEXT, period=30), Sample(ip=TEXT + 0x100, cpu=1, period=10, event=1))
    machine = Machine(build_ids=(BuildId(path="[kernel.kallsyms]", raw=BUILD_ID, mode=1),))
    data = write_perf_data(PerfData(events=events, records=samples, machine=machine))
    found = profiled.compare([profiled.run(data)] * 2, [profiled.run(data)] * 2)
    found_events = found.comparisons[0].events
    names = [event.event for event in found_events]
    assert names == ["cpu_core/cycles/", "cpu_atom/cycles/"]
    for (point,) in (event.points for event in found_events):
        assert (point.runs, point.samples) == (BaseNew(base=2, new=2), BaseNew(base=2, new=2))
        assert [row.share.base for row in point.rows] == [100.0]


def test_samples_that_stand_for_nothing_have_no_shares(profiled: Any) -> None:
    nothing = profiled.run(profiled.perf_data({0: {"vfs_write": 0}}))
    data = profiled.compare([*profiled.runs(10, 20), nothing], profiled.runs(10, 20))
    assert profiled.points(data)[0].runs == BaseNew(base=2, new=2)
    assert list(data.comparisons[0].notes) == [
        "base: boot 0, run 002: no samples of any event; record it again"
    ]
    with pytest.raises(Absent, match="^base: boot 0, run 000: no samples of any event"):
        profiled.compare([nothing], profiled.runs(10))


def test_a_side_without_profiles_is_missing_and_the_others_are_compared(profiled: Any) -> None:
    data = profiled.compare(profiled.runs(10), [{}], profiled.runs(30))
    assert [one.side for one in data.comparisons] == ["new2"]
    assert list(data.missing) == [
        MissingSide(side="new", reason="new: no instrumented run was recorded with perf_profile")
    ]


def test_clean_failed_and_warmup_runs_do_not_count(profiled: Any) -> None:
    unused = [
        *profiled.runs(900, kind="clean"),
        *profiled.runs(900, exit_status=1),
        *profiled.runs(900, warmup=True),
    ]
    data = profiled.compare([*profiled.runs(10), *unused], profiled.runs(10))
    assert profiled.points(data)[0].runs == BaseNew(base=1, new=1)


def test_a_run_with_unreadable_perf_data_is_a_note(profiled: Any) -> None:
    data = profiled.compare([*profiled.runs(10), profiled.run(b"nonsense")], profiled.runs(10))
    assert profiled.points(data)[0].runs == BaseNew(base=1, new=1)
    where = "base: boot 0, run 001"
    why = "invalid magic b'nonsense' (expected perf.data); pass a file written by perf record"
    assert list(data.comparisons[0].notes) == [f"{where}: {why}"]


@pytest.mark.parametrize("facts", [["x"], {"blind": "yes"}, {"event": 5}])
def test_a_wrong_perf_profile_json_is_a_note(profiled: Any, facts: Any) -> None:
    data = profiled.compare(
        profiled.runs(10, 20), [*profiled.runs(10), *profiled.runs(10, facts=facts)]
    )
    assert profiled.points(data)[0].runs == BaseNew(base=2, new=1)
    assert "perf_profile.json" in data.comparisons[0].notes[0]


def test_without_any_profile_the_section_is_absent_and_says_why(profiled: Any) -> None:
    skipped = {"collector": "perf_profile", "path": "boots/0/runs/000/perf_profile"}
    why = {**skipped, "status": "skipped", "reason": "perf is not installed"}
    with pytest.raises(Absent, match="^base: perf_profile was skipped: perf is not installed$"):
        profiled.compare([{}], profiled.runs(10), captures=[why])
    with pytest.raises(
        Absent, match=r"^base: boot 0, run 000: invalid magic .*\(expected perf\.data\)"
    ):
        profiled.compare([profiled.run(b"nonsense")], profiled.runs(10))
    with pytest.raises(Absent, match="^no new side$"):
        profiled.compare(profiled.runs(10))


def test_system_map_is_slid_to_where_the_kernel_was(profiled: Any) -> None:
    slide = 0x12000000
    mapped = Mmap(
        pid=KERNEL_PID,
        tid=0,
        start=0,
        length=1,
        page_offset=TEXT - 0x1000 + slide,
        path="[kernel.kallsyms]_text",
        mode=MODE_KERNEL,
    )
    slid = profiled.perf_data({0: {"update_cfs_group": 1}}, slide=slide, records=[mapped])
    hidden = "0000000000000000 T _text\n0000000000000000 T schedule\n"
    data = profiled.compare(
        [profiled.run(slid)],
        [profiled.run(slid)],
        layout={"System.map": profiled.kallsyms(), "kallsyms": hidden},
    )
    assert profiled.row(data).share.base == 100.0
    assert "all addresses are hidden" in data.comparisons[0].notes[0]


def test_without_an_address_system_map_is_of_no_use(profiled: Any) -> None:
    data = profiled.compare(
        profiled.runs(10), profiled.runs(10), layout={"System.map": profiled.kallsyms()}
    )
    assert profiled.points(data)[0].rows[0].symbol == "[kernel] unresolved"
    notes = data.comparisons[0].notes
    assert notes[0].endswith("perf.data does not record the kernel's address; use kallsyms")
    assert (
        notes[1] == "base: boot 0: kernel addresses stay unresolved without a usable symbol table; "
        "record with the collector `layout`, as root"
    )


def test_nodes_of_perf_data_are_used_where_host_json_has_none(profiled: Any) -> None:
    machine = Machine(cpus=(Cpu(core=0, node=5), Cpu(core=1, node=5)))
    data = profiled.perf_data({0: {"vfs_write": 1}, 1: {"vfs_write": 1}}, machine=machine)
    runs = [profiled.run(data)]
    cpus: list[list[Any]] = [[], [{"cpu": "x"}, 3, {"cpu": 0, "node": None}]]
    for each in cpus:
        data = profiled.compare(runs, runs, host={"topology": {"cpus": each}})
        row = profiled.row(data, "vfs_write")
        assert row.base_nodes == {5: 100.0}


def test_lost_records_are_counted(profiled: Any) -> None:
    data = profiled.perf_data({0: {"vfs_write": 1}}, records=[Lost(count=7)])
    point = profiled.points(profiled.compare([profiled.run(data)], [profiled.run(data)]))[0]
    assert point.lost == BaseNew(base=7, new=7)


def test_unresolved_code_is_compared_by_offset_where_the_file_is_the_same(profiled: Any) -> None:
    path = "/usr/bin/sender"

    def run(build_id: bytes) -> list[dict[str, Any]]:
        mapped = Mmap(pid=9, start=0x400000, length=0x1000, path=path)
        samples = [Sample(ip=0x400000 + at, mode=MODE_USER, pid=9) for at in (0x10, 0x20)]
        machine = Machine(build_ids=(BuildId(path=path, raw=build_id),))
        data = PerfData(events=(Event(),), records=(mapped, *samples), machine=machine)
        return [profiled.run(write_perf_data(data))]

    def symbols(base: bytes, new: bytes) -> set[str]:
        point = profiled.points(profiled.compare(run(base), run(new)))[0]
        return {row.symbol for row in point.rows}

    first, other = b"\x11" * 20, b"\x22" * 20
    assert symbols(first, first) == {"sender+0x10", "sender+0x20"}
    assert symbols(first, other) == {"[sender] unresolved"}
