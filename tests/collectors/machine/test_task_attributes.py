# SPDX-License-Identifier: GPL-2.0-or-later
"""Nice value and slice reach the command and its children; what a kernel lacks is an error."""

import re
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest

from schedperf_collectors.machine import task_attributes
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.task_attributes import set_latency_nice, set_slice

pytestmark = pytest.mark.system

NO_SLICES = "this kernel has no slices per task"
OTHER, FIFO = 0, 1


def test_the_nice_value_is_that_of_the_command(recorder: Any) -> None:
    done = recorder("exec", "--nice", "19", "--", "sh", "-c", "nice; (nice)")
    assert (done.returncode, done.stdout) == (0, "19\n19\n")


def test_children_inherit_the_slice(recorder: Any) -> None:
    command = "grep -o 'slice.*' /proc/self/sched"
    done = recorder("exec", "--slice", "3ms", "--nice", "19", "--", "sh", "-c", command)
    if done.returncode and (NO_SLICES in done.stderr or "/proc/self/sched" in done.stderr):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\d+", done.stdout) == ["3000000"]


def test_nice_values_are_points_of_the_workload_and_the_load(
    recorder: Any, read_bundle: Callable[..., Any]
) -> None:
    exec_nice = f"{sys.executable} -m schedperf_collectors exec --nice {{nice}} --"
    done = recorder(
        "record", "-o", "b.tar", "-n", "1", "--warmup", "0", "--with", "none", "--point",
        "nice=18,19", "--with-load", f"{exec_nice} sh -c 'nice; sleep 99'", "--",
        *exec_nice.split(), "nice",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(recorder.folder / "b.tar")
    for run in bundle.runs:
        folder = f"boots/0/runs/{run['run']:03d}"
        for output in (f"{folder}/stdout", f"{folder}/load/stdout"):
            assert bundle.members[output].decode().split() == [run["point"]["nice"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nice", "20", "--", "true"), "argument --nice: invalid value '20' (expected -20 to 19"),
        (("--nice", "-2.5", "--", "true"), "argument --nice: invalid value '-2.5'"),
        (("--slice", "3", "--", "true"), "argument --slice: invalid time '3' (expected a number"),
        (("--slice", "1" * 40 + "ms", "--", "true"), "argument --slice: invalid time '1111"),
        (("--nice", "1", "--"), "no command given; put it at the end, after --"),
        (("--", "no-such-program"), "no-such-program: no such file or directory; give another"),
    ],
)
def test_wrong_arguments_are_one_line(
    recorder: Any, arguments: tuple[str, ...], message: str
) -> None:
    done = recorder("exec", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


class Kernel:
    """A kernel of sched_setattr(2): what it accepts, and what it says of the attributes."""

    def __init__(self, *, policy: int = OTHER, keeps: bool = True, error: int = 0) -> None:
        self.attributes = struct.pack("=IIQiIQQQII", 56, policy, 0, 0, 0, 0, 0, 0, 0, 0)
        self._keeps = keeps
        self._error = error

    def call(self, offset: int, buffer: Any, *_: object) -> None:
        if offset == 1:
            buffer.raw = self.attributes
        elif self._error:
            raise OSError(self._error, "Invalid argument")
        elif self._keeps:
            self.attributes = buffer.raw


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Kernel(keeps=False), NO_SLICES),
        (Kernel(policy=FIFO), "not scheduled by the fair class"),
        (Kernel(error=22), "--slice: invalid argument; leave out --slice"),
    ],
)
def test_a_slice_that_is_not_used_is_an_error(
    kernel: Kernel, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_attributes, "_call", kernel.call)
    with pytest.raises(RecordError, match=message):
        set_slice(3_000_000)


def test_a_slice_out_of_the_kernels_range_is_an_error(recorder: Any) -> None:
    done = recorder("exec", "--slice", "1us", "--", "true")
    assert done.returncode == 2
    assert NO_SLICES in done.stderr or "instead of 1000 ns (expected 100us to 100ms)" in done.stderr


@pytest.mark.parametrize("code", [7, 22])
def test_a_kernel_without_latency_nice_is_named(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_attributes, "_call", Kernel(error=code).call)
    with pytest.raises(RecordError, match="this kernel does not support it"):
        set_latency_nice(5)


def test_latency_nice_follows_the_attributes_of_mainline(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    monkeypatch.setattr(task_attributes, "_call", kernel.call)
    set_latency_nice(-5)
    size, _, flags, *_ = struct.unpack_from("=IIQiIQQQII", kernel.attributes)
    assert (size, len(kernel.attributes), flags & 0x80) == (60, 60, 0x80)
    assert struct.unpack_from("=i", kernel.attributes, 56) == (-5,)
