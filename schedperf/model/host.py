# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the typed facts of host.json: kernel, CPU, topology, virtualisation.

host.json comes from another machine and from other versions of the collector, so every fact may be
missing or have another type: it is then None, and lists leave such an element out. Code that
compares two machines field by field uses the whole file instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, TypeVar, get_type_hints

import msgspec
from msgspec import Struct, field

# NR_CPUS of the largest configuration of x86.
MOST_CPUS = 8192
# CONFIG_HZ is 100 to 1000; on old machines 24 to 1200.
LARGEST_HZ = 10_000

# Machines have two or three types of cores; their names are PMUs or models.
MOST_TYPES = 32
LONGEST_TYPE = 64

Group = TypeVar("Group")


class Kernel(Struct, frozen=True, kw_only=True):
    """The kernel under test.

    :param release: ``uname -r``
    :param version: ``uname -v``
    :param machine: ``uname -m``: "x86_64"
    :param build_id: in hexadecimal digits
    :param taint: bits of /proc/sys/kernel/tainted
    """

    release: str | None = None
    version: str | None = None
    machine: str | None = None
    build_id: str | None = None
    cmdline: str | None = None
    taint: int | None = None


class Processor(Struct, frozen=True, kw_only=True):
    """Facts that all CPUs share.

    :param count_online: how many CPUs are online
    :param l1_line_bytes: cache-line size of the hardware, which the kernel's compiled size may
        exceed
    """

    model: str | None = None
    count_online: int | None = None
    l1_line_bytes: int | None = None


class Cpu(Struct, frozen=True, kw_only=True):
    """One CPU, and the numbers of its core, cluster, last-level cache, socket and NUMA node."""

    cpu: Annotated[int, msgspec.Meta(ge=0, lt=MOST_CPUS)]
    core: int | None = None
    cluster: int | None = None
    llc: int | None = None
    socket: int | None = None
    node: int | None = None


class CoreType(Struct, frozen=True, kw_only=True):
    """One type of CPU core: "cpu_atom", "Cortex-A55".

    :param cpus: as the kernel lists them: "0-3"
    :param capacities: capacities of its CPUs, at most 1024
    :param pmu: perf's name of its PMU, if each type has its own
    """

    cpus: str
    capacities: tuple[int, ...] | None = None
    threads_per_core: int | None = None
    pmu: str | None = None


class Policy(Struct, frozen=True, kw_only=True):
    """One cpufreq policy, or several with equal settings.

    :param cpus: as the kernel lists them: "0-3"
    :param epp: energy_performance_preference
    :param hw_min_khz: lowest frequency of the hardware
    """

    cpus: str
    governor: str | None = None
    epp: str | None = None
    min_khz: int | None = None
    max_khz: int | None = None
    hw_min_khz: int | None = None
    hw_max_khz: int | None = None


class Topology(Struct, frozen=True, kw_only=True):
    """CPU topology: NUMA nodes and types of cores.

    :param nodes: the CPUs of each NUMA node, as the kernel lists them: "0-3"
    :param types: types of CPU cores, by name
    """

    cpus: tuple[Cpu, ...] = ()
    nodes: Mapping[str, object] | None = None
    types: Mapping[str, CoreType] = field(default_factory=dict)

    def node_of_cpu(self) -> dict[int, int]:
        """Return the NUMA node of each CPU; empty if none is known."""
        return {cpu.cpu: cpu.node for cpu in self.cpus if cpu.node is not None}


class Scheduler(Struct, frozen=True, kw_only=True):
    """Settings of the scheduler.

    :param hz: ticks per second
    """

    hz: Annotated[int, msgspec.Meta(gt=0, le=LARGEST_HZ)] | None = None


class Memory(Struct, frozen=True, kw_only=True):
    """The machine's memory."""

    total_bytes: int | None = None


class Virtualisation(Struct, frozen=True, kw_only=True):
    """The hypervisor or emulator that runs the kernel, if any.

    :param kind: "none", "kvm", "qemu" …
    :param emulated: whether the CPUs are emulated in software
    :param grounds: how the collector knows, or why it does not
    """

    kind: str | None = None
    emulated: bool | None = None
    grounds: str | None = None

    @property
    def machine(self) -> str:
        """Return the name of the emulator or hypervisor: "QEMU TCG" for an emulating QEMU.

        For all others it is ``kind``, or "unknown type" if that is None.
        """
        return "QEMU TCG" if self.emulated and self.kind == "qemu" else self.kind or "unknown type"

    @property
    def evidence(self) -> str:
        """Return :attr:`machine` and, if recorded, ``grounds``, separated by a colon."""
        return f"{self.machine}: {self.grounds}" if self.grounds else self.machine


class System(Struct, frozen=True, kw_only=True):
    """The installed operating system."""

    hostname: str | None = None
    distro: str | None = None


class Cpufreq(Struct, frozen=True, kw_only=True):
    """How CPU frequencies are chosen.

    :param driver: "intel_pstate"
    """

    driver: str | None = None


class Host(Struct, frozen=True, kw_only=True):
    """The machine, the kernel and their state during one boot."""

    kernel: Kernel = field(default_factory=Kernel)
    cpu: Processor = field(default_factory=Processor)
    topology: Topology = field(default_factory=Topology)
    sched: Scheduler = field(default_factory=Scheduler)
    memory: Memory = field(default_factory=Memory)
    virtualisation: Virtualisation = field(default_factory=Virtualisation)
    cpufreq: Cpufreq = field(default_factory=Cpufreq)
    system: System = field(default_factory=System)


def read_host(fields: Mapping[str, object]) -> Host:
    """Return the typed facts of a host.json."""
    return Host(
        kernel=_read(Kernel, fields.get("kernel")),
        cpu=_read(Processor, fields.get("cpu")),
        topology=_read_topology(fields.get("topology")),
        sched=_read(Scheduler, fields.get("sched")),
        memory=_read(Memory, fields.get("memory")),
        virtualisation=_read(Virtualisation, fields.get("virtualisation")),
        cpufreq=_read(Cpufreq, fields.get("cpufreq")),
        system=_read(System, fields.get("system")),
    )


def read_types(fields: Mapping[str, object]) -> dict[str, CoreType]:
    """Return the types of CPU cores of a host.json by name, and read no other facts."""
    topology = fields.get("topology")
    types = topology.get("types") if isinstance(topology, Mapping) else None
    return dict(_read_types(types if isinstance(types, Mapping) else {}))


def read_policies(fields: Mapping[str, object]) -> tuple[Policy, ...]:
    """Return the cpufreq policies of a host.json; empty if they are missing or one is invalid."""
    cpufreq = fields.get("cpufreq")
    policies = cpufreq.get("policies") if isinstance(cpufreq, Mapping) else None
    try:
        return msgspec.convert(policies, tuple[Policy, ...])
    except msgspec.ValidationError:
        return ()


def has_other_kernel(base: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return whether two hosts ran different kernels: different releases, or builds of one release.

    A fact that one host lacks is not compared.
    """
    kernels = [read_host(host).kernel for host in (base, new)]
    pairs = [
        [kernel.release for kernel in kernels],
        [kernel.version for kernel in kernels],
        [kernel.build_id for kernel in kernels],
    ]
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def has_same_kernel(base: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return whether two hosts are known to have run the same build of a kernel."""
    kernels = [read_host(host).kernel for host in (base, new)]
    builds = [kernel.build_id for kernel in kernels]
    releases = [fact for kernel in kernels for fact in (kernel.release, kernel.version)]
    is_known = None not in builds or None not in releases
    return is_known and not has_other_kernel(base, new)


def _read_topology(value: object) -> Topology:
    group = value if isinstance(value, Mapping) else {}
    cpus, nodes, types = (group.get(name) for name in ("cpus", "nodes", "types"))
    return Topology(
        cpus=tuple(_read_cpus(cpus[:MOST_CPUS] if isinstance(cpus, list) else [])),
        nodes=nodes if isinstance(nodes, Mapping) else None,
        types=dict(_read_types(types if isinstance(types, Mapping) else {})),
    )


def _read_types(types: Mapping[str, object]) -> Iterator[tuple[str, CoreType]]:
    for name, value in islice(types.items(), MOST_TYPES):
        # A type without a list of CPUs is left out.
        with suppress(msgspec.ValidationError):
            if len(name) <= LONGEST_TYPE:
                yield name, _read(CoreType, value)


def _read_cpus(values: Sequence[object]) -> Iterator[Cpu]:
    for value in values:
        # A CPU without a number is left out.
        with suppress(msgspec.ValidationError):
            yield _read(Cpu, value)


def _read(kind: type[Group], value: object) -> Group:
    """Return a group with those facts that have a valid type; the others get their default.

    :raises msgspec.ValidationError: a fact without a default is missing or invalid
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        fields = value if isinstance(value, Mapping) else {}
        hints = get_type_hints(kind, include_extras=True)
        usable = (name for name in hints if name in fields and _fits(fields[name], hints[name]))
        return msgspec.convert({name: fields[name] for name in usable}, kind)


def _fits(value: object, hint: object) -> bool:
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True
