# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the guest's hardware: CPUs, nodes, memory, KVM or emulation."""

import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.model.errors import InputError

# QEMU's q35 has 8-bit APIC ids by default.
MOST_CPUS = 255
# MAX_NODES of QEMU's include/sysemu/numa.h.
MOST_NODES = 128
# A distribution's kernel with this machine's file system boots in 512 MB.
LEAST_MEMORY = 512 << 20

# The firmware takes 1.5 s with KVM in a guest.
_PROBE_LIMIT_S = 20.0
# QEMU normally prints only a few lines.
_OUTPUT_BYTES = 1 << 16
# accel/kvm/kvm-all.c of QEMU prints these, and the registers with the line "Code=" after them.
_KVM_ERROR = re.compile(
    rb"^(?:KVM internal error|KVM: entry failed|error: kvm run failed|Code=).*", re.MULTILINE
)

_SIZE = re.compile(r"([0-9]{1,9})([MG])\Z")
_FACTORS = {"M": 1 << 20, "G": 1 << 30}


class Machine(Struct, frozen=True, kw_only=True):
    """A guest's hardware: each node is a socket with its share of CPUs and memory.

    :param threads: hardware threads per core
    :param memory_bytes: memory of all nodes together
    """

    cpus: int
    nodes: int
    threads: int
    memory_bytes: int

    def vng_arguments(self) -> list[str]:
        """Return the options of virtme-ng for this machine."""
        each = self.cpus // self.nodes
        megabytes = (self.memory_bytes >> 20) // self.nodes
        topology = f"sockets={self.nodes},cores={each // self.threads},threads={self.threads}"
        arguments = ["--cpus", f"{self.cpus},{topology}", "--memory", f"{megabytes * self.nodes}M"]
        for node in range(self.nodes):
            first = node * each
            cpus = f"{first}-{first + each - 1}" if each > 1 else f"{first}"
            arguments += ["--numa", f"{megabytes}M,cpus={cpus}"]
        return arguments


class Acceleration(Struct, frozen=True, kw_only=True):
    """How the guest runs: with KVM or emulated.

    :param is_kvm: whether KVM is used; otherwise QEMU emulates the CPU
    :param reason: why KVM is not used; None with KVM
    """

    is_kvm: bool
    reason: str | None


def make_machine(cpus: int, nodes: int, threads: int, memory: str, available: int) -> Machine:
    """Return the requested hardware after checking it.

    :param cpus: CPUs of all nodes together
    :param threads: hardware threads per core
    :param memory: memory of all nodes together: "4G" or "4096M"
    :param available: memory of this machine in bytes
    :raises InputError: a value is invalid or out of range, the CPUs cannot be divided evenly, or
        the memory is below 512 MiB or above that of this machine
    """
    if not 1 <= cpus <= MOST_CPUS:
        raise InputError(f"--cpus {cpus}: out of range (expected 1 to {MOST_CPUS}, e.g. --cpus 4)")
    if not 1 <= nodes <= min(cpus, MOST_NODES):
        most = min(cpus, MOST_NODES)
        raise InputError(
            f"--nodes {nodes}: out of range (expected 1 to {most} with --cpus {cpus}, e.g. "
            f"--nodes {min(2, most)})"
        )
    if threads < 1:
        raise InputError(
            f"--threads {threads}: out of range (expected 1 or more, e.g. --threads 1)"
        )
    step = nodes * threads
    if cpus % step:
        raise InputError(
            f"--cpus {cpus}: cannot be divided evenly among --nodes {nodes} with --threads "
            f"{threads}; use e.g. --cpus {step * max(cpus // step, 1)}"
        )
    size = parse_size(memory)
    if size > available:
        raise InputError(
            f"--memory {memory}: more than this machine's {available >> 20}M; use less, e.g. "
            f"--memory {available >> 21}M"
        )
    if size < LEAST_MEMORY:
        raise InputError(
            f"--memory {memory}: too small (expected at least {LEAST_MEMORY >> 20}M, e.g. "
            "--memory 4G)"
        )
    return Machine(cpus=cpus, nodes=nodes, threads=threads, memory_bytes=size)


def parse_size(text: str) -> int:
    """Parse a size in MiB or GiB, and return it in bytes.

    >>> parse_size("4G")
    4294967296

    :raises InputError: invalid size
    """
    match = _SIZE.match(text)
    if not match:
        raise InputError(f"--memory {text}: invalid size (expected MiB or GiB, e.g. 4096M or 4G)")
    return int(match[1]) * _FACTORS[match[2]]


def total_memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def try_kvm(qemu: str, device: Path = Path("/dev/kvm")) -> Acceleration:
    """Return whether a guest can run its firmware with KVM, or why not.

    :param qemu: path of QEMU's program
    :param device: KVM's device
    """
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        remedy = " (user not in group kvm)" if isinstance(error, PermissionError) else ""
        return Acceleration(is_kvm=False, reason=f"{device}: {problem}{remedy}")
    status, output = _probe(probe_command(qemu))
    kvm_error = find_kvm_error(output)
    if kvm_error is not None or status is None:
        cause = kvm_error or f"QEMU did not exit within {_PROBE_LIMIT_S:.0f} s"
        problem = f"the guest firmware does not run under KVM ({cause})"
        return Acceleration(is_kvm=False, reason=f"{device}: {problem}")
    if status == 0:
        return Acceleration(is_kvm=True, reason=None)
    messages = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    # An assertion that fails is printed after the message that explains it.
    cause = next((line for line in messages if "error" in line or "failed" in line), "it exited")
    return Acceleration(is_kvm=False, reason=f"QEMU cannot use {device}: {cause.strip()}")


def _probe(command: Sequence[str]) -> tuple[int | None, bytes]:
    """Run a guest until it ends, KVM reports an error, or a time limit is reached.

    :return: the exit status (None if it was killed), and its stderr
    """
    deadline_s = time.monotonic() + _PROBE_LIMIT_S
    output = bytearray()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        descriptor = process.stderr.fileno()
        # After an internal error of KVM, QEMU stops the guest and waits.
        while find_kvm_error(output) is None:
            left_s = deadline_s - time.monotonic()
            ready, _, _ = select.select([descriptor], [], [], max(0.0, left_s))
            part = os.read(descriptor, _OUTPUT_BYTES) if ready else b""
            output += part
            if not ready:
                break
            if not part:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(max(0.0, deadline_s - time.monotonic())), bytes(output)
                break
        process.kill()
    return None, bytes(output)


def find_kvm_error(output: bytes | bytearray) -> str | None:
    """Return QEMU's message that KVM cannot run the guest's code; None if there is no such message.

    >>> find_kvm_error(b"KVM internal error. Suberror: 1\\nemulation failure\\n")
    'KVM internal error. Suberror: 1'
    """
    match = _KVM_ERROR.search(output)
    return match[0].decode("utf-8", "replace").strip() if match else None


def probe_command(qemu: str) -> Sequence[str]:
    """Return the command that runs only the firmware of a guest with KVM."""
    # The machine and CPU that virtme-ng uses with KVM. The firmware finds nothing to boot and
    # restarts the machine, which ends QEMU with status 0.
    return [
        qemu, "-machine", "q35,accel=kvm", "-cpu", "host,topoext=on", "-m", "256M",
        "-nodefaults", "-display", "none", "-no-reboot", "-boot", "reboot-timeout=0",
    ]  # fmt: skip
