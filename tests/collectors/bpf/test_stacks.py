# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions of stacks are named from kallsyms and from the files that processes map."""

import os
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from schedperf_collectors.bpf.libbpf import BpfMap
from schedperf_collectors.bpf.stacks import (
    ADDRESS_ONLY,
    BUILD_ID_DIGITS,
    IN_FILE,
    LONGEST_NAME,
    USER_FRAME,
    GeneratedCode,
    KernelFunctions,
    MappedFiles,
    Stacks,
    symbol_addresses,
)
from schedperf_collectors.machine.elf_symbols import read_build_id, read_functions
from schedperf_collectors.machine.system import System

KALLSYMS = """\
ffffffff81000000 T _text
ffffffff81000100 t bpf_trace_run2
ffffffff81000200 T __traceiter_contention_begin
ffffffff81000300 T __mutex_lock
ffffffff81000400 t fdget_pos
ffffffffc0000000 t ext4_read\t[ext4]
0000000000000000 T hidden
"""


class FakeMap:
    """A map of stacks, without a kernel."""

    def __init__(self, stacks: Mapping[int, bytes]) -> None:
        self._stacks = stacks

    def read(self, key: bytes) -> bytes | None:
        return self._stacks.get(struct.unpack("=I", key)[0])

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        yield from ((struct.pack("=I", number), data) for number, data in self._stacks.items())


def as_map(stacks: Mapping[int, bytes]) -> BpfMap:
    return cast(BpfMap, FakeMap(stacks))


def addresses(*values: int) -> bytes:
    return struct.pack(f"={len(values)}Q", *values) + bytes(16)


def names(described: dict[str, Any]) -> list[list[tuple[str | None, str | None]]]:
    frames = [tuple(frame) for frame in described["frames"]]
    return [[frames[index] for index in stack] for stack in described["stacks"]]


def test_functions_of_bpf_and_of_the_tracepoint_are_left_out() -> None:
    base = 0xFFFFFFFF81000000
    kernel = as_map(
        {
            0: addresses(
                base + 0x110, base + 0x210, base + 0x310, base + 0x410, 0xFFFFFFFFC0000008
            ),
            1: addresses(
                base + 0x150, base + 0x220, base + 0x320, base + 0x420, 0xFFFFFFFFC0000009
            ),
        }
    )
    stacks = Stacks(kernel, None, KernelFunctions(KALLSYMS))
    assert (stacks.kernel(0), stacks.kernel(1), stacks.kernel(-1), stacks.kernel(7)) == (
        0, 0, None, None,
    )  # fmt: skip
    assert names(stacks.describe()) == [
        [("__mutex_lock", None), ("fdget_pos", None), ("ext4_read", None)]
    ]


def test_a_return_address_belongs_to_the_function_before_it() -> None:
    base = 0xFFFFFFFF81000000
    kernel = as_map({0: addresses(base + 0x300, base + 0x400)})
    stacks = Stacks(kernel, None, KernelFunctions(KALLSYMS))
    stacks.kernel(0)
    assert names(stacks.describe()) == [[("__mutex_lock", None), ("__mutex_lock", None)]]


def test_hidden_addresses_name_nothing() -> None:
    functions = KernelFunctions("0000000000000000 T hidden\n")
    assert len(functions) == 0
    assert functions.name(0xFFFFFFFF81000000) is None
    assert symbol_addresses("0000000000000000 T _text\n", ["_text"]) == {}


def test_user_frames_are_named_by_the_file_with_the_build_id() -> None:
    path = Path(sys.executable).resolve()
    build_id = (read_build_id(path) or "").ljust(BUILD_ID_DIGITS, "0")
    if not int(build_id, 16):
        pytest.skip("this Python has no build id")
    function = next(each for each in read_functions(path).functions if each.size > 8)
    files = MappedFiles(System())
    files.start()
    files.stop()
    data = bytes.fromhex(build_id)
    user = as_map(
        {
            0: USER_FRAME.pack(IN_FILE, data, function.offset)
            + USER_FRAME.pack(IN_FILE, b"\1" * 20, 5)
            + USER_FRAME.pack(ADDRESS_ONLY, bytes(20), 0x7F0000000000)
            + bytes(USER_FRAME.size)
        }
    )
    stacks = Stacks(as_map({}), user, KernelFunctions(""), files)
    assert stacks.user(0) == 0
    [found] = names(stacks.describe())
    assert found[0][0] == function.name
    assert os.path.samefile(found[0][1] or "", path)  # noqa: PTH121 # both are names
    assert found[1:] == [(None, None), (None, None)]


def test_processes_that_end_while_they_are_listed_are_left_out(tmp_path: Path) -> None:
    for name in ("1", "22", "self"):
        (tmp_path / "proc" / name).mkdir(parents=True)
    (tmp_path / "proc" / "1" / "exe").symlink_to("/bin/true")
    files = MappedFiles(System(tmp_path))
    files.start()
    files.stop()
    files.stop()
    assert files.by_build_id(["ab" * 20]) == {}


@pytest.fixture
def generated(tmp_path: Path) -> GeneratedCode:
    (tmp_path / "tmp").mkdir()
    processes = {number: struct.pack("=I", 100 + number) for number in range(4)}
    return GeneratedCode(System(tmp_path), as_map(processes))


def test_generated_code_is_that_of_the_process_of_the_stack(
    generated: GeneratedCode, tmp_path: Path
) -> None:
    (tmp_path / "tmp" / "perf-100.map").write_text(
        "2000 10 second\n0x1000 0x20 first one\nnonsense\n1000 20 again\n\n"
    )
    (tmp_path / "tmp" / "perf-101.map").write_text("1000 20 other\n")
    assert [generated.name(0, at) for at in (0xFFF, 0x1000, 0x101F, 0x1020, 0x2005)] == [
        None, "again", "again", None, "second",
    ]  # fmt: skip
    assert generated.name(1, 0x1000) == "other"
    # A process without a map, and a stack without a process.
    assert (generated.name(2, 0x1000), generated.name(9, 0x1000)) == (None, None)


def test_a_map_that_is_no_file_of_ours_is_not_read(
    generated: GeneratedCode, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("1000 20 secret\n")
    (tmp_path / "tmp" / "perf-100.map").symlink_to(secret)
    os.mkfifo(tmp_path / "tmp" / "perf-101.map")
    (tmp_path / "tmp" / "perf-102.map").mkdir()
    if os.geteuid() == 0:
        (tmp_path / "tmp" / "perf-103.map").write_text("1000 20 of another user\n")
        os.chown(tmp_path / "tmp" / "perf-103.map", 12345, 12345)
    assert [generated.name(stack, 0x1000) for stack in range(4)] == [None] * 4


def test_a_damaged_map_names_what_it_can(generated: GeneratedCode, tmp_path: Path) -> None:
    content = (
        b"1000 20 \xff\xfe\n" + b"\0" * 100 + b"\nffffffffffffffffff 20 too large\n3000 10 cut"
    )
    (tmp_path / "tmp" / "perf-100.map").write_bytes(content + b"x" * 5000)
    assert generated.name(0, 0x1000) == "\N{REPLACEMENT CHARACTER}" * 2
    assert (generated.name(0, 0x3000) or "").startswith("cutx")
    assert len(generated.name(0, 0x3000) or "") <= LONGEST_NAME
