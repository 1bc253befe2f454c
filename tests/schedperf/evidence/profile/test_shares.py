# SPDX-License-Identifier: GPL-2.0-or-later
"""Weights by place, CPU and node, equal to what perf report prints."""

import re
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.alignment import Alignment
from schedperf.evidence.profile.shares import (
    PlaceWeights,
    align_weights,
    all_places,
    cpu_means,
    node_matrix,
    nodes_of,
    share_matrix,
    weigh,
    weight_matrix,
)
from schedperf.inputs.kernel.kallsyms import parse_kernel_symbols
from schedperf.inputs.perf_data import read_perf_data
from schedperf.inputs.symbols.functions import SharedNames
from schedperf.inputs.symbols.places import Symbols, place_samples
from schedperf.model.place import KERNEL, Place, is_kernel_dso
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.samples import Sample

TEXT = 0xFFFFFFFF81000000
KALLSYMS = """\
ffffffff81000000 T update_cfs_group
ffffffff81000100 t finish_task_switch.isra.0
ffffffff81000200 t finish_task_switch.isra.0.cold
ffffffff81000300 T default_idle
ffffffff81000400 T end_of_text
ffffffffc0001000 t acpi_safe_halt\t[processor]
"""
HOT = Place("update_cfs_group", KERNEL)
SWITCH = Place("finish_task_switch.isra.0", KERNEL)
HALT = Place("default_idle", KERNEL)
# A row of `perf report --sort sym`; rounded to two digits.
REPORT_ROW = re.compile(r"^\s+([\d.]+)%\s+\[(.)\] (.+?)\s*$", re.MULTILINE)
ROUNDING = 0.005


def recorded_samples(*samples: Sample, events: Sequence[str] = ("cycles",)) -> bytes:
    asked = PLAIN | SampleType.IDENTIFIER
    described = tuple(
        Event(name=name, config=number, sample_type=asked, ids=(100 + number,))
        for number, name in enumerate(events)
    )
    return write_perf_data(PerfData(events=described, records=samples))


def weights_of(
    source: bytes | Path,
    nodes: dict[int, int] | None = None,
    *,
    event: int = 0,
    kallsyms: str = KALLSYMS,
) -> PlaceWeights:
    recording = read_perf_data(source, "perf.data", keep=frozenset())
    symbols = Symbols(parse_kernel_symbols(kallsyms, "kallsyms"), lambda _: None)
    placed = place_samples(recording, symbols)
    return weigh(recording, placed, event, nodes or {})


def test_weights_are_sums_of_periods_of_one_event() -> None:
    data = recorded_samples(
        Sample(ip=TEXT, period=30),
        Sample(ip=TEXT + 0x110, period=10),
        Sample(ip=TEXT + 0x210, period=5),
        Sample(ip=TEXT, period=700, event=1),
        events=("cycles", "instructions"),
    )
    found = weights_of(data)
    cold = Place(f"{SWITCH.symbol}.cold", KERNEL)
    assert dict(zip(found.places, found.weights.tolist(), strict=True)) == {
        HOT: 30.0, SWITCH: 10.0, cold: 5.0
    }  # fmt: skip
    merged = align_weights(found, Alignment(equal=(), whole=(), names=SharedNames(found.places)))
    assert dict(zip(merged.places, merged.weights.tolist(), strict=True)) == {
        HOT: 30.0,
        SWITCH: 15.0,
    }
    assert (found.samples, found.total, found.idle) == (3, 45.0, 0.0)
    assert weights_of(data, event=1).total == 700.0


def test_an_event_without_samples_weighs_nothing() -> None:
    found = weights_of(recorded_samples(Sample(ip=TEXT), events=("cycles", "dummy")), event=1)
    assert (found.samples, found.places, found.total) == (0, (), 0.0)


def test_periods_that_only_damage_explains_weigh_nothing() -> None:
    damaged = Sample(ip=TEXT, cpu=0, period=(1 << 64) - 1000)
    run = weights_of(recorded_samples(damaged, Sample(ip=TEXT, cpu=1, period=50)), {0: 0, 1: 1})
    assert run.total == 50.0
    assert nodes_of([run]) == (1,)


@pytest.fixture
def two_nodes() -> PlaceWeights:
    """Return the weights of a machine with a node 0 that sleeps often, and a CPU of no node."""
    data = recorded_samples(
        Sample(ip=TEXT, cpu=0, period=10),
        Sample(ip=TEXT + 0x300, cpu=0, pid=0, period=80),
        Sample(ip=TEXT + 0x100, cpu=0, pid=0, period=30),
        Sample(ip=TEXT, cpu=1, period=50),
        Sample(ip=TEXT + 0x100, cpu=1, period=50),
        Sample(ip=TEXT, cpu=7, period=20),
        Sample(ip=TEXT + 0x300, cpu=8, pid=0, period=60),
    )
    return weights_of(data, {0: 0, 1: 1, 8: 2})


def test_a_share_of_all_cpus_is_of_idle_time_too(two_nodes: PlaceWeights) -> None:
    assert two_nodes.idle == 140.0
    shares = share_matrix([two_nodes], [HOT, HALT, Place("never_sampled", KERNEL)])
    assert shares[0] == pytest.approx([100.0 * 80 / 300, 100.0 * 140 / 300, 0.0])


def test_a_share_of_a_node_or_a_cpu_is_of_what_it_did_while_not_idle(
    two_nodes: PlaceWeights,
) -> None:
    # A node that slept all the time has no share in anything.
    assert nodes_of([two_nodes]) == (0, 1)
    assert node_matrix([two_nodes], [HOT], 0)[0] == pytest.approx([25.0])
    assert node_matrix([two_nodes], [HOT], 1)[0] == pytest.approx([50.0])
    assert np.isnan(node_matrix([two_nodes], [HOT], 2)).all()
    assert cpu_means([two_nodes], [HOT])[:, 0] == pytest.approx([25.0, 50.0, 100.0])


def test_idle_time_in_a_module_is_idle_time() -> None:
    found = weights_of(recorded_samples(Sample(ip=0xFFFFFFFFC0001004, pid=0, period=1)))
    assert (found.places, found.idle) == ((Place("acpi_safe_halt", "[processor]"),), 1.0)


def test_what_a_run_has_not_sampled_weighs_nothing_in_it() -> None:
    runs = [
        weights_of(recorded_samples(Sample(ip=TEXT, period=3))),
        weights_of(recorded_samples(Sample(ip=TEXT + 0x100, period=4))),
    ]
    places = all_places(runs)
    assert places == (HOT, SWITCH)
    assert weight_matrix(runs, places).tolist() == [[3.0, 0.0], [0.0, 4.0]]


def test_offsets_are_kept_apart_in_equal_files_only(two_nodes: PlaceWeights) -> None:
    same, other = (
        tuple(Place(f"{dso}+0x{offset:x}", dso) for offset in (16, 32))
        for dso in ("libsame.so", "libother.so")
    )
    run = replace(
        two_nodes,
        places=(*same, *other),
        weights=np.array([1.0, 2.0, 3.0, 4.0]),
        is_idle=np.zeros(4, dtype=np.bool_),
        cpu_weights=two_nodes.cpu_weights[:, [0, 0, 1, 1]],
    )
    merged = align_weights(run, Alignment(equal={"libsame.so"}, whole=()))
    assert merged.places == (*same, Place("[libother.so] unresolved", "libother.so"))
    assert merged.weights.tolist() == [1.0, 2.0, 7.0]
    assert merged.cpu_weights.sum() == pytest.approx(run.cpu_weights.sum())
    assert align_weights(run, Alignment(equal={"libsame.so", "libother.so"}, whole=())) is run


def report_of(recorded_here: Any) -> list[tuple[str, str, float]]:
    """Return what perf report prints: kind of place, symbol, share."""
    command = ["perf", "report", "-i", str(recorded_here.path), "--no-children", "-g", "none"]
    command += ["--stdio", "--sort", "sym", "--percent-limit", "0"]
    kallsyms = recorded_here.path.with_name("kallsyms")
    kallsyms.write_text(recorded_here.kallsyms, encoding="utf-8")
    done = subprocess.run(
        [*command, "--kallsyms", str(kallsyms)], capture_output=True, text=True, check=True
    )
    return [
        (kind, symbol, float(percent)) for percent, kind, symbol in REPORT_ROW.findall(done.stdout)
    ]


def test_shares_of_a_real_recording_equal_those_of_perf_report(recorded_here: Any) -> None:
    events = len(read_perf_data(recorded_here.path, "perf.data", keep=frozenset()).events)
    run = max(
        (
            weights_of(recorded_here.path, event=event, kallsyms=recorded_here.kallsyms)
            for event in range(events)
        ),
        key=lambda one: one.samples,
    )
    own = dict(zip(run.places, share_matrix([run], run.places)[0].tolist(), strict=True))
    assert sum(own.values()) == pytest.approx(100.0)

    # perf may call an address by another of its names, so names are compared by address.
    address_of = {line.split()[2]: line.split()[0] for line in recorded_here.kallsyms.splitlines()}
    reported: defaultdict[str, list[float]] = defaultdict(list)
    user: list[float] = []
    for kind, symbol, share in report_of(recorded_here):
        if kind == "k":
            reported[address_of.get(symbol, "unresolved")].append(share)
        else:
            user.append(share)
    expected: defaultdict[str, float] = defaultdict(float)
    for place, share in own.items():
        if is_kernel_dso(place.dso):
            expected[address_of.get(place.symbol, "unresolved")] += share
    assert len(expected) > 10
    for address in expected.keys() | reported.keys():
        rows = reported[address]
        tolerance = ROUNDING * max(1, len(rows)) + 1e-9
        assert sum(rows) == pytest.approx(expected[address], abs=tolerance), address
    rest = 100.0 - sum(expected.values())
    assert sum(user) == pytest.approx(rest, abs=ROUNDING * len(user) + 1e-9)
