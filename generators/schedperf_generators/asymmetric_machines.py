# SPDX-License-Identifier: GPL-2.0-or-later
"""Write files of /sys and /proc of machines with several types of CPU cores.

The layouts are those that the kernel documents:

* ``cpu_capacity``, ``thread_siblings_list``, ``midr_el1``: Documentation/ABI/testing/
  sysfs-devices-system-cpu and Documentation/arch/arm64/cpu-feature-registers.rst
* cpufreq policies: Documentation/admin-guide/pm/cpufreq.rst; preferred cores: amd-pstate.rst
* PMUs per type of core: ``cpus`` of the event source, tools/perf/Documentation/intel-hybrid.txt
* the energy model: Documentation/power/energy-model.rst and kernel/power/energy_model.c
* scheduling domains: Documentation/scheduler/sched-domains.rst
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedperf_generators.features import cpu_list

CPU = "sys/devices/system/cpu"
DEBUG = "sys/kernel/debug"
PMUS = "sys/bus/event_source/devices"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """Cores of one type, which have consecutive CPUs.

    :param count: number of cores
    :param threads: CPUs of each core
    :param capacity: content of cpu_capacity; None: the kernel has no such file
    :param midr: MIDR_EL1; None: not Arm
    :param pmu: name of the PMU of this type of cores; None: all cores share one
    :param cpu_type: cpu_type in debugfs of x86; None: the kernel has no such file
    :param governor: scaling_governor of their cpufreq policies
    :param khz: lowest and highest frequency of the hardware
    :param limits_khz: scaling_min_freq and scaling_max_freq; None: those of the hardware
    :param epp: energy_performance_preference; None: the driver has none
    :param ranking: amd_pstate_prefcore_ranking; None: the kernel has no such file
    :param states: frequency in kHz, power in uW and cost of each performance state; empty: no
        energy model
    :param is_one_policy: True: all CPUs have one cpufreq policy; False: each has its own
    """

    count: int
    threads: int = 1
    capacity: int | None = None
    midr: int | None = None
    pmu: str | None = None
    cpu_type: str | None = None
    governor: str = "schedutil"
    khz: tuple[int, int] = (400_000, 3_000_000)
    limits_khz: tuple[int, int] | None = None
    epp: str | None = None
    ranking: int | None = None
    states: tuple[tuple[int, int, int], ...] = ()
    is_one_policy: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AsymmetricMachine:
    """A machine whose CPUs are of several types.

    :param machine: its ``uname -m``
    :param driver: name of the cpufreq driver
    :param cores: types of cores, in the order of their CPUs
    :param levels: flags of each scheduling domain, by name, the smallest first
    :param sysctls: values of the files below /proc/sys/kernel, by name
    :param others: content of further files, by path below the root directory
    """

    machine: str
    driver: str
    cores: Sequence[Cores]
    levels: Mapping[str, str]
    sysctls: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)

    def cpus_of(self, index: int) -> range:
        """Return the CPUs of one type of cores, given by its index in ``cores``."""
        sizes = [cores.count * cores.threads for cores in self.cores]
        return range(sum(sizes[:index]), sum(sizes[: index + 1]))

    def having(self, index: int, **settings: object) -> "AsymmetricMachine":
        """Return the machine with other settings of one type of cores.

        :param index: index of the type in ``cores``
        :param settings: new values of fields of :class:`Cores`
        """
        cores = list(self.cores)
        cores[index] = replace(cores[index], **settings)  # type: ignore[arg-type] # its fields
        return replace(self, cores=cores)

    def files(self) -> dict[str, str]:
        """Return the content of each file, by path below the root directory."""
        last = self.cpus_of(len(self.cores) - 1)[-1]
        files = {f"{CPU}/online": f"0-{last}\n", f"{CPU}/possible": f"0-{last}\n"}
        for index, cores in enumerate(self.cores):
            files.update(_cpu_files(cores, self.cpus_of(index)))
            files.update(_policy_files(cores, self.cpus_of(index), self.driver))
            files.update(_model_files(cores, self.cpus_of(index)))
            if cores.pmu is not None:
                files[f"{PMUS}/{cores.pmu}/cpus"] = f"{cpu_list(self.cpus_of(index))}\n"
            for cpu in self.cpus_of(index):
                files.update(self._domain_files(cpu))
        files |= {f"proc/sys/kernel/{name}": f"{value}\n" for name, value in self.sysctls.items()}
        return {**files, **self.others}

    def write(self, root: Path) -> None:
        """Write the files below a directory."""
        for name, content in self.files().items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")

    def _domain_files(self, cpu: int) -> Iterator[tuple[str, str]]:
        for number, (name, flags) in enumerate(self.levels.items()):
            folder = f"{DEBUG}/sched/domains/cpu{cpu}/domain{number}"
            yield f"{folder}/name", f"{name}\n"
            # The kernel ends the list with a space.
            yield f"{folder}/flags", f"{flags} \n"


def _cpu_files(cores: Cores, cpus: Sequence[int]) -> Iterator[tuple[str, str]]:
    for index, cpu in enumerate(cpus):
        folder = f"{CPU}/cpu{cpu}"
        first = cpu - index % cores.threads
        siblings = range(first, first + cores.threads)
        yield f"{folder}/topology/thread_siblings_list", f"{cpu_list(siblings)}\n"
        yield f"{folder}/topology/core_id", f"{first}\n"
        yield f"{folder}/topology/physical_package_id", "0\n"
        yield f"{folder}/cache/index3/level", "3\n"
        yield f"{folder}/cache/index3/id", "0\n"
        yield f"{folder}/node0/cpulist", ""
        if cores.capacity is not None:
            yield f"{folder}/cpu_capacity", f"{cores.capacity}\n"
        if cores.midr is not None:
            yield f"{folder}/regs/identification/midr_el1", f"0x{cores.midr:016x}\n"
        if cores.cpu_type is not None:
            lines = {"online": "1", "pkg_id": "0", "cpu_type": cores.cpu_type}
            text = "".join(f"{f'{name}:':<21}{value}\n" for name, value in lines.items())
            yield f"{DEBUG}/x86/topo/cpus/{cpu}", text


def _policy_files(cores: Cores, cpus: Sequence[int], driver: str) -> Iterator[tuple[str, str]]:
    for of_policy in [cpus] if cores.is_one_policy else [[cpu] for cpu in cpus]:
        folder = f"{CPU}/cpufreq/policy{of_policy[0]}"
        listed = " ".join(map(str, of_policy))
        lowest, highest = cores.limits_khz or cores.khz
        yield f"{folder}/affected_cpus", f"{listed}\n"
        yield f"{folder}/related_cpus", f"{listed}\n"
        yield f"{folder}/scaling_driver", f"{driver}\n"
        yield f"{folder}/scaling_governor", f"{cores.governor}\n"
        yield f"{folder}/scaling_min_freq", f"{lowest}\n"
        yield f"{folder}/scaling_max_freq", f"{highest}\n"
        yield f"{folder}/cpuinfo_min_freq", f"{cores.khz[0]}\n"
        yield f"{folder}/cpuinfo_max_freq", f"{cores.khz[1]}\n"
        if cores.epp is not None:
            yield f"{folder}/energy_performance_preference", f"{cores.epp}\n"
        for cpu in of_policy if cores.ranking is not None else ():
            # /sys/devices/system/cpu/cpuN/cpufreq links to the policy.
            yield f"{CPU}/cpu{cpu}/cpufreq/amd_pstate_prefcore_ranking", f"{cores.ranking}\n"


def _model_files(cores: Cores, cpus: Sequence[int]) -> Iterator[tuple[str, str]]:
    if not cores.states:
        return
    folder = f"{DEBUG}/energy_model/cpu{cpus[0]}"
    yield f"{folder}/cpus", f"{cpu_list(cpus)}\n"
    yield f"{folder}/flags", "flags: 0x1\n"
    for frequency, power, cost in cores.states:
        state = f"{folder}/ps:{frequency}"
        yield f"{state}/frequency", f"{frequency}\n"
        yield f"{state}/power", f"{power}\n"
        yield f"{state}/cost", f"{cost}\n"
        yield f"{state}/inefficient", "0\n"


def intel_hybrid() -> AsymmetricMachine:
    """Return a machine with 4 P-cores of two threads and 4 E-cores, and Linux 6.13 or later."""
    epp = "balance_performance"
    return AsymmetricMachine(
        machine="x86_64",
        driver="intel_pstate",
        cores=(
            Cores(count=4, threads=2, pmu="cpu_core", cpu_type="performance", governor="powersave",
                  khz=(400_000, 5_200_000), epp=epp),
            Cores(count=4, pmu="cpu_atom", cpu_type="efficiency", governor="powersave",
                  khz=(400_000, 3_900_000), epp=epp),
        ),
        levels={
            "SMT": "SD_BALANCE_NEWIDLE SD_SHARE_CPUCAPACITY SD_SHARE_LLC",
            "MC": "SD_BALANCE_NEWIDLE SD_ASYM_PACKING SD_SHARE_LLC",
        },
        sysctls={"sched_itmt_enabled": 1, "sched_util_clamp_min": 1024},
    )  # fmt: skip


def dynamiq() -> AsymmetricMachine:
    """Return an arm64 machine with three capacities and an energy model."""
    return AsymmetricMachine(
        machine="aarch64",
        driver="scmi",
        cores=(
            Cores(count=4, capacity=160, midr=0x412FD050, is_one_policy=True,
                  khz=(300_000, 1_800_000),
                  states=((300_000, 9_000, 54_000), (1_800_000, 122_000, 122_000))),
            Cores(count=3, capacity=498, midr=0x411FD410, is_one_policy=True,
                  khz=(400_000, 2_250_000),
                  states=((400_000, 38_000, 213_000), (2_250_000, 520_000, 520_000))),
            Cores(count=1, capacity=1024, midr=0x411FD440, is_one_policy=True,
                  khz=(500_000, 2_800_000),
                  states=((500_000, 92_000, 515_000), (2_800_000, 2_100_000, 2_100_000))),
        ),
        levels={"MC": "SD_BALANCE_NEWIDLE SD_ASYM_CPUCAPACITY SD_ASYM_CPUCAPACITY_FULL"},
        sysctls={
            "sched_energy_aware": 1,
            "sched_util_clamp_min": 1024,
            "sched_util_clamp_max": 1024,
            "sched_util_clamp_min_rt_default": 0,
        },
    )  # fmt: skip


def amd_preferred() -> AsymmetricMachine:
    """Return a machine whose cores are alike, except that firmware prefers some of them."""
    return AsymmetricMachine(
        machine="x86_64",
        driver="amd-pstate-epp",
        cores=tuple(
            Cores(count=2, threads=2, governor="powersave", epp="performance", ranking=ranking,
                  khz=(550_000, 5_750_000))
            for ranking in (236, 231)
        ),
        levels={"SMT": "SD_SHARE_CPUCAPACITY", "MC": "SD_ASYM_PACKING SD_SHARE_LLC"},
        sysctls={"sched_itmt_enabled": 1},
        others={f"{CPU}/amd_pstate/prefcore": "enabled\n"},
    )  # fmt: skip


def homogeneous() -> AsymmetricMachine:
    """Return a machine with CPUs of one type and one governor."""
    return AsymmetricMachine(
        machine="x86_64",
        driver="acpi-cpufreq",
        cores=(Cores(count=4, threads=2, capacity=1024),),
        levels={"SMT": "SD_SHARE_CPUCAPACITY", "MC": "SD_SHARE_LLC"},
        sysctls={"sched_itmt_enabled": 0},
    )
