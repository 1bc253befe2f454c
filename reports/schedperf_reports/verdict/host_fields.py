# SPDX-License-Identifier: GPL-2.0-or-later
"""Values of host.json in words: short enough for a table, of long ones only what differs, Arm cores
and reasons of a taint by their names.
"""

import json
import re
from collections.abc import Mapping
from difflib import SequenceMatcher

from schedperf.compare.comparability import REASONS_GROUP
from schedperf_reports.words.units import MISSING

# Longer texts of two sides (kernel command lines, CPU flags) are cut down to the words that differ.
LONG_TEXT_CHARACTERS = 48

# Finding what differs takes the square of the words; the CPU flags of today are below 200.
MOST_WORDS = 500
# By implementer and part of MIDR_EL1: arch/arm64/include/asm/cputype.h.
_ARM_CORES: Mapping[tuple[int, int], str] = {
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
_TAINTS = (
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


def format_value(value: object) -> str:
    """Write a JSON value for people: ``yes``, ``-``, ``0-3``, ``[[10, 20], [20, 10]]``."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def format_pair(base: object, new: object) -> tuple[str, str]:
    """Write both sides of a difference; of two long texts only the words that are not equal."""
    texts = (format_value(base), format_value(new))
    if max(map(len, texts)) <= LONG_TEXT_CHARACTERS or None in (base, new):
        return texts
    words = (texts[0].split(), texts[1].split())
    if max(map(len, words)) > MOST_WORDS:
        return texts
    opcodes = SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    changed = [code for code in opcodes if code[0] != "equal"]
    if len(changed) in (0, len(opcodes)):
        return texts
    left = [" ".join(words[0][start:end]) for _, start, end, _, _ in changed]
    right = [" ".join(words[1][start:end]) for _, _, _, start, end in changed]
    return _join(left), _join(right)


def _join(parts: list[str]) -> str:
    return f"… {' … '.join(part or '(nothing)' for part in parts)} …"


def missing_reason(host: Mapping[str, object], path: str) -> str | None:
    """Return why a field is null, if the bundle says so."""
    reasons = host.get(REASONS_GROUP)
    reason = reasons.get(path) if isinstance(reasons, Mapping) else None
    return None if reason is None else str(reason)


def name_model(model: str) -> str:
    """Return a CPU's model; an Arm core that has only numbers by its name, where that is known.

    >>> name_model("implementer 0x41 part 0xd07")
    'Cortex-A57'
    """
    found = _MIDR.fullmatch(model)
    key = (int(found[1], 16), int(found[2], 16)) if found else (0, 0)
    return _ARM_CORES.get(key, model)


def explain_taint(taint: int) -> str:
    """Say why a kernel is tainted.

    >>> explain_taint(512)
    'a warning was printed'
    """
    told = [text for bit, text in enumerate(_TAINTS) if taint >> bit & 1]
    rest = taint >> len(_TAINTS)
    return ", ".join((*told, *(("a reason that is not known here",) if rest else ())))
