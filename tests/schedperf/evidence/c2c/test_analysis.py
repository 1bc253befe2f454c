# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines of whole recordings: against what was generated, and against perf c2c itself."""

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.evidence.c2c.analysis import analyse_memory
from schedperf.evidence.c2c.model import Line, MemoryProfile
from schedperf.evidence.c2c.namer import Namer
from schedperf.evidence.c2c.perf_text import TOTALS_TITLES, C2cText, parse_c2c_text
from schedperf.evidence.c2c.totals import shared_key, snake
from schedperf.inputs.kernel.percpu_units import PercpuUnits, parse_percpu_log
from schedperf.inputs.perf_data import Keep, Recording, read_perf_data
from schedperf.inputs.symbols.places import Symbols
from schedperf.model.errors import InputError
from schedperf_collectors.perf_header import Event
from schedperf_generators.events import ReadFormat
from schedperf_generators.memory import MemoryRun, Touch, Vendor, scheduler_run
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.records import Comm, Lost, LostSamples, Record, Throttle
from tests.shared_data import shared

VENDORS: tuple[Vendor, ...] = ("intel", "amd", "arm")
Analyse = Callable[..., MemoryProfile]
UnitsOf = Callable[[MemoryRun], PercpuUnits]
# Which addresses perf takes for mapped follows from the symbols of the machine that it runs on.
OF_THE_MACHINE = "no_page_map_rejects"
UNKNOWN = Symbols(None, lambda _: None)


def line_of(profile: MemoryProfile, key: str) -> Line:
    return next(line for line in profile.lines if line.key == key)


def assert_equal(profile: MemoryProfile, text: C2cText, *, but: str | None = None) -> None:
    """Compare all totals, and each line that perf printed."""
    assert text.totals
    for (title, words), number in text.totals.items():
        key = snake(words) if title == TOTALS_TITLES[0] else shared_key(words)
        assert key == but or profile.totals[key] == number, key
    ours = {line.address: line for line in profile.lines}
    for theirs in text.lines:
        contended = ("lcl_hitm", "rmt_hitm", "lcl_peer", "rmt_peer")
        if not any(theirs.counts.get(name) for name in contended):
            continue
        line = ours.pop(theirs.address)
        counts = {**line.counts, "records": line.records}
        assert {name: counts[name] for name in theirs.counts} == theirs.counts
        offsets = {row.offset for row in theirs.rows}
        assert not offsets or offsets == {access.offset for access in line.accesses}
    assert not ours


def perf_report(path: Path, *options: str) -> str:
    if shutil.which("perf") is None:
        pytest.skip("perf not installed; apt-get install linux-perf")
    done = subprocess.run(
        ["perf", "c2c", "report", "-i", str(path), "--stdio", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.system
@pytest.mark.parametrize("vendor", VENDORS)
def test_totals_and_lines_equal_those_of_the_installed_perf(
    vendor: Vendor, tmp_path: Path, analyse: Analyse
) -> None:
    run = scheduler_run("base", vendor=vendor)
    path = tmp_path / "perf.data"
    path.write_bytes(write_perf_data(run.perf_data()))
    display = "peer" if vendor == "arm" else "tot"
    text = parse_c2c_text(perf_report(path, "--show-all", "-d", display), "perf")
    assert text.damage == ()
    assert_equal(analyse(run), text, but=OF_THE_MACHINE)
    stats = parse_c2c_text(perf_report(path, "--stats"), "perf")
    assert_equal(replace(analyse(run), lines=()), stats, but=OF_THE_MACHINE)


@pytest.mark.parametrize("vendor", VENDORS)
def test_totals_and_lines_are_what_was_generated(
    vendor: Vendor, analyse: Analyse, units_of: UnitsOf
) -> None:
    run = scheduler_run("new", vendor=vendor)
    profile, truth = analyse(run, units=units_of(run)), run.truth()
    for name, number in truth.totals.items():
        assert profile.totals[name] == number, name
    assert profile.observable == {"intel": "hitm", "amd": "ibs", "arm": "peer"}[vendor]
    assert profile.period == 1000
    assert profile.ldlat == (None if vendor == "amd" else 30)
    line = line_of(profile, "percpu+0x2ba40")
    made = truth.folded["runqueues", 0]
    assert {name: line.counts[name] for name in made if name != "records"} == {
        name: number for name, number in made.items() if name != "records"
    }
    assert line.copies == truth.copies["runqueues", 0] == 224


def spread_run() -> MemoryRun:
    """Return a run in which a per-CPU variable has 7% of all HITM and no copy has 0.05%."""
    run = scheduler_run("base")
    copies = (
        Touch(target="runqueues", offset=4, kind="load_remote_hitm",
              function="available_idle_cpu", samples=224),
        Touch(target="runqueues", offset=4, kind="store_l1_hit",
              function="enqueue_task_fair", samples=224),
        Touch(target="jiffies_64", offset=0, kind="load_remote_hitm",
              function="irqtime_account_irq", samples=2800),
    )  # fmt: skip
    return dataclasses.replace(run, touches=copies)


@pytest.mark.system
def test_a_variable_spread_over_the_copies_of_224_cpus_is_found_and_perf_hides_it(
    tmp_path: Path, analyse: Analyse, units_of: UnitsOf
) -> None:
    run = spread_run()
    path = tmp_path / "perf.data"
    path.write_bytes(write_perf_data(run.perf_data()))
    shown = parse_c2c_text(perf_report(path), "perf").lines
    assert [line.counts["rmt_hitm"] for line in shown] == [2800]
    found = analyse(run, units=units_of(run)).lines
    assert [(line.copies, line.counts["rmt_hitm"]) for line in found] == [(1, 2800), (224, 224)]


def test_alignment_alone_folds_the_same_and_says_so(analyse: Analyse, units_of: UnitsOf) -> None:
    run = scheduler_run("base")
    by_log = analyse(run, units=parse_percpu_log(run.numa.percpu_lines(), "percpu.txt"))
    assert by_log.lines == analyse(run, units=units_of(run)).lines
    assert any("alignment only" in note for note in by_log.notes)


def test_sharing_is_true_of_one_word_and_false_of_two(analyse: Analyse, units_of: UnitsOf) -> None:
    run = scheduler_run("base")
    profile = analyse(run, units=units_of(run))
    group, nohz = profile.lines[0], next(x for x in profile.lines if len(x.accesses) > 1)
    assert (group.sharing, group.false_share) == ("true", 0.0)
    assert (nohz.sharing, nohz.false_share) == ("false", 1.0)
    reader, writer = nohz.accesses
    assert (reader.offset, reader.reads, reader.writes) == (8, 300, 0)
    assert (writer.offset, writer.reads, writer.writes) == (16, 0, 400)
    assert reader.symbols == {"nohz_balancer_kick": 300}
    assert reader.readers == frozenset(range(224))
    assert reader.nodes is not None
    assert sum(node.reads for node in reader.nodes.values()) == 300
    assert sum(node.remote for node in reader.nodes.values()) == reader.remote == 300
    assert len(reader.nodes) > 1
    assert all(node.remote == node.reads for node in reader.nodes.values())
    assert set(reader.nodes) == {0, 1, 2, 3}


def test_the_double_count_is_in_the_records_and_said(analyse: Analyse) -> None:
    run = scheduler_run("base")
    profile = analyse(run)
    doubled = profile.totals["double_counted"]
    assert doubled == profile.totals["load_remote_dram"] > 0
    assert any(f"{doubled} loads are counted as both remote HITM" in note for note in profile.notes)


def read_generated(run: MemoryRun) -> Recording:
    raw = write_perf_data(run.perf_data())
    return read_perf_data(raw, "generated", keep=frozenset({Keep.MEMORY}))


def analyse_recording(recording: Recording, line_bytes: int = 64) -> MemoryProfile:
    namer = Namer(units=None, variables=None, symbols=UNKNOWN)
    return analyse_memory(recording, namer=namer, node_of_cpu={}, line_bytes=line_bytes)


def test_what_a_machine_cannot_show_is_said() -> None:
    recording = read_generated(scheduler_run("base", vendor="amd"))
    zen2 = replace(recording, features=replace(recording.features, cpuid="AuthenticAMD,23,49,0"))
    assert not any("Zen 4" in note for note in analyse_recording(recording).notes)
    assert any("before Zen 4" in note for note in analyse_recording(zen2).notes)
    arm = read_generated(scheduler_run("base", vendor="arm"))
    v2 = replace(arm.features, cpuid="0x00000000410fd4f0", perf_version="6.8.1")
    old = analyse_recording(replace(arm, features=v2))
    assert any("Neoverse V2" in note for note in old.notes)
    newer = replace(arm, features=replace(v2, perf_version="6.13.0"))
    assert not any("Neoverse V2" in note for note in analyse_recording(newer).notes)


def test_a_period_that_perf_chose_is_none_and_said() -> None:
    recording = read_generated(scheduler_run("base"))
    events = tuple(dataclasses.replace(event, by_frequency=True) for event in recording.events)
    profile = analyse_recording(replace(recording, events=events))
    assert profile.period is None
    assert any("adapted the sampling period" in note for note in profile.notes)


def test_memory_events_that_exclude_the_kernel_are_said_to() -> None:
    recording = read_generated(scheduler_run("base"))
    loads, stores = recording.events
    of_user = dataclasses.replace(loads, excluded=frozenset({"kernel", "hv"}))
    # perf's own event counts user space only, and requests the fields of the others.
    dummy = dataclasses.replace(of_user, name="dummy:u", type=1, config=9)

    def said(*events: Event) -> list[str]:
        losses = replace(
            recording.losses,
            samples_of_event=(0,) * len(events),
            mixed_of_event=(0,) * len(events),
            throttled_of_event=(0,) * len(events),
        )
        profile = analyse_recording(replace(recording, events=events, losses=losses))
        return [note for note in profile.notes if "count the kernel" in note]

    assert said(loads, stores, dummy) == []
    assert said(of_user, stores) == [
        (
            "cpu/mem-loads,ldlat=30/P does not count the kernel, so contention in the kernel is "
            "not measured"
        )
    ]
    assert said(of_user, dataclasses.replace(stores, excluded=of_user.excluded)) == [
        (
            "cpu/mem-loads,ldlat=30/P and cpu/mem-stores/P do not count the kernel, so contention "
            "in the kernel is not measured"
        )
    ]


def lost_by(read_format: ReadFormat, losses: Sequence[Record]) -> list[str]:
    """Return the notes on losses of memory events that were recorded with another event."""
    made = scheduler_run("base").perf_data()
    events = [dataclasses.replace(event, read_format=read_format) for event in made.events]
    other = dataclasses.replace(events[0], name="dummy:u", type=1, config=9, ids=(3,))
    raw = write_perf_data(
        dataclasses.replace(made, events=(*events, other), records=(*made.records, *losses))
    )
    recording = read_perf_data(raw, "generated", keep=frozenset({Keep.MEMORY}))
    notes = analyse_recording(recording).notes
    return [note for note in notes if "lost" in note or "throttled" in note]


def test_losses_are_those_of_the_memory_events() -> None:
    losses: list[Record] = [
        Lost(count=30_048, event=2),
        LostSamples(count=40),
        LostSamples(count=8, event=1),
        LostSamples(count=30_000, event=2),
        Throttle(event=2),
    ]
    (said,) = lost_by(ReadFormat.LOST, losses)
    assert said.startswith("48 samples were lost, ")
    assert said.endswith("; 30000 records were lost of other types or events")
    (unknown,) = lost_by(ReadFormat(0), [Lost(count=7)])
    assert unknown.startswith("7 records were lost (of unknown types, because the file does not")
    assert lost_by(ReadFormat.LOST, [Throttle(), Throttle(event=1), Throttle(event=2)]) == [
        "the kernel throttled sampling 2 times, because the sampling rate was too high"
    ]


def test_a_recording_without_memory_samples_is_refused() -> None:
    recording = read_generated(scheduler_run("base"))
    with pytest.raises(InputError, match="no memory samples"):
        analyse_recording(replace(recording, memory=None))
    with pytest.raises(InputError, match=r"invalid cache line size 48 \(expected a power of two"):
        analyse_recording(recording, line_bytes=48)


@pytest.mark.property
@pytest.mark.parametrize("seed", range(4))
def test_any_addresses_and_data_sources_give_lines_whose_sums_are_the_totals(seed: int) -> None:
    recording = read_generated(scheduler_run("base"))
    memory = recording.memory
    assert memory is not None
    chance = np.random.default_rng(seed)
    count = len(memory)

    def words() -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return chance.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False)

    hostile = replace(
        memory,
        address=words() if seed % 2 else words() & np.uint64(0xFFFF),
        data_src=words(),
        ip=words(),
        cpu=chance.integers(-1, 8192, count),
        mode=chance.integers(0, 8, count),
        weight=chance.integers(0, 1 << 40, count),
    )
    profile = analyse_recording(replace(recording, memory=hostile))
    shared = profile.totals["total_shared_cache_lines"]
    assert len(profile.lines) == min(shared, 10_000)
    if shared <= 10_000:
        merged = sum(
            line.counts["lcl_hitm"] + line.counts["rmt_hitm"] + line.counts["store"]
            for line in profile.lines
        )
        assert merged == profile.totals["total_merged_records"]
    assert all(0 <= (line.false_share or 0) <= 1 for line in profile.lines)


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("base", "c2c-6.1-base-default.txt"),
        ("new", "c2c-6.10-new-nosource-showall.txt"),
        ("new", "c2c-5.17-new-NN.txt"),
        ("arm", "c2c-6.1-arm-peer.txt"),
    ],
)
def test_sample_recordings_equal_the_texts_of_several_perfs(name: str, report: str) -> None:
    samples = shared("data/c2c/synthetic")
    path = samples / f"syn_{name}.perf.data"
    recording = read_perf_data(path, name, keep=frozenset({Keep.MEMORY}))
    text = parse_c2c_text((samples / report).read_text(), report)
    assert_equal(analyse_recording(recording), text)
    truth = json.loads((samples / f"{path.name}.truth.json").read_text())
    bases = {cpu: int(base, 16) for cpu, base in enumerate(truth["per_cpu_base"])}
    units = PercpuUnits(
        method="kcore", units=bases, unit_bytes=1 << 20, first_chunk_bytes=None, cpus=None
    )
    namer = Namer(units=units, variables=None, symbols=UNKNOWN)
    folded = analyse_memory(recording, namer=namer, node_of_cpu={}, line_bytes=64)
    assert [(line.key, line.copies) for line in folded.lines] == [
        (truth["tg_load_avg_line"], 1),
        (f"percpu+{truth['runqueues_offset']}", 16),
    ]


def test_bytes_have_the_samples_of_each_command_and_the_functions_that_wrote() -> None:
    whole = scheduler_run("base")
    touches = tuple(touch for touch in whole.touches if touch.target == "nohz")
    run = dataclasses.replace(whole, touches=touches)
    made = run.perf_data()
    # One CPU of four runs another task.
    records = tuple(
        dataclasses.replace(record, comm="kworker")
        if isinstance(record, Comm) and not record.pid % 4
        else record
        for record in made.records
    )
    raw = write_perf_data(dataclasses.replace(made, records=records))
    recording = read_perf_data(raw, "generated", keep=frozenset({Keep.MEMORY}))
    namer = Namer(units=None, variables=None, symbols=UNKNOWN)
    profile = analyse_memory(recording, namer=namer, node_of_cpu={}, line_bytes=64)
    read, written = profile.lines[0].accesses
    assert (read.reads, read.writes) == (300, 0)
    assert read.commands == {"hackbench": 225, "kworker": 75}
    assert read.writing_symbols == {}
    assert (written.reads, written.writes) == (0, 400)
    assert written.commands == {"hackbench": 300, "kworker": 100}
    assert written.writing_symbols == written.symbols
    assert sum(written.symbols.values()) == 400
    assert (read.size, written.size) == (None, None)
