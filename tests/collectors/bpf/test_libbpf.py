# SPDX-License-Identifier: GPL-2.0-or-later
"""libbpf: what this kernel takes runs, what it refuses has a reason of one line."""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf_collectors.bpf._libbpf_library import load_library
from schedperf_collectors.bpf.libbpf import (
    BpfObject,
    Candidate,
    Loaded,
    NothingWorks,
    load_what_works,
)
from schedperf_collectors.bpf.objects import compile_sources
from schedperf_collectors.contract import Unavailable

HEADERS = tuple((Path(schedperf_collectors.__file__).parent / "bpf").glob("*.h"))
SOURCE = rb"""
#include "placement.h"

struct {
    __uint(type, MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u32);
} counts SEC(".maps");

INLINE int count(u32 key)
{
    u32 *value = map_lookup(&counts, &key), one = 1;

    if (!is_open)
        return 0;
    if (value)
        ++*value;
    else
        map_update(&counts, &key, &one, UPDATE_NOEXIST);
    return 0;
}

SEC("raw_tp/sched_switch") int switches(const u64 *ctx) { return count(settings.recorder); }
SEC("raw_tp/no_such_tracepoint") int nowhere(const u64 *ctx) { return count(1); }
SEC("tp_btf/no_such_tracepoint") int nowhere_typed(const u64 *ctx) { return count(1); }
SEC("fentry/schedule") int entry(const u64 *ctx) { return count(2); }
SEC("raw_tp/sched_switch") int refused(const u64 *ctx)
{
    return *(volatile u64 *)ctx[1];
}
"""
SWITCHES = Candidate("switch", "switches", "raw_tp", "sched_switch")
NOWHERE = Candidate("nowhere", "nowhere", "raw_tp", "no_such_tracepoint")
NOWHERE_TYPED = Candidate("nowhere", "nowhere_typed", "tp_btf", "no_such_tracepoint")
REFUSED = Candidate("refused", "refused", "raw_tp", "sched_switch")
KEY = (77).to_bytes(4, "little")


@pytest.fixture(scope="module")
def program() -> bytes:
    """An object with programs that any kernel takes or refuses."""
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    try:
        load_library()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)
    headers = {header.name: header.read_bytes() for header in HEADERS}
    return compile_sources("test", {"test.bpf.c": SOURCE, **headers})


@pytest.fixture
def needs_bpf(program: bytes) -> None:
    """Skip where nothing can be loaded."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    load_what_works(program, "test", [SWITCHES], prepare).object.close()


def prepare(loading: BpfObject) -> None:
    loading.resize("counts", 4)
    loading.set_constants((77).to_bytes(4, "little") + bytes(12))


@pytest.fixture
def loaded(program: bytes, needs_bpf: None) -> Iterator[Loaded]:  # noqa: ARG001 # skips
    running = load_what_works(program, "test", [SWITCHES], prepare)
    with running.object:
        yield running


def total(loaded: Loaded) -> int:
    value = loaded.object.map("counts").read(KEY) or b""
    return sum(int.from_bytes(value[at : at + 4], "little") for at in range(0, len(value), 8))


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def switch_tasks() -> None:
    for _ in range(20):
        time.sleep(0.001)


def test_a_program_counts_while_its_gate_is_open(loaded: Loaded) -> None:
    gate = loaded.object.map(".bss")
    switch_tasks()
    assert loaded.object.map("counts").read(KEY) is None
    gate.write(bytes(4), (1).to_bytes(4, "little"))
    switch_tasks()
    counted = total(loaded)
    # Each sleep leaves the CPU and comes back.
    assert counted >= 20
    gate.write(bytes(4), bytes(4))
    # A program that had passed the gate has counted by the time that others ran.
    switch_tasks()
    at_the_end = total(loaded)
    switch_tasks()
    assert total(loaded) == at_the_end >= counted


def test_a_map_gives_the_values_of_all_cpus(loaded: Loaded) -> None:
    counts = loaded.object.map("counts")
    cpus = load_library().libbpf_num_possible_cpus()
    assert (counts.key_size, counts.value_size, counts.max_entries) == (4, 4, 4)
    written = b"".join((cpu + 1).to_bytes(8, "little") for cpu in range(cpus))
    counts.write(KEY, written)
    assert counts.read(KEY) == written
    assert list(counts.items()) == [(KEY, written)]


def test_a_full_map_says_so(loaded: Loaded) -> None:
    counts = loaded.object.map("counts")
    size = 8 * load_library().libbpf_num_possible_cpus()

    def fill() -> None:
        # The kernel may have room for a few more than it was asked for.
        for key in range(100):
            counts.write(key.to_bytes(4, "little"), bytes(size))

    with pytest.raises(
        Unavailable, match="BPF map 'counts' cannot be written: argument list too long"
    ):
        fill()


@pytest.mark.parametrize("key", [b"", bytes(3), bytes(5)])
def test_a_key_of_another_size_never_reaches_the_kernel(loaded: Loaded, key: bytes) -> None:
    counts = loaded.object.map("counts")
    with pytest.raises(ValueError, match="bytes \\(expected 4"):
        counts.read(key)
    with pytest.raises(ValueError, match="bytes \\(expected 4"):
        counts.write(key, bytes(8))


@pytest.mark.usefixtures("needs_bpf")
def test_two_objects_count_in_one_map_and_each_is_detached_alone(program: bytes) -> None:
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(BpfObject(program, "test")) for _ in range(2))
        prepare(first)
        first.load([])
        prepare(second)
        second.share("counts", first.map("counts"))
        second.load([SWITCHES])
        second.attach(SWITCHES)
        second.map(".bss").write(bytes(4), (1).to_bytes(4, "little"))
        switch_tasks()
        counted = total(Loaded(first, {}))
        assert counted >= 20
        second.detach(SWITCHES)
        at_the_end = total(Loaded(first, {}))
        switch_tasks()
        assert total(Loaded(first, {})) == at_the_end
        second.attach(SWITCHES)
        switch_tasks()
        assert total(Loaded(first, {})) >= at_the_end + 20


@pytest.mark.usefixtures("needs_bpf")
def test_a_map_of_another_kind_is_not_shared(program: bytes) -> None:
    with BpfObject(program, "test") as first, BpfObject(program, "test") as second:
        prepare(first)
        first.load([])
        prepare(second)
        second.share("counts", first.map("places"))
        with pytest.raises(Unavailable) as refused:
            second.load([SWITCHES])
        assert "\n" not in refused.value.reason


@pytest.mark.usefixtures("needs_bpf")
def test_what_is_closed_runs_no_more_and_closes_twice(program: bytes) -> None:
    before = descriptors()
    running = load_what_works(program, "test", [SWITCHES], prepare)
    assert descriptors() > before
    running.object.close()
    running.object.close()
    assert descriptors() == before


@pytest.mark.usefixtures("needs_bpf")
def test_of_each_slot_the_first_candidate_that_works_is_used(program: bytes) -> None:
    fallback = Candidate("nowhere", "switches", "raw_tp", "sched_switch")
    running = load_what_works(program, "test", [NOWHERE_TYPED, NOWHERE, fallback], prepare)
    running.object.close()
    assert running.programs == {
        "nowhere": {"mechanism": "raw_tp", "function": "sched_switch", "reason": None}
    }


@pytest.mark.usefixtures("needs_bpf")
def test_what_is_refused_has_the_reason_of_each_try(program: bytes) -> None:
    running = load_what_works(program, "test", [SWITCHES, NOWHERE_TYPED, NOWHERE], prepare)
    running.object.close()
    assert running.programs["switch"]["mechanism"] == "raw_tp"
    nowhere = running.programs["nowhere"]
    assert nowhere["mechanism"] is None
    assert nowhere["function"] is None
    reason = nowhere["reason"] or ""
    assert reason.startswith("tp_btf: ")
    assert "; raw_tp: " in reason
    assert reason.lower().endswith(os.strerror(errno.ENOENT).lower())
    assert "\n" not in reason


@pytest.mark.usefixtures("needs_bpf")
def test_the_reason_of_the_verifier_is_its_last_sentence(program: bytes) -> None:
    with pytest.raises(NothingWorks) as refused:
        load_what_works(program, "test", [REFUSED], prepare)
    assert "invalid mem access 'scalar'" in refused.value.reason.replace("inv'", "scalar'")
    assert refused.value.programs["refused"]["mechanism"] is None
    assert len(refused.value.reason) < 300


@pytest.mark.usefixtures("needs_bpf")
def test_a_function_that_is_not_there_is_named(program: bytes) -> None:
    entry = Candidate("entry", "entry", "fentry", "no_such_function_in_any_kernel")
    with pytest.raises(NothingWorks) as refused:
        load_what_works(program, "test", [entry], prepare)
    assert "no_such_function_in_any_kernel" in refused.value.reason


def test_nothing_to_load_is_said(program: bytes) -> None:
    with pytest.raises(Unavailable):
        load_what_works(program, "test", [], prepare)


def test_its_programs_are_listed(program: bytes) -> None:
    with BpfObject(program, "test") as opened:
        assert set(opened.programs) == {"switches", "nowhere", "nowhere_typed", "entry", "refused"}


def test_what_the_object_has_not_is_an_error_that_names_it(program: bytes) -> None:
    with BpfObject(program, "test") as opened:
        with pytest.raises(Unavailable, match="test: no BPF map 'absent'"):
            opened.resize("absent", 1)
        with pytest.raises(Unavailable, match="test: cannot set the 3 bytes of \\.rodata"):
            opened.set_constants(bytes(3))
        with pytest.raises(Unavailable, match="test: no BPF program 'absent'"):
            opened.attach(Candidate("absent", "absent", "raw_tp", "sched_switch"))


@pytest.mark.parametrize("length", [0, 1, 4, 63, 64, 500, 2000])
def test_a_cut_object_is_one_clear_reason(program: bytes, length: int) -> None:
    with pytest.raises(Unavailable) as refused, BpfObject(program[:length], "cut"):
        pass
    assert refused.value.reason.startswith("cut: ")
    assert "\n" not in refused.value.reason


def test_any_file_is_one_clear_reason() -> None:
    for data in (b"no object at all" * 100, Path("/bin/sh").read_bytes()):
        with pytest.raises(Unavailable) as refused, BpfObject(data, "any"):
            pass
        assert "\n" not in refused.value.reason


def test_who_may_not_load_gets_the_answer_of_the_kernel(program: bytes) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give up rights")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            load_what_works(program, "test", [SWITCHES], prepare)
        except Unavailable as refused:
            os.write(write, refused.reason.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        assert "operation not permitted" in said.read().lower()
