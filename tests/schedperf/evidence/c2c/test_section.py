# SPDX-License-Identifier: GPL-2.0-or-later
"""The section about bouncing cache lines on bundles whose memory samples are known."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.c2c.entries import contended_entries
from schedperf.evidence.c2c.findings import MOST_FINDINGS, bouncing_lines, contending_functions
from schedperf.evidence.c2c.merge import see_lines
from schedperf.evidence.c2c.point import format_cpus
from schedperf.evidence.c2c.record import C2c, C2cCommand, C2cSymbol
from schedperf.evidence.c2c.section import c2c
from schedperf.evidence.c2c.sources import load_memory, measure_heat
from schedperf.evidence.layout.section import layout
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side, name_sides
from schedperf.model.base_new import BaseNew
from schedperf.model.sections import Finding, MissingSide
from schedperf_generators.kernel import KernelImage, Symbol
from schedperf_generators.memory import MemoryRun, Program, Touch, scheduler_kernel, scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data
from tests.record_schema import check_schema

NUMA = Numa(cpus=8, nodes=2)
# hackbench of tests/conftest.py with 4 groups: 4 x 20 x 20 x 100 messages.
MESSAGES = 160_000
PERIOD = 1000

QUEUE = (
    Touch(target="runqueues", offset=4, kind="load_remote_hitm", function="cpu_util", samples=64),
    Touch(target="runqueues", offset=4, kind="store_l1_hit", function="cpu_util", samples=64),
)

Json = dict[str, Any]
Sampled = Mapping[str, Any]


def units() -> bytes:
    bases = {str(cpu): hex(base) for cpu, base in NUMA.unit_bases().items()}
    facts = {"method": "kcore", "units": bases, "stable": True, "unit_bytes": NUMA.unit_bytes}
    return json.dumps(facts).encode()


def sampled(data: bytes, **chosen: Any) -> Json:
    """Return what is chosen of an instrumented run with memory samples."""
    files = {"perf_c2c/perf.data": data, "perf_c2c/percpu.json": units()}
    return {"kind": "instrumented", "files": files, **chosen}


@cache
def recording_of(side: Literal["base", "new"], scale: float, seed: int, **changes: Any) -> bytes:
    """Return a perf.data of the scheduler's lines; there are no more than a few of them."""
    run = scheduler_run(side, numa=NUMA, seed=seed, scale=scale)
    return write_perf_data(replace(run, **changes).perf_data())


def runs_of(
    side: Literal["base", "new"], *scales: float, chosen: Sampled | None = None, **changes: Any
) -> list[Json]:
    return [
        sampled(recording_of(side, scale, seed, **changes), **(chosen or {}))
        for seed, scale in enumerate(scales)
    ]


Sides = Callable[..., tuple[Side, ...]]


@pytest.fixture
def sides(tmp_path: Path, make_bundle: Callable[..., Path]) -> Sides:
    """Return sides of the given runs, each of a kernel and a boot of its own."""

    def make(
        *of_sides: list[Json], kernels: Sequence[KernelImage] = (), layout: bool = True,
        captured: Mapping[str, str] | None = None, **chosen: Any,
    ) -> tuple[Side, ...]:  # fmt: skip
        paths = []
        for number, runs in enumerate(of_sides):
            kernel = kernels[number] if kernels else scheduler_kernel()
            files = {"System.map": kernel.system_map(), "kallsyms": kernel.kallsyms()}
            boot = {"boot_id": f"boot-{number}"}
            path = make_bundle(
                tmp_path / f"{number}.tar",
                runs=[{**boot, **run} for run in runs],
                files={
                    **{f"boots/0/layout/{name}": text for name, text in files.items() if layout},
                    **(captured or {}),
                },
                host={"kernel": {"build_id": f"{number:040x}"}},
                **chosen,
            )
            paths.append(path)
        return name_sides([open_bundle(path) for path in paths])

    return make


def data_of(sides: tuple[Side, ...]) -> C2c:
    data = c2c(sides)
    check_schema(data)
    return data


def point_of(data: C2c) -> Any:
    return data.comparisons[0].points[0]


def line_of(data: C2c, name: str) -> Any:
    return next(line for line in point_of(data).lines if (line.name or "").startswith(name))


def findings_of(data: C2c) -> list[Finding]:
    return list(bouncing_lines(data))


SCALES = (1.0, 1.1, 0.9)


@pytest.fixture
def compared(sides: Sides) -> C2c:
    return data_of(sides(runs_of("base", *SCALES), runs_of("new", *SCALES)))


def test_the_totals_are_those_of_the_recordings_per_operation(compared: C2c) -> None:
    truth = sum(
        scheduler_run("base", numa=NUMA, scale=scale).truth().totals["load_remote_hitm"]
        for scale in SCALES
    )
    total = point_of(compared).totals.remote
    assert total.samples.base == truth
    assert total.base == pytest.approx(truth * PERIOD * 1000 / (3 * MESSAGES))
    assert total.ratio_high < 1.0


def test_a_per_cpu_line_is_one_row_with_its_name_and_all_copies(compared: C2c) -> None:
    line = line_of(compared, "runqueues")
    assert line.base.copies == NUMA.cpus
    # 20, 22 and 18 samples against 40, 44 and 36.
    assert line.remote.samples == BaseNew(base=60, new=120)
    assert line.remote.ratio_low > 1.0
    assert line.remote.changed
    assert line.remote.least_ratio > 1.0
    assert line.base.sharing == "true"
    (access,) = line.base.accesses
    assert (access.readers, access.writers) == ("0-7", "0-7")
    assert [one.node for one in access.nodes] == [0, 1]
    # 20 and 12 reads and 16 writes, times 1, 1.1 and 0.9.
    assert access.symbols == (
        C2cSymbol(symbol="available_idle_cpu", samples=60, writes=0),
        C2cSymbol(symbol="enqueue_task_fair", samples=48, writes=48),
        C2cSymbol(symbol="select_task_rq_fair", samples=36, writes=0),
    )
    assert access.commands == (C2cCommand(command="hackbench", samples=144),)
    # A System.map has no fields, and of a whole run queue no access says how much it reached.
    assert access.size is None


def test_what_the_samples_rest_on_is_said(compared: C2c) -> None:
    point = point_of(compared)
    assert point.observable == BaseNew(base="hitm", new="hitm")
    assert point.period == point.store_period == BaseNew(base=PERIOD, new=PERIOD)
    assert point.ldlat == BaseNew(base=30, new=30)
    assert (point.unit, point.per, point.reason) == ("message", 1000, None)
    assert point.runs == BaseNew(base=3, new=3)
    assert point.model in ("Poisson", "negative binomial")
    assert point.least_ratio > 1.0


def test_lines_that_changed_come_first_and_are_findings(compared: C2c) -> None:
    assert line_of(compared, "runqueues") is point_of(compared).lines[0]
    found = findings_of(compared)
    assert 0 < len(found) <= MOST_FINDINGS
    claim = found[0].claim
    assert claim.startswith(
        "`runqueues` (percpu+0x2ba40): remote HITM 125 -> 250 per 1000 messages"
    )
    assert "(ratio 2, 95% CI [1.35, 3])" in claim
    assert found[0].evidence == (f"c2c#{line_of(compared, 'runqueues').row}",)
    assert found[0].n == (3, 3)
    assert found[0].ci is not None
    assert found[0].ci[0] < (found[0].value or 0.0) < found[0].ci[1]


def test_equal_sides_have_no_findings(sides: Sides) -> None:
    data = data_of(sides(runs_of("base", *SCALES), runs_of("base", 1.05, 0.95, 1.0)))
    assert findings_of(data) == []
    assert not any(
        change.changed for line in point_of(data).lines for change in (line.remote, line.local)
    )


def test_objects_known_by_address_alone_are_compared_with_nothing(compared: C2c) -> None:
    hidden = [line for line in point_of(compared).lines if line.name is None]
    assert {line.unmatched for line in hidden} == {"addresses differ between boots"}
    assert all(line.remote.base is None for line in hidden)
    assert all(
        samples is None
        for line in hidden
        for samples, seen in zip(line.remote.samples, line.sides, strict=True)
        if seen is None
    )
    counted = point_of(compared).seen_unmatched
    assert counted == BaseNew(
        base=sum(line.base is not None for line in hidden),
        new=sum(line.new is not None for line in hidden),
    )
    assert any("are not compared" in note for note in point_of(compared).notes)


def test_other_periods_are_not_compared_and_the_reason_is_said(sides: Sides) -> None:
    data = data_of(sides(runs_of("base", *SCALES), runs_of("new", *SCALES, period=500)))
    point = point_of(data)
    assert point.reason == "sampling periods differ between runs (1000 in base, 500 in new)"
    assert point.totals.remote.base is None
    assert point.totals.remote.samples.base > 0
    assert findings_of(data) == []


def test_other_observables_are_never_compared(sides: Sides) -> None:
    arm = sampled(write_perf_data(scheduler_run("new", numa=NUMA, vendor="arm").perf_data()))
    point = point_of(data_of(sides(runs_of("base", *SCALES), [arm] * 3)))
    assert point.observable == BaseNew(base="hitm", new="peer")
    assert (
        point.reason == "kinds of contended loads differ between runs (hitm in base, peer in new)"
    )


def test_a_workload_without_operations_is_not_compared(sides: Sides) -> None:
    unknown = {"stdout": "nothing that is known\n"}
    data = data_of(
        sides(runs_of("base", *SCALES, chosen=unknown), runs_of("new", *SCALES, chosen=unknown))
    )
    assert point_of(data).reason == ("the number of benchmark operations per run is unknown")


def test_points_are_compared_one_by_one_and_single_ones_are_said(sides: Sides) -> None:
    one, four = {"point": {"groups": "1"}}, {"point": {"groups": "4"}}
    base = [*runs_of("base", 0.5, chosen=one), *runs_of("base", 1.0, chosen=four)]
    new = [*runs_of("new", 1.0, chosen=four), *runs_of("new", 0.5, chosen=one)]
    data = data_of(sides(base, new))
    points = data.comparisons[0].points
    assert [point.point for point in points] == ["groups=4", "groups=1"]
    assert points[1].lines[0].row.startswith("hackbench -l 100 -g {groups}/groups=1/")
    only = data_of(sides(base, runs_of("new", 1.0, chosen=four)))
    assert only.comparisons[0].notes[-1] == (
        "memory accesses of hackbench -l 100 -g {groups} at groups=1 were sampled in base only"
    )


def test_every_new_side_is_compared_and_row_ids_are_unique(sides: Sides) -> None:
    data = data_of(sides(runs_of("base", 0.5), runs_of("new", 0.5), runs_of("new", 0.6)))
    lines = [line for one in data.comparisons for line in one.points[0].lines]
    assert [one.side for one in data.comparisons] == ["new", "new2"]
    assert len({line.row for line in lines}) == len(lines)


def test_a_side_without_samples_is_missing_with_the_collectors_reason(sides: Sides) -> None:
    skipped = {
        "collector": "perf_c2c",
        "path": "boots/0/runs/000/perf_c2c",
        "status": "skipped",
        "reason": "no PEBS in this guest",
    }
    base, new, other = sides(runs_of("base", 1.0), [{}], runs_of("new", 1.0), captures=[skipped])
    data = data_of((base, new, other))
    assert [one.side for one in data.comparisons] == ["new2"]
    assert data.missing == (
        MissingSide(side="new", reason="new: perf_c2c was skipped: no PEBS in this guest"),
    )
    with pytest.raises(Absent, match="^new: perf_c2c was skipped: no PEBS in this guest$"):
        c2c((base, new))
    with pytest.raises(Absent, match="^new: perf_c2c was skipped: no PEBS"):
        c2c((new, base))
    with pytest.raises(Absent, match="^no new side$"):
        c2c((base,))


def test_without_the_collector_the_section_is_absent(sides: Sides) -> None:
    with pytest.raises(
        Absent, match="^base: no instrumented run was recorded with perf_c2c or perf_mem$"
    ):
        c2c(sides([{}], [{}]))


def loads_only(scale: float, seed: int) -> Json:
    """Return a run as perf_mem samples it: loads, and no units of the CPUs."""
    made = scheduler_run("base", numa=NUMA, seed=seed, scale=scale)
    loads = tuple(touch for touch in made.touches if touch.kind.startswith("load"))
    data = write_perf_data(replace(made, touches=loads).perf_data())
    return {"kind": "instrumented", "files": {"perf_mem/perf.data": data}}


def test_loads_of_perf_mem_are_read_as_what_they_are(sides: Sides) -> None:
    runs = [loads_only(scale, seed) for seed, scale in enumerate(SCALES)]
    data = data_of(sides(runs, runs))
    (compared,) = data.comparisons
    point = point_of(data)
    assert point.totals.remote.samples.base > 0
    assert point.totals.stores.samples == BaseNew(base=0, new=0)
    assert all(seen.sharing is None for line in point.lines for seen in line.seen)
    assert any(
        "no stores were sampled, so the writers of a cache line" in note for note in point.notes
    )
    assert any("samples of `perf_mem`, which record only loads" in note for note in compared.notes)


def test_why_nothing_of_perf_mem_could_be_read_is_the_reason(sides: Sides) -> None:
    damaged = {"kind": "instrumented", "files": {"perf_mem/perf.data": b"nonsense"}}
    with pytest.raises(Absent, match="^base: boots/0/runs/000/perf_mem/perf.data: invalid magic"):
        c2c(sides([damaged], runs_of("new", 1.0)))


def test_a_run_with_both_collectors_is_read_from_perf_c2c(sides: Sides) -> None:
    both = runs_of("base", 1.0)
    both[0]["files"] = {**loads_only(1.0, 0)["files"], **both[0]["files"]}
    data = data_of(sides(both, runs_of("new", 1.0)))
    assert point_of(data).totals.stores.samples.base > 0
    assert not any("perf_mem" in note for note in data.comparisons[0].notes)


def test_a_damaged_recording_is_a_note_and_the_others_are_compared(sides: Sides) -> None:
    damaged = [*runs_of("base", 1.0), sampled(b"nonsense")]
    data = data_of(sides(damaged, runs_of("new", 1.0)))
    assert point_of(data).runs == BaseNew(base=1, new=1)
    assert (
        data.comparisons[0]
        .notes[0]
        .startswith("base: boots/0/runs/001/perf_c2c/perf.data: invalid magic")
    )
    with pytest.raises(Absent, match="^base: boots/0/runs/000/perf_c2c/perf.data: invalid magic"):
        c2c(sides([sampled(b"nonsense")], runs_of("new", 1.0)))


# Two functions of a program, each on a CPU of its own, which add to counters on one line.
PROGRAM = Program(
    path="/usr/bin/counters",
    build_id=bytes(range(60, 80)),
    functions=(Symbol("count_hits", 0x1000, 0x100), Symbol("count_misses", 0x1100, 0x100)),
)
HEAP = 0x7F00_1234_5000


def of_program(samples: int, heap: int) -> Json:
    """Return a run of the program with as many contended additions of each function."""
    touches = tuple(
        Touch(target="counters", offset=offset, kind=kind, function=function, cpus=(cpu,),
              samples=samples, locked="load" in kind)
        for function, offset, cpu in (("count_hits", 0, 0), ("count_misses", 8, 4))
        for kind in ("load_remote_hitm", "store_l1_hit")
    )  # fmt: skip
    noise = Touch(target="jiffies_64", offset=0, kind="load_remote_hitm", function="cpu_util",
                  samples=30)  # fmt: skip
    run = MemoryRun(
        numa=NUMA, kernel=scheduler_kernel(), touches=(*touches, noise), program=PROGRAM,
        slabs={"counters": heap},
    )  # fmt: skip
    return sampled(write_perf_data(run.perf_data()))


def test_two_functions_of_a_program_that_write_one_line_are_the_first_finding(
    sides: Sides,
) -> None:
    symbols = {f"boots/0/symbols/{PROGRAM.build_id.hex()}.sym": PROGRAM.symbols()}
    data = data_of(
        sides(
            [of_program(samples, HEAP) for samples in (20, 24, 22)],
            # The heap of each process is elsewhere.
            [of_program(samples, HEAP + 0x1000_0000) for samples in (80, 84, 76)],
            captured=symbols,
        )
    )
    first, second, *rest = contending_functions(data)
    assert not rest
    assert {first.clause.partition(" on ")[0], second.clause.partition(" on ")[0]} == {
        "count_hits [counters] reads what count_misses [counters] writes",
        "count_misses [counters] reads what count_hits [counters] writes",
    }
    assert first.clause.endswith(
        "on lines without a match: remote + local HITM 138 -> 500 per 1000 messages"
    )
    pairs = point_of(data).pairs
    assert [pair.loads.samples for pair in pairs] == [BaseNew(base=66, new=240)] * 2
    assert all(pair.share == BaseNew(base=0.5, new=0.5) for pair in pairs)
    assert first.evidence == (f"c2c#{pairs[0].row}",)
    # The line itself cannot be compared, because its address differs.
    assert all(line.unmatched for line in point_of(data).lines if line.name is None)


def test_the_pairs_of_a_line_are_those_that_were_generated(compared: C2c) -> None:
    pairs = line_of(compared, "runqueues").pairs
    # The copies are written by their own CPUs; others read them.
    assert [(pair.reader, pair.writer) for pair in pairs] == [
        ("available_idle_cpu", "enqueue_task_fair"), ("select_task_rq_fair", "enqueue_task_fair"),
    ]  # fmt: skip
    assert [pair.share for pair in pairs] == [BaseNew(base=share, new=share)
                                              for share in (0.625, 0.375)]  # fmt: skip
    # 5 per CPU and node in base, 10 in new, times 1, 1.1 and 0.9.
    assert pairs[0].loads.samples == BaseNew(base=60, new=120)
    assert pairs[0].loads.ratio == pytest.approx(2.0)
    assert line_of(compared, "runqueues").base.attributed == pytest.approx(1.0)


def test_pairs_whose_writers_one_side_did_not_sample_are_not_compared(sides: Sides) -> None:
    def run(*touches: Touch) -> list[Json]:
        made = replace(scheduler_run("base", numa=NUMA), touches=touches)
        return [sampled(write_perf_data(made.perf_data()))] * 2

    data = data_of(sides(run(*QUEUE[:1]), run(*QUEUE)))
    (pair,) = line_of(data, "runqueues").pairs
    assert pair.loads.samples == BaseNew(base=0, new=128)
    assert (pair.loads.base, pair.loads.new, pair.loads.changed) == (None, None, False)
    assert line_of(data, "runqueues").base.attributed == 0.0
    assert list(contending_functions(data)) == []


def test_clean_failed_and_warmup_runs_do_not_count(sides: Sides) -> None:
    unused = [
        *runs_of("base", 1.0, chosen={"kind": "clean"}),
        *runs_of("base", 1.0, chosen={"exit_status": 1}),
        *runs_of("base", 1.0, chosen={"warmup": True}),
    ]
    data = data_of(sides([*runs_of("base", 1.0), *unused], runs_of("new", 1.0)))
    assert point_of(data).runs == BaseNew(base=1, new=1)


def test_without_a_layout_lines_have_no_names_and_the_reason_is_said(sides: Sides) -> None:
    data = data_of(sides(runs_of("base", *SCALES), runs_of("new", *SCALES), layout=False))
    assert all(line.name is None for line in point_of(data).lines)
    assert any("variables are not named" in note for note in point_of(data).notes)
    folded = next(line for line in point_of(data).lines if line.row.startswith("percpu+0x2ba40"))
    assert folded.unmatched == "offsets of unnamed lines differ between builds"


def test_a_recording_of_another_kernel_gets_no_names_of_the_bundles(sides: Sides) -> None:
    # Without KASLR the text of all kernels begins at one address.
    own = runs_of("base", 1.0)
    other = runs_of("base", 1.0, kernel=replace(scheduler_kernel(), build_id=b"\x77" * 20))
    data = data_of(sides(own, other))
    base, new = (
        {symbol.symbol for seen in of_side if seen for access in seen.accesses
         for symbol in access.symbols}
        for of_side in zip(*(line.sides for line in point_of(data).lines), strict=True)
    )  # fmt: skip
    assert "update_cfs_group" in base
    assert new <= {"[kernel] unresolved"}
    said = (
        f"the build id of the recorded kernel is {'77' * 20}, "
        f"but that of the bundle's kernel is {1:040x}"
    )
    assert f"variables are not named ({said})" in "\n".join(point_of(data).notes)


def test_samples_of_new_outrank_the_table_in_the_layout_section(sides: Sides) -> None:
    # In new a variable of unknown access frequency comes to lie on the first line of runqueues.
    kernel = scheduler_kernel()
    apart = (Symbol("process_counts", 0x2B9C0, 8), Symbol("runqueues", 0x2BA40, 0xE00))
    joined = (Symbol("process_counts", 0x2BA40, 8), Symbol("runqueues", 0x2BA48, 0xE00))
    kernels = [replace(kernel, per_cpu=both) for both in (apart, joined)]
    unsampled = layout(sides([{}], [{}], kernels=kernels), measure_heat)
    hot = layout(
        sides(
            runs_of("base", 1.0, kernel=kernels[0], touches=QUEUE),
            runs_of("new", 1.0, kernel=kernels[1], touches=QUEUE),
            kernels=kernels,
        ),
        measure_heat,
    )
    assert not any(alarm.grade == "sampled" for alarm in unsampled.comparisons[0].alarms)
    alarm = hot.comparisons[0].alarms[0]
    assert (alarm.rule, alarm.grade, alarm.hitm) == ("contended", "sampled", 64)


def test_samples_are_counted_by_entry_of_the_layout(sides: Sides) -> None:
    _, new = sides(runs_of("base", 1.0), runs_of("new", *SCALES))
    seen = see_lines(load_memory(new).runs).values()
    assert contended_entries(seen)["percpu"]["runqueues"] == 120 + 72


def test_cpus_are_written_as_the_kernel_does() -> None:
    assert format_cpus([]) == ""
    assert format_cpus({5, 0, 1, 2, 8, 9}) == "0-2,5,8-9"
