"""Numbers that a kernel gives, in words: which Arm core it is, and why a kernel is tainted."""

import re
from collections.abc import Mapping

# By implementer and part of MIDR_EL1: arch/arm64/include/asm/cputype.h.
ARM_CORES: Mapping[tuple[int, int], str] = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "TSV110",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
_MIDR = re.compile(r"implementer (0x[0-9a-f]{1,4}) part (0x[0-9a-f]{1,4})")

# By bit of /proc/sys/kernel/tainted: Documentation/admin-guide/tainted-kernels.rst.
TAINTS = (
    "a proprietary module was loaded",
    "a module was loaded by force",
    "the kernel runs on a system out of specification",
    "a module was unloaded by force",
    "a machine check was reported",
    "a bad page was found",
    "user space asked for it",
    "the kernel died: an oops or a BUG",
    "an ACPI table was overridden",
    "a warning was printed",
    "a staging driver was loaded",
    "a bug of the firmware was worked around",
    "a module from outside of the kernel's tree was loaded",
    "an unsigned module was loaded",
    "a soft lockup was seen",
    "the kernel was patched live",
    "an auxiliary taint of the distribution",
    "the structure layout was randomised",
    "an in-kernel test was run",
)


def name_model(model: str) -> str:
    """Return a CPU's model; an Arm core that has only numbers by its name, where that is known.

    >>> name_model("implementer 0x41 part 0xd07")
    'Cortex-A57'
    """
    found = _MIDR.fullmatch(model)
    key = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
    return ARM_CORES.get(key, model)


def explain_taint(taint: int) -> str:
    """Say why a kernel is tainted.

    >>> explain_taint(512)
    'a warning was printed'
    """
    told = [text for bit, text in enumerate(TAINTS) if taint >> bit & 1]
    rest = taint >> len(TAINTS)
    return ", ".join((*told, *(("a reason that is not known here",) if rest else ())))
