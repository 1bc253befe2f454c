# SPDX-License-Identifier: GPL-2.0-or-later
"""Who was running, and what it had mapped, at the time of each sample."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedperf.inputs.perf_data import Keep, Recording, read_perf_data
from schedperf.inputs.perf_data.recording import KERNEL_SPACE, NO_FILE
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.records import (
    KERNEL_PID,
    PROT_READ,
    PROT_WRITE,
    Comm,
    Exit,
    Fork,
    Mmap,
    Mmap2,
)
from schedperf_generators.samples import (
    CONTEXT_USER,
    MODE_GUEST_USER,
    MODE_KERNEL,
    MODE_USER,
    Sample,
)

ALL = frozenset({Keep.TASK, Keep.CHAIN})
CODE = 0x400000


def read(*records: Any, order: Any = "<", sample_type: SampleType = PLAIN) -> Recording:
    events = (Event(sample_type=sample_type),)
    data = PerfData(events=events, records=records, order=order)
    return read_perf_data(write_perf_data(data), "perf.data", keep=ALL)


def user(pid: int, at: int, ip: int = CODE + 16, **more: Any) -> Sample:
    return Sample(ip=ip, pid=pid, time=at, mode=MODE_USER, **more)


def mapped(pid: int, at: int, path: str, start: int = CODE, **more: Any) -> Mmap:
    return Mmap(pid=pid, time=at, start=start, length=0x1000, path=path, **more)


def found(recording: Recording) -> list[tuple[str | None, int]]:
    """Return the file and the offset of each row's address."""
    samples = recording.samples
    files, offsets = recording.spaces.find(samples.space, samples.ip)
    return [
        (None if file == NO_FILE else recording.files[file].path, offset)
        for file, offset in zip(files.tolist(), offsets.tolist(), strict=True)
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_sample_has_the_name_that_its_thread_had_then(order: Any) -> None:
    recording = read(
        Comm(pid=7, comm="bash", time=10),
        Comm(pid=7, comm="hackbench", time=20),
        Fork(pid=8, parent_pid=7, time=25),
        Comm(pid=7, tid=9, comm="worker", time=5),
        Sample(ip=1, pid=7, time=15),
        Sample(ip=2, pid=7, time=30),
        Sample(ip=3, pid=8, time=30),
        Sample(ip=4, pid=7, tid=9, time=30),
        Sample(ip=5, pid=0, time=30),
        Sample(ip=6, pid=77, time=30),
        Sample(ip=7, pid=77, tid=0xFFFFFFFF, time=30),
        order=order,
    )
    tasks = [recording.tasks[task][:2] for task in recording.samples.task.tolist()]
    assert tasks == [
        (7, "bash"),
        (7, "hackbench"),
        (8, "hackbench"),
        (7, "worker"),
        (0, "swapper"),
        (77, ":77"),
        # An exiting thread, as perf writes it.
        (77, ":-1"),
    ]


def test_records_are_taken_in_the_order_of_time_not_of_the_file() -> None:
    recording = read(user(7, 30), mapped(7, 25, "/bin/new"), mapped(7, 5, "/bin/old"), user(7, 10))
    assert found(recording) == [("/bin/new", 16), ("/bin/old", 16)]


def test_without_times_the_order_of_the_file_counts() -> None:
    recording = read(
        mapped(7, 9, "/bin/old"), user(7, 0), mapped(7, 1, "/bin/new"), user(7, 0),
        sample_type=PLAIN & ~SampleType.TIME,
    )  # fmt: skip
    assert found(recording) == [("/bin/old", 16), ("/bin/new", 16)]


def test_offsets_are_those_in_the_file() -> None:
    recording = read(mapped(7, 0, "/lib/libc.so.6", page_offset=0x28000), user(7, 1))
    assert found(recording) == [("/lib/libc.so.6", 0x28010)]
    nowhere = recording.spaces.find(recording.samples.space, np.array([CODE + 0x1000], np.uint64))
    assert [one.tolist() for one in nowhere] == [[NO_FILE], [CODE + 0x1000]]


def test_processes_outside_of_the_pid_namespace_share_no_files() -> None:
    # All of them have pid 0, so that nothing says which of them mapped a file.
    recording = read(
        mapped(0, 0, "/usr/lib/libcrypto.so.3"), mapped(7, 0, "/bin/own"), user(0, 1), user(7, 1)
    )
    assert found(recording) == [(None, CODE + 16), ("/bin/own", 16)]


def test_eight_hundred_children_have_their_parents_space() -> None:
    children = range(100, 900)
    recording = read(
        mapped(7, 0, "/usr/bin/hackbench"),
        *(Fork(pid=pid, parent_pid=7, time=pid) for pid in children),
        *(user(pid, 1000) for pid in children),
    )
    assert len(set(recording.samples.space.tolist())) == 1
    assert found(recording)[0] == ("/usr/bin/hackbench", 16)


def test_a_child_that_maps_something_keeps_the_rest_of_its_parents() -> None:
    recording = read(
        mapped(7, 0, "/bin/sh"),
        mapped(7, 1, "/lib/libc.so.6", start=0x700000),
        Fork(pid=8, parent_pid=7, time=10),
        mapped(8, 20, "/bin/hackbench"),
        mapped(7, 30, "/lib/late.so", start=0x900000),
        user(8, 15), user(8, 25), user(8, 26, ip=0x700001), user(7, 40), user(8, 40, ip=0x900000),
        user(7, 40, ip=0x900000),
    )  # fmt: skip
    assert found(recording) == [
        ("/bin/sh", 16),
        ("/bin/hackbench", 16),
        ("/lib/libc.so.6", 1),
        ("/bin/sh", 16),
        (None, 0x900000),
        ("/lib/late.so", 0),
    ]


def test_a_new_program_has_nothing_of_the_old_one() -> None:
    recording = read(
        mapped(7, 0, "/bin/sh"),
        Fork(pid=8, parent_pid=7, time=5),
        Comm(pid=8, comm="hackbench", execed=True, time=10),
        user(8, 7), user(8, 11), user(7, 11),
    )  # fmt: skip
    assert found(recording) == [("/bin/sh", 16), (None, CODE + 16), ("/bin/sh", 16)]


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    recording = read(
        mapped(7, 0, "/bin/one"),
        Exit(pid=7, parent_pid=1, time=10),
        mapped(3, 0, "/bin/two"),
        Fork(pid=7, parent_pid=3, time=20),
        user(7, 5), user(7, 11), user(7, 21),
    )  # fmt: skip
    assert found(recording) == [("/bin/one", 16), ("/bin/two", 16)]
    assert recording.samples.count.tolist() == [2, 1]


def test_programs_with_the_same_mappings_share_a_space() -> None:
    records = [mapped(pid, 0, "/bin/true") for pid in range(10, 20)]
    recording = read(*records, *(user(pid, 1) for pid in range(10, 20)))
    assert len(set(recording.samples.space.tolist())) == 1


def test_only_user_addresses_have_a_processes_space() -> None:
    chains = PLAIN | SampleType.CALLCHAIN
    recording = read(
        mapped(7, 0, "/bin/sh"),
        Sample(ip=1, pid=7, time=1, chain=(1, 2)),
        Sample(ip=1, pid=7, time=1, chain=(1, CONTEXT_USER, CODE)),
        Sample(ip=CODE, pid=7, time=1, mode=MODE_GUEST_USER),
        sample_type=chains,
    )
    spaces = recording.samples.space.tolist()
    assert spaces[0] == KERNEL_SPACE
    assert KERNEL_SPACE not in spaces[1:]
    files, _ = recording.spaces.find(recording.samples.space, np.full(3, CODE, np.uint64))
    assert files.tolist() == [NO_FILE, 0, NO_FILE]


def test_the_kernel_and_its_modules_are_in_the_kernels_space() -> None:
    text, module = 0xFFFFFFFF81000000, 0xFFFFFFFFC0400000
    kernel = Mmap(
        pid=KERNEL_PID, start=text, length=1 << 24, page_offset=text,
        path="[kernel.kallsyms]_text", mode=MODE_KERNEL,
    )  # fmt: skip
    recording = read(
        kernel,
        mapped(KERNEL_PID, 0, "/lib/modules/6.18/nf_conntrack.ko", start=module),
        Sample(ip=text + 8, time=1),
        Sample(ip=module + 4, time=1),
    )
    assert found(recording) == [
        ("[kernel.kallsyms]_text", 8),
        ("/lib/modules/6.18/nf_conntrack.ko", 4),
    ]


@pytest.mark.parametrize("order", ["<", ">"])
def test_build_ids_come_with_the_mapping(order: Any) -> None:
    code = Mmap2(pid=7, start=CODE, length=0x1000, path="/bin/sh", build_id=b"\x12" * 20)
    short = Mmap2(pid=7, start=0x800000, length=16, path="/bin/x", build_id=b"\xab" * 8)
    none = Mmap2(pid=7, start=0x900000, length=16, path="/bin/y")
    recording = read(code, short, none, order=order)
    assert [file.build_id for file in recording.files] == ["12" * 20, "ab" * 8, None]


def test_a_compiler_at_run_time_is_one_space_and_is_resolved_in_linear_time() -> None:
    count = 30_000
    records = [
        Mmap(pid=7, time=i, start=CODE + 0x1000 * i, length=0x1000, path=f"/tmp/code{i % 3}")
        for i in range(count)
    ]
    recording = read(*records, user(7, 5), user(7, count))
    assert len(set(recording.samples.space.tolist())) == 1
    started = time.process_time()
    addresses = np.uint64(CODE) + np.arange(count, dtype=np.uint64) * np.uint64(0x1000)
    files, offsets = recording.spaces.find(np.repeat(recording.samples.space[:1], count), addresses)
    assert not offsets.any()
    assert files.tolist() == [i % 3 for i in range(count)]
    # Trying each mapping for each address would take minutes.
    assert time.process_time() - started < 1


@pytest.mark.parametrize("path", ["//anon", "/dev/zero", "/anon_hugepage", "[heap]", "[stack]"])
def test_memory_without_a_file_is_generated_code_of_its_process(path: str) -> None:
    maps = [Mmap(pid=pid, start=CODE, length=0x1000, path=path, page_offset=9) for pid in (7, 8)]
    recording = read(*maps, user(7, 5), user(8, 5))
    spaces = recording.samples.space
    files, offsets = recording.spaces.find(spaces, np.full(len(spaces), CODE + 8, np.uint64))
    assert {recording.files[file].path for file in files} == {
        "/tmp/perf-7.map", "/tmp/perf-8.map"
    }  # fmt: skip
    assert set(offsets.tolist()) == {CODE + 8}


def test_only_executable_memory_without_a_file_is_generated_code() -> None:
    data = Mmap2(
        pid=7, start=CODE, length=0x1000, path="//anon", page_offset=9,
        protection=PROT_READ | PROT_WRITE,
    )  # fmt: skip
    recording = read(data, user(7, 5))
    files, offsets = recording.spaces.find(recording.samples.space, np.array([CODE + 8], np.uint64))
    assert [recording.files[file].path for file in files] == ["//anon"]
    assert offsets.tolist() == [CODE + 8]


def test_what_is_mapped_over_and_over_is_resolved_as_of_each_time() -> None:
    count = 3000
    records = [
        mapped(7, 10 * i, f"/tmp/{i}.so", start=CODE - 0x800 * (i % 2)) for i in range(count)
    ]
    recording = read(*records, *(user(7, 10 * i + 5) for i in range(count)))
    assert [path for path, _ in found(recording)] == [f"/tmp/{i}.so" for i in range(count)]


def test_mappings_agree_with_a_replay_one_by_one() -> None:
    random = np.random.default_rng(5)
    records: list[Any] = []
    state: dict[int, list[tuple[int, int, str]]] = {1: []}
    expected = []
    for at in range(1, 1500):
        pid = int(random.choice(list(state)))
        action = random.random()
        start = CODE + 0x100 * int(random.integers(40))
        if action < 0.4:
            length = 0x100 * int(random.integers(1, 9))
            path = f"/f{int(random.integers(9))}"
            records.append(Mmap(pid=pid, time=at, start=start, length=length, path=path))
            state[pid] = [*state[pid], (start, start + length, path)]
        elif action < 0.5 and len(state) < 12:
            child = len(state) + 1
            records.append(Fork(pid=child, parent_pid=pid, time=at))
            state[child] = state[pid]
        elif action < 0.55:
            records.append(Comm(pid=pid, comm="x", execed=True, time=at))
            state[pid] = []
        else:
            # The CPU tells the samples apart.
            records.append(user(pid, at, ip=start, cpu=at))
            covering = [path for low, high, path in state[pid] if low <= start < high]
            # Where nothing was, what is mapped there later may be taken.
            if covering:
                expected.append((at, covering[-1]))
    recording = read(*records)
    by_cpu = dict(zip(recording.samples.cpu.tolist(), found(recording), strict=True))
    assert len(expected) > 50
    assert [(at, by_cpu[at][0]) for at, _ in expected] == expected


def test_a_real_recordings_code_is_found_in_its_files(recorded_here_with: Any) -> None:
    path: Path = recorded_here_with("-g")
    recording = read_perf_data(path, "perf.data", keep=ALL)
    samples = recording.samples
    mine = np.flatnonzero(samples.mode == MODE_USER)
    files, _ = recording.spaces.find(samples.space[mine], samples.ip[mine])
    assert len(mine) > 20
    assert np.mean(files != NO_FILE) > 0.9
    names = {recording.tasks[task].comm for task in samples.task.tolist()}
    assert {"parent", "child"} <= names
