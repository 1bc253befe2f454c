"""One BPF program, through bpf(2) itself: where each CPU's run queue is.

The tracepoint sched_update_nr_running_tp (Linux 5.9, "sched: Add a tracepoint to
track rq->nr_running") hands over a ``struct rq *`` whenever a task is queued. A raw
tracepoint program stores it by ``rq->cpu``; moving ourselves once over all CPUs
makes each of them queue a task. No compiler, no library, no kernel headers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Iterator, Sequence

from schedperf_collectors.contract import Unavailable

TRACEPOINT = b"sched_update_nr_running_tp"
# bpf(2) has no wrapper in the C library; numbers of asm/unistd.h.
SYSCALL_NUMBER = {
    "x86_64": 321,
    "aarch64": 280,
    "riscv64": 280,
    "loongarch64": 280,
    "ppc64": 361,
    "ppc64le": 361,
    "s390x": 351,
}
# enum bpf_cmd, bpf_map_type, bpf_prog_type and bpf_func_id of include/uapi/linux/bpf.h.
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, RAW_TRACEPOINT_OPEN = 0, 1, 5, 17
COMMAND_NAMES = {MAP_CREATE: "BPF_MAP_CREATE", MAP_LOOKUP: "BPF_MAP_LOOKUP_ELEM",
                 PROG_LOAD: "BPF_PROG_LOAD",
                 RAW_TRACEPOINT_OPEN: "BPF_RAW_TRACEPOINT_OPEN"}  # fmt: skip
MAP_TYPE_ARRAY = 2
PROG_TYPE_RAW_TRACEPOINT = 17
CALL_MAP_UPDATE, CALL_PROBE_READ_KERNEL = 2, 113
PSEUDO_MAP_FD = 1
# A moment on each CPU after we moved there, so that what is queued there is counted.
STAY_S = 0.001


def run_queue_addresses(machine: str, cpu_offset: int, cpus: Sequence[int]) -> dict[int, int]:
    """Return the address of the run queue of each CPU that queued a task.

    :param machine: as ``uname -m`` prints it
    :param cpu_offset: of ``cpu`` in ``struct rq``, in bytes
    :param cpus: those that are online; this process moves over all that it may use
    :raises Unavailable: the kernel refuses the program or has no such tracepoint
    """
    if machine not in SYSCALL_NUMBER:
        raise Unavailable(f"the number of bpf(2) on {machine} is not known")
    number = SYSCALL_NUMBER[machine]
    size = max(cpus) + 1
    with contextlib.ExitStack() as stack:
        array = stack.enter_context(
            _descriptor(number, MAP_CREATE, struct.pack("IIIII", MAP_TYPE_ARRAY, 4, 8, size, 0))
        )
        program = stack.enter_context(_load(number, _program(array, cpu_offset)))
        name = ctypes.create_string_buffer(TRACEPOINT)
        opened = struct.pack("QI4x", ctypes.addressof(name), program)
        with _descriptor(number, RAW_TRACEPOINT_OPEN, opened):
            _visit(cpus)
        found = {cpu: _lookup(number, array, cpu) for cpu in cpus}
    return {cpu: address for cpu, address in found.items() if address}


def _instruction(code: int, registers: int = 0, offset: int = 0, constant: int = 0) -> bytes:
    # struct bpf_insn; ``registers`` is source << 4 | destination on little-endian machines.
    if struct.pack("H", 1) != b"\1\0":
        registers = (registers & 15) << 4 | registers >> 4
    return struct.pack("BBhi", code, registers, offset, constant)


def _program(array: int, cpu_offset: int) -> bytes:
    # key at r10 - 8: rq->cpu; value at r10 - 16: rq.
    update = [
        _instruction(0x7B, 0x6A, -16),  # *(u64 *)(r10 - 16) = r6
        _instruction(0x18, PSEUDO_MAP_FD << 4 | 1, 0, array),  # r1 = array, in two slots
        _instruction(0),
        _instruction(0xBF, 0xA2),  # r2 = r10
        _instruction(0x07, 2, 0, -8),  # r2 += -8
        _instruction(0xBF, 0xA3),  # r3 = r10
        _instruction(0x07, 3, 0, -16),  # r3 += -16
        _instruction(0xB7, 4, 0, 0),  # r4 = BPF_ANY
        _instruction(0x85, 0, 0, CALL_MAP_UPDATE),
    ]
    return b"".join(
        [
            _instruction(0x79, 0x16),  # r6 = *(u64 *)(r1 + 0), the first argument
            _instruction(0xBF, 0xA1),  # r1 = r10
            _instruction(0x07, 1, 0, -8),  # r1 += -8
            _instruction(0xB7, 2, 0, 4),  # r2 = sizeof(rq->cpu)
            _instruction(0xBF, 0x63),  # r3 = r6
            _instruction(0x07, 3, 0, cpu_offset),  # r3 += offset
            _instruction(0x85, 0, 0, CALL_PROBE_READ_KERNEL),
            _instruction(0x55, 0, len(update), 0),  # if r0 != 0 skip the update
            *update,
            _instruction(0xB7, 0, 0, 0),  # r0 = 0
            _instruction(0x95),  # exit
        ]
    )


@contextlib.contextmanager
def _load(number: int, program: bytes) -> Iterator[int]:
    code = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "IIQQ24x",
        PROG_TYPE_RAW_TRACEPOINT,
        len(program) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
    )
    with _descriptor(number, PROG_LOAD, attributes) as descriptor:
        yield descriptor


@contextlib.contextmanager
def _descriptor(number: int, command: int, attributes: bytes) -> Iterator[int]:
    descriptor = _bpf(number, command, attributes)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lookup(number: int, array: int, cpu: int) -> int:
    key, value = ctypes.c_uint32(cpu), ctypes.c_uint64()
    attributes = struct.pack("I4xQQQ", array, ctypes.addressof(key), ctypes.addressof(value), 0)
    _bpf(number, MAP_LOOKUP, attributes)
    return value.value


def _bpf(number: int, command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc.syscall.restype = ctypes.c_long
    answer = libc.syscall(
        ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_ulong(len(attributes))
    )
    if answer < 0:
        reason = os.strerror(ctypes.get_errno()).lower()
        raise Unavailable(f"bpf({COMMAND_NAMES[command]}): {reason}")
    return int(answer)


def _visit(cpus: Sequence[int]) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in cpus:
            # A cpuset may keep us off some; their own tasks are queued there anyway.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {cpu})
                time.sleep(STAY_S)
    finally:
        os.sched_setaffinity(0, allowed)
