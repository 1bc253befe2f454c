"""The machine that a guest sees: CPUs, nodes, memory, and who executes its instructions."""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf.model.errors import InputError

# QEMU's q35 has an APIC id of 8 bits where nothing else is asked for.
MOST_CPUS = 255
# MAX_NODES of QEMU's include/sysemu/numa.h.
MOST_NODES = 128
# A distribution's kernel with the file system of this machine starts in 512 MB.
LEAST_MEMORY = 512 << 20

# QEMU with its CPUs set up answers in 0.2 s here.
_PROBE_LIMIT_S = 20.0

_SIZE = re.compile(r"([0-9]{1,9})([MG])\Z")
_FACTORS = {"M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What a guest is made of: each node is a socket with its share of CPUs and memory.

    :param threads: of each core
    :param memory_bytes: of all nodes
    """

    cpus: int
    nodes: int
    threads: int
    memory_bytes: int

    def vng_arguments(self) -> list[str]:
        """Return the options of virtme-ng that make this machine."""
        each = self.cpus // self.nodes
        megabytes = (self.memory_bytes >> 20) // self.nodes
        topology = f"sockets={self.nodes},cores={each // self.threads},threads={self.threads}"
        arguments = ["--cpus", f"{self.cpus},{topology}", "--memory", f"{megabytes * self.nodes}M"]
        for node in range(self.nodes):
            first = node * each
            cpus = f"{first}-{first + each - 1}" if each > 1 else f"{first}"
            arguments += ["--numa", f"{megabytes}M,cpus={cpus}"]
        return arguments


@dataclass(frozen=True, kw_only=True, slots=True)
class Acceleration:
    """Who executes a guest's instructions.

    :param is_kvm: the CPU itself; else QEMU emulates
    :param reason: why not the CPU itself; None where it does
    """

    is_kvm: bool
    reason: str | None


def make_machine(cpus: int, nodes: int, threads: int, memory: str, available: int) -> Machine:
    """Check what the user asks for.

    :param memory: "4G" or "4096M", of all nodes
    :param available: memory of this machine in bytes
    :raises InputError: no guest can be made of that
    """
    if not 1 <= cpus <= MOST_CPUS:
        raise InputError(f"--cpus {cpus}: a guest has 1 to {MOST_CPUS}; write --cpus 4")
    if not 1 <= nodes <= min(cpus, MOST_NODES):
        most = min(cpus, MOST_NODES)
        raise InputError(
            f"--nodes {nodes}: --cpus {cpus} make 1 to {most}; write --nodes {min(2, most)}"
        )
    if threads < 1:
        raise InputError(f"--threads {threads}: a core has 1 or more; write --threads 1")
    step = nodes * threads
    if cpus % step:
        raise InputError(
            f"--cpus {cpus}: --nodes {nodes} with --threads {threads} do not share them evenly; "
            f"write --cpus {step * max(cpus // step, 1)}"
        )
    size = parse_size(memory)
    if size > available:
        raise InputError(
            f"--memory {memory}: this machine has {available >> 20}M; write less, such as "
            f"--memory {available >> 21}M"
        )
    if size < LEAST_MEMORY:
        raise InputError(
            f"--memory {memory}: too little, a guest starts with {LEAST_MEMORY >> 20}M or more; "
            "write --memory 4G"
        )
    return Machine(cpus=cpus, nodes=nodes, threads=threads, memory_bytes=size)


def parse_size(text: str) -> int:
    """Return a number of bytes.

    >>> parse_size("4G")
    4294967296

    :raises InputError: it is none
    """
    found = _SIZE.match(text)
    if not found:
        raise InputError(f"--memory {text}: is no size; write 4G or 4096M")
    return int(found[1]) * _FACTORS[found[2]]


def total_memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def try_kvm(qemu: str, device: Path = Path("/dev/kvm")) -> Acceleration:
    """Let QEMU set up a virtual CPU with KVM: that it can be opened says little.

    :param qemu: program
    """
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        remedy = "; join the group kvm" if isinstance(error, PermissionError) else ""
        return Acceleration(is_kvm=False, reason=f"{device}: {problem}{remedy}")
    try:
        tried = subprocess.run(
            _probe_command(qemu),
            input=b"quit\n",
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Acceleration(is_kvm=False, reason=f"QEMU with {device} hung")
    if tried.returncode == 0:
        return Acceleration(is_kvm=True, reason=None)
    said = [line for line in tried.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    # An assertion that fails comes after what explains it.
    cause = next((line for line in said if "error" in line or "failed" in line), "it ended")
    return Acceleration(is_kvm=False, reason=f"QEMU cannot use {device}: {cause.strip()}")


def _probe_command(qemu: str) -> Sequence[str]:
    # The machine and CPU that virtme-ng asks for with KVM, stopped before its first instruction.
    return [
        qemu, "-machine", "q35,accel=kvm", "-cpu", "host,topoext=on", "-m", "256M", "-S",
        "-nodefaults", "-display", "none", "-monitor", "stdio",
    ]  # fmt: skip
