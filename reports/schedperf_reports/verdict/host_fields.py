# SPDX-License-Identifier: GPL-2.0-or-later
"""Format values of host.json for tables: long values as their difference, and kernel taints."""

import json
from collections.abc import Mapping
from difflib import SequenceMatcher

from schedperf_collectors.contract import REASONS_GROUP
from schedperf_reports.words.quantities import MISSING

# Longer texts of two sides (kernel command lines, CPU flags) are cut down to the words that differ.
LONG_TEXT_CHARACTERS = 48

# The diff takes quadratic time; current CPUs have fewer than 200 flags.
MOST_WORDS = 500

# By bit of /proc/sys/kernel/tainted: Documentation/admin-guide/tainted-kernels.rst.
_TAINTS = (
    "proprietary module was loaded",
    "module was force loaded",
    "kernel running on an out of specification system",
    "module was force unloaded",
    "processor reported a Machine Check Exception (MCE)",
    "bad page referenced or unexpected page flags",
    "taint requested by user space",
    "kernel died recently (oops or BUG)",
    "ACPI table overridden by user",
    "kernel issued a warning",
    "staging driver was loaded",
    "workaround for a bug in platform firmware applied",
    "out-of-tree module was loaded",
    "unsigned module was loaded",
    "soft lockup occurred",
    "kernel has been live patched",
    "auxiliary taint, defined by the distribution",
    "kernel was built with the struct randomization plugin",
    "in-kernel test has been run",
)


def format_value(value: object) -> str:
    """Format a JSON value for people: ``yes``, ``-``, ``0-3``, ``[[10, 20], [20, 10]]``.

    >>> format_value([{"cpus": "0-3", "governor": "powersave", "epp": None}])
    '0-3: governor powersave'
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and value and all(map(_is_of_cpus, value)):
        return "; ".join(map(_format_of_cpus, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_of_cpus(value: object) -> bool:
    # A cpufreq policy.
    return isinstance(value, Mapping) and isinstance(value.get("cpus"), str)


def _format_of_cpus(value: Mapping[str, object]) -> str:
    settings = (
        f"{name} {format_value(each)}"
        for name, each in value.items()
        if name != "cpus" and each is not None
    )
    return f"{value['cpus']}: {', '.join(settings)}"


def format_pair(base: object, new: object) -> tuple[str, str]:
    """Format both sides of a difference; if a text is long, only the words that differ.

    The texts are complete if a value is None, if they have no common words, or if they have more
    than ``MOST_WORDS`` words.
    """
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
    """Return why a field is null; None if the bundle does not record the reason."""
    reasons = host.get(REASONS_GROUP)
    reason = reasons.get(path) if isinstance(reasons, Mapping) else None
    return None if reason is None else str(reason)


def explain_taint(taint: int) -> str:
    """Return why a kernel is tainted; "" for 0.

    >>> explain_taint(512)
    'kernel issued a warning'

    :param taint: value of /proc/sys/kernel/tainted
    """
    reasons = [text for bit, text in enumerate(_TAINTS) if taint >> bit & 1]
    rest = taint >> len(_TAINTS)
    return ", ".join((*reasons, *(("unknown taint flag",) if rest else ())))
