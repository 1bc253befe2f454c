"""Which machine a kernel is for and how long its cache lines are, from what does not say so."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from schedperf.bundle.json import decode
from schedperf.evidence.layout.model import LARGEST_LINE_BYTES, SMALLEST_LINE_BYTES
from schedperf.evidence.layout.record import LineBytes
from schedperf_collectors.contract import CONSTANT_LINE_BYTES, SHIFT_OPTION

# X86_L1_CACHE_SHIFT of arch/x86/Kconfig.cpu is 6 but for Pentium 4, where it was 7 up to 6.14.
X86_LINE_BYTES = 64

# Symbols, types or functions that kernels of one architecture have, of 4.x and of today.
_NAMES = {
    "x86": ("__x64_sys_read", "entry_SYSCALL_64", "desc_struct", "cpu_tss_rw", "cpuinfo_x86"),
    "arm64": ("__arm64_sys_read", "el0_svc", "el0t_64_sync", "user_fpsimd_state"),
    "powerpc": ("thread_vr_state", "thread_fp_state", "ppc_md"),
    "s390": ("__s390x_sys_read", "psw_t"),
    "riscv": ("__riscv_sys_read", "__riscv_d_ext_state", "riscv_isa"),
    "loongarch": ("cpuinfo_loongarch",),
    "mips": ("cpuinfo_mips",),
    "arm": ("vfp_hard_struct",),
}
# Options of a configuration, the longer-named architecture first: X86_64 has X86 too.
_OPTIONS = {
    "X86_64": "x86_64",
    "X86_32": "i386",
    "ARM64": "arm64",
    "PPC64": "ppc64",
    "PPC32": "ppc",
    "S390": "s390x",
    "RISCV": "riscv64",
    "LOONGARCH": "loongarch64",
    "MIPS": "mips",
    "ARM": "arm",
}
# uname -m has its own names for some.
_UNAME = {"aarch64": "arm64", "i686": "i386", "i586": "i386", "armv7l": "arm", "armv8l": "arm"}
_WIDE_BYTES = 8


def machine_of_names(
    has_name: Callable[[str], bool], pointer_bytes: int | None, *, is_big_endian: bool | None
) -> str | None:
    """Return the machine that a kernel with these names is for; None where no or several fit."""
    fitting = [family for family, names in _NAMES.items() if any(map(has_name, names))]
    if len(fitting) != 1:
        return None
    is_wide = pointer_bytes in {None, _WIDE_BYTES}
    if fitting == ["powerpc"] and is_wide:
        return "ppc64" if is_big_endian in {None, True} else "ppc64le"
    wide = {"x86": "x86_64", "s390": "s390x", "riscv": "riscv64", "loongarch": "loongarch64"}
    narrow = {"x86": "i386", "riscv": "riscv32", "powerpc": "ppc"}
    return (wide if is_wide else narrow).get(fitting[0], fitting[0])


def machine_of_config(config: str) -> str | None:
    """Return the machine that a configuration is for; None where it does not say."""
    for option, machine in _OPTIONS.items():
        if re.search(rf"^CONFIG_{option}=y$", config, re.MULTILINE):
            if option == "PPC64" and "\nCONFIG_CPU_LITTLE_ENDIAN=y\n" in config:
                return "ppc64le"
            return machine
    return None


def machine_of_uname(name: object) -> str | None:
    """Return our name of what ``uname -m`` printed; None where that is no text."""
    return _UNAME.get(name, name) if isinstance(name, str) else None


def compile_time_line(config: str | None, machine: str | None) -> tuple[int | None, str]:
    """Return L1_CACHE_BYTES, and a sentence where that rests on the machine alone, else ""."""
    found = SHIFT_OPTION.search(config or "")
    if found and SMALLEST_LINE_BYTES <= 1 << int(found.group(2)) <= LARGEST_LINE_BYTES:
        return 1 << int(found.group(2)), ""
    constants = {machine_of_uname(name): size for name, size in CONSTANT_LINE_BYTES.items()}
    if machine in constants:
        return constants[machine], ""
    if machine == "x86_64":
        return X86_LINE_BYTES, (
            f"no configuration says how long a line is; {X86_LINE_BYTES} bytes are what kernels "
            "for x86_64 are compiled for"
        )
    return None, ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _CacheLine:
    """The sizes of a cache line; None: unknown."""

    compile_time_bytes: int | None = None
    hardware_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that no machine has."""
        for name in ("compile_time_bytes", "hardware_bytes"):
            size = getattr(self, name)
            if size is not None and not _is_line_size(size):
                raise ValueError(
                    f"{name} is {size} (expected a power of two from {SMALLEST_LINE_BYTES} to "
                    f"{LARGEST_LINE_BYTES})"
                )


def _is_line_size(size: int) -> bool:
    return SMALLEST_LINE_BYTES <= size <= LARGEST_LINE_BYTES and size.bit_count() == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """What layout.json says of the machine."""

    cacheline: _CacheLine


def parse_line_bytes(content: bytes, label: str) -> LineBytes:
    """Read the line sizes that the layout collector found, from its layout.json.

    :raises BundleError: a size is no power of two, or none that exists
    """
    found = decode(content, _Facts, label).cacheline
    return LineBytes(compile_time=found.compile_time_bytes, hardware=found.hardware_bytes)
