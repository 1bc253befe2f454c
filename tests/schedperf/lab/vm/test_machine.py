# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine that a guest sees, and who executes its instructions."""

import shutil
import subprocess
from pathlib import Path

import pytest

from schedperf.lab.vm.machine import make_machine, probe_command, total_memory, try_kvm
from schedperf.model.errors import InputError

GB = 1 << 30


def test_each_node_is_a_socket_with_its_share_of_cpus_and_memory() -> None:
    machine = make_machine(8, 2, 2, "4G", 16 * GB)
    assert machine.vng_arguments() == [
        "--cpus", "8,sockets=2,cores=2,threads=2",
        "--memory", "4096M",
        "--numa", "2048M,cpus=0-3",
        "--numa", "2048M,cpus=4-7",
    ]  # fmt: skip


def test_a_node_of_one_cpu_is_named_by_its_number() -> None:
    arguments = make_machine(2, 2, 1, "1G", 16 * GB).vng_arguments()
    assert arguments[-3:] == ["512M,cpus=0", "--numa", "512M,cpus=1"]


def test_memory_that_nodes_do_not_share_evenly_is_cut_so_that_the_sum_is_theirs() -> None:
    arguments = make_machine(3, 3, 1, "1000M", 16 * GB).vng_arguments()
    assert arguments[arguments.index("--memory") + 1] == "999M"
    assert [size.partition("M")[0] for size in arguments[5::2]] == ["333", "333", "333"]


@pytest.mark.parametrize(
    ("cpus", "nodes", "threads", "memory", "said"),
    [
        (0, 1, 1, "4G", "--cpus 0: out of range (expected 1 to 255"),
        (999, 2, 1, "4G", "--cpus 999: out of range (expected 1 to 255"),
        (4, 0, 1, "4G", "out of range (expected 1 to 4 with --cpus 4, e.g. --nodes 2"),
        (4, 5, 1, "4G", "out of range (expected 1 to 4 with --cpus 4, e.g. --nodes 2"),
        (1, 2, 1, "4G", "out of range (expected 1 to 1 with --cpus 1, e.g. --nodes 1"),
        (
            5,
            2,
            1,
            "4G",
            "cannot be divided evenly among --nodes 2 with --threads 1; use e.g. --cpus 4",
        ),
        (4, 2, 0, "4G", "--threads 0: out of range (expected 1 or more, e.g. --threads 1)"),
        (4, 2, 4, "4G", "use e.g. --cpus 8"),
        (4, 2, 1, "32G", "more than this machine's 16384M"),
        (4, 2, 1, "4096", "invalid size (expected MiB or GiB, e.g. 4096M or 4G"),
        (4, 2, 1, "-1G", "invalid size (expected MiB or GiB, e.g. 4096M or 4G"),
        (4, 2, 1, "99999999999999G", "invalid size (expected MiB or GiB, e.g. 4096M or 4G"),
        (4, 2, 1, "64M", "too small (expected at least 512M, e.g. --memory 4G"),
    ],
)
def test_what_no_guest_can_be_made_of_is_refused(
    cpus: int, nodes: int, threads: int, memory: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_machine(cpus, nodes, threads, memory, 16 * GB)
    assert said in str(caught.value)


def test_the_memory_of_this_machine_is_what_the_kernel_says() -> None:
    line = Path("/proc/meminfo").read_text().splitlines()[0]
    assert total_memory() == pytest.approx(int(line.split()[1]) << 10, rel=0.01)


def test_without_the_device_guests_are_emulated(tmp_path: Path) -> None:
    found = try_kvm("qemu-system-x86_64", tmp_path / "kvm")
    assert not found.is_kvm
    assert found.reason == f"{tmp_path}/kvm: no such file or directory"


def make_qemu(folder: Path, behaviour: str) -> str:
    program = folder / "qemu"
    program.write_text(f"#!/bin/sh\n{behaviour}\n")
    program.chmod(0o755)
    return str(program)


def test_a_device_that_opens_and_does_not_work_is_not_used_and_its_error_is_told(
    tmp_path: Path,
) -> None:
    qemu = make_qemu(tmp_path, "echo 'qemu: error: failed to set MSR 0x10a' >&2; exit 134")
    found = try_kvm(qemu, Path("/dev/null"))
    assert not found.is_kvm
    assert found.reason == "QEMU cannot use /dev/null: qemu: error: failed to set MSR 0x10a"


def test_kvm_is_used_when_the_firmware_ran_to_its_end(tmp_path: Path) -> None:
    found = try_kvm(make_qemu(tmp_path, "exit 0"), Path("/dev/null"))
    assert (found.is_kvm, found.reason) == (True, None)


@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        (
            "echo KVM internal error. Suberror: 1 >&2; exec sleep 3600",
            "KVM internal error. Suberror: 1",
        ),
        ("echo EAX=0 >&2; echo Code=00 66 >&2; exec sleep 3600", "Code=00 66"),
    ],
)
def test_a_kvm_that_cannot_run_an_instruction_is_not_used_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, cause: str
) -> None:
    monkeypatch.setattr("schedperf.lab.vm.machine._PROBE_LIMIT_S", 3600.0)
    found = try_kvm(make_qemu(tmp_path, behaviour), Path("/dev/null"))
    assert not found.is_kvm
    assert found.reason == f"/dev/null: the guest firmware does not run under KVM ({cause})"


@pytest.mark.parametrize("behaviour", ["exec sleep 60", "exec 2>&-; exec sleep 60"])
def test_a_firmware_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr("schedperf.lab.vm.machine._PROBE_LIMIT_S", 0.5)
    found = try_kvm(make_qemu(tmp_path, behaviour), Path("/dev/null"))
    assert (
        found.reason
        == "/dev/null: the guest firmware does not run under KVM (QEMU did not exit within 0 s)"
    )


@pytest.mark.system
def test_a_firmware_that_finds_nothing_to_boot_ends_qemu() -> None:
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        pytest.skip("no QEMU on this machine")
    command = list(probe_command(qemu))
    command[command.index("q35,accel=kvm")] = "q35,accel=tcg"
    command[command.index("host,topoext=on")] = "max"
    assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60).returncode == 0
