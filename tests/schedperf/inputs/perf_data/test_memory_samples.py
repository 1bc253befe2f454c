# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory samples: what lies behind call chains of any length is found."""

import dataclasses
from typing import Any

import pytest

from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.perf_data.recording import MemorySamples
from schedperf_generators.events import MEMORY, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.samples import Sample, Weight

IP = 0xFFFFFFFF81000010
KEEP = frozenset({Keep.MEMORY})
VARIABLE = (
    SampleType.CALLCHAIN
    | SampleType.RAW
    | SampleType.BRANCH_STACK
    | SampleType.REGS_USER
    | SampleType.STACK_USER
    | SampleType.TRANSACTION
    | SampleType.REGS_INTR
)


def access(number: int, **more: Any) -> Sample:
    return Sample(
        ip=IP + number, cpu=number % 4, tid=50 + number, time=1000 + number, period=3,
        address=0xFFFF888000000000 + 64 * number, physical=64 * number,
        data_src=0x1068100142 + number, weight=100 + number, **more,
    )  # fmt: skip


def read(samples: list[Sample], sample_type: SampleType, order: Any = "<") -> MemorySamples:
    event = Event(sample_type=sample_type, regs_user=0b111, stack_user=64, regs_intr=0b11)
    data = PerfData(events=(event,), records=samples, order=order)
    memory = read_perf_data(write_perf_data(data), "perf.data", keep=KEEP).memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("more", [SampleType(0), *VARIABLE, VARIABLE], ids=str)
def test_fields_are_found_behind_any_others(order: Any, more: SampleType) -> None:
    samples = [
        access(
            number,
            chain=tuple(range(number)),
            raw=b"r" * number,
            branches=((1, 2, 3),) * (number % 3),
            user_registers=(1, 2, 3) if number % 2 else (),
            interrupt_registers=(8, 9) if number % 3 else (),
            user_stack=b"s" * (8 * (number % 4)),
        )
        for number in range(20)
    ]
    memory = read(samples, MEMORY | more, order)
    numbers = range(20)
    assert memory.address.tolist() == [0xFFFF888000000000 + 64 * number for number in numbers]
    assert memory.data_src.tolist() == [0x1068100142 + number for number in numbers]
    assert memory.weight.tolist() == [100 + number for number in numbers]
    assert memory.physical.tolist() == [64 * number for number in numbers]
    assert memory.tid.tolist() == [50 + number for number in numbers]
    assert memory.time.tolist() == [1000 + number for number in numbers]
    assert memory.ip.tolist() == [IP + number for number in numbers]
    assert memory.cpu.tolist() == [number % 4 for number in numbers]
    assert memory.period.tolist() == [3] * 20


@pytest.mark.parametrize("order", ["<", ">"])
def test_of_three_weights_the_latency_is_taken(order: Any) -> None:
    asked = MEMORY & ~SampleType.WEIGHT | SampleType.WEIGHT_STRUCT
    weight = Weight(latency=321, instruction=7, third=9)
    sample = dataclasses.replace(access(1), weight=weight)
    assert read([sample], asked, order).weight.tolist() == [321]


def test_what_was_not_asked_for_is_zero() -> None:
    asked = MEMORY & ~(SampleType.WEIGHT | SampleType.PHYS_ADDR | SampleType.TIME)
    memory = read([access(1)], asked)
    assert (memory.weight.tolist(), memory.physical.tolist()) == ([0], [0])
    assert memory.time.tolist() == [0]


def test_samples_without_data_addresses_are_no_memory_samples() -> None:
    memory = read([access(1)], MEMORY & ~SampleType.ADDR)
    assert len(memory) == 0


def test_no_memory_samples_are_made_unless_asked() -> None:
    data = PerfData(events=(Event(sample_type=MEMORY),), records=[access(1)])
    assert read_perf_data(write_perf_data(data), "perf.data").memory is None
