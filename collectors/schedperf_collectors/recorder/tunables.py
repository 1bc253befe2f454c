# SPDX-License-Identifier: GPL-2.0-or-later
"""Tunables of the machine that a setup may change: read them, find changes and restore them.

These are the writable files below ``kernel`` and ``vm`` of /proc/sys, ``sched`` of debugfs, and the
settings of transparent huge pages, of CPU frequencies, of idle states and of CPUs that are online.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

# All writable files below these directories.
_TREES = (
    "proc/sys/kernel",
    "proc/sys/vm",
    "sys/kernel/debug/sched",
    "sys/kernel/mm/transparent_hugepage",
)
# In the order of restoring: settings of a CPU exist only while it is online, and a governor only
# with its driver.
_PATTERNS = (
    "sys/devices/system/cpu/smt/control",
    "sys/devices/system/cpu/cpu*/online",
    "sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    "sys/devices/system/cpu/intel_pstate/status",
    "sys/devices/system/cpu/intel_pstate/[mn]*",
    "sys/devices/system/cpu/amd_pstate/status",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "sys/devices/system/cpu/cpufreq/policy*/scaling_m*_freq",
    "sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference",
)

# The kernel itself writes these, or they are commands.
_NO_TUNABLES = frozenset(
    {
        "drop_caches",
        "max_newidle_lb_cost",
        "ns_last_pid",
        "perf_event_max_sample_rate",
        "stat_refresh",
        "tainted",
    }
)
# A hot CPU may cap these; no write restores them then.
MOVED_BY_FIRMWARE = frozenset({"scaling_max_freq", "scaling_min_freq"})
_RANDOM = "proc/sys/kernel/random"

# `always [madvise] never`, and `none (voluntary) full` in debugfs.
_CHOICE = re.compile(r"(?:^|\s)[\[(](\S+)[\])](?=\s|$)")

# Two limits of one frequency cannot be restored in every order.
_PASSES = 2

Tunables = Mapping[Path, str]


def read_tunables(root: Path = Path("/")) -> dict[Path, str]:
    """Return all tunables that this process can read and write.

    :param root: where /proc and /sys are
    """
    return {path: text for path in _candidates(root) if (text := _read(path, root)) is not None}


def changed_tunables(before: Tunables) -> dict[Path, str]:
    """Return the tunables that now differ, as they are now."""
    changed = {}
    for path, text in before.items():
        with contextlib.suppress(OSError):
            now = _text(path.read_bytes())
            if now != text:
                changed[path] = now
    return changed


def restore_tunables(before: Tunables) -> dict[Path, str]:
    """Write back changed tunables; return those that could not be restored, as they are now."""
    changed = changed_tunables(before)
    for _ in range(_PASSES):
        for path, now in changed.items():
            # Some files are two views of one tunable (dirty_ratio, dirty_bytes): writing one
            # restores both, and the other write fails. The values read afterwards decide.
            for word in words_to_write(path, before[path], now):
                with contextlib.suppress(OSError):
                    path.write_bytes(word.encode(errors="surrogateescape") + b"\n")
        changed = changed_tunables({path: before[path] for path in changed})
        if not changed:
            break
    return changed


def say_undo(path: Path, before: str, now: str) -> str:
    """Return the shell command that restores a tunable.

    >>> say_undo(Path("/sys/kernel/debug/sched/features"), "A NO_B", "NO_A NO_B")
    'echo A > /sys/kernel/debug/sched/features'
    """
    commands = [
        f"echo {shlex.quote(word)} > {shlex.quote(str(path))}"
        for word in words_to_write(path, before, now)
    ]
    return "; ".join(commands)


def words_to_write(path: Path, before: str, now: str) -> list[str]:
    """Return what to write, one word at a time, to change a tunable back.

    >>> words_to_write(Path("/sys/kernel/mm/x/enabled"), "always [madvise] never", "[always] …")
    ['madvise']
    """
    if path.match("sched/features"):
        present = set(now.split())
        return [word for word in before.split() if word not in present]
    choice = None if "proc" in path.parts else _CHOICE.search(before)
    return [choice[1] if choice else before]


def _candidates(root: Path) -> Iterator[Path]:
    for tree in _TREES:
        for folder, _, names in os.walk(root / tree):
            yield from (Path(folder, name) for name in sorted(names))
    for pattern in _PATTERNS:
        yield from sorted(root.glob(pattern))


def _read(path: Path, root: Path) -> str | None:
    if path.name in _NO_TUNABLES or root / _RANDOM in path.parents:
        return None
    try:
        # root may open every file, so the mode decides.
        if path.stat().st_mode & 0o200 and os.access(path, os.R_OK | os.W_OK):
            return _text(path.read_bytes())
    except OSError:
        pass
    return None


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape").rstrip("\n")
