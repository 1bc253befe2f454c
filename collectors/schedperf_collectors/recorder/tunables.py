# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the machine's tunables that a setup may change, find changes, and restore them.

These are the writable files below ``kernel`` and ``vm`` of /proc/sys and ``sched`` of debugfs, the
settings of transparent huge pages, KSM, MGLRU and NUMA demotion, of SMT and which CPUs are online,
of CPU frequencies, idle states, the clock source, work queues and I/O schedulers, and the CPU
settings of cgroups. Files that the kernel itself writes, and commands, are left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from schedperf_collectors.recorder.control_groups import all_cgroups

# All writable files below these directories.
_TREES = (
    "proc/sys/kernel",
    "proc/sys/vm",
    "sys/kernel/debug/sched",
    "sys/kernel/mm/transparent_hugepage",
)
DEBUGFS = Path("/sys/kernel/debug")
# In the order of restoring: settings of a CPU exist only while it is online, and a governor only
# with its driver.
_PATTERNS = (
    "sys/devices/system/cpu/smt/control",
    "sys/devices/system/cpu/cpu*/online",
    "sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    "sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    "sys/devices/system/cpu/cpuidle/current_governor",
    "sys/devices/system/cpu/intel_pstate/status",
    "sys/devices/system/cpu/intel_pstate/[mn]*",
    "sys/devices/system/cpu/amd_pstate/status",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "sys/devices/system/cpu/cpufreq/policy*/scaling_m*_freq",
    "sys/devices/system/cpu/cpufreq/policy*/energy_performance_preference",
    "sys/devices/system/clocksource/clocksource*/current_clocksource",
    "sys/devices/virtual/workqueue/cpumask",
    "sys/devices/virtual/workqueue/*/cpumask",
    "sys/devices/virtual/workqueue/*/nice",
    "sys/devices/virtual/workqueue/*/affinity_scope",
    "sys/devices/virtual/workqueue/*/affinity_strict",
    "sys/block/*/queue/scheduler",
    "sys/kernel/mm/ksm/run",
    "sys/kernel/mm/lru_gen/enabled",
    "sys/kernel/mm/numa/demotion_enabled",
)
# Files of each cgroup, in version 2 and version 1.
_OF_CGROUPS = (
    "cpu.weight",
    "cpu.max",
    "cpu.max.burst",
    "cpu.idle",
    "cpu.uclamp.min",
    "cpu.uclamp.max",
    "cpuset.cpus",
    "cpuset.mems",
    "cpuset.cpus.partition",
    "cpu.shares",
    "cpu.cfs_period_us",
    "cpu.cfs_quota_us",
    "cpuset.sched_load_balance",
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
# A hot CPU may limit these; writing does not restore them then.
MOVED_BY_FIRMWARE = frozenset({"scaling_max_freq", "scaling_min_freq"})
_RANDOM = "proc/sys/kernel/random"

# `always [madvise] never`, and `none (voluntary) full` in debugfs.
_CHOICE = re.compile(r"(?:^|\s)[\[(](\S+)[\])](?=\s|$)")

# `root invalid (Cpu list in cpuset.cpus not exclusive)` and `default (cache)`.
_FIRST_WORD = frozenset({"cpuset.cpus.partition", "affinity_scope"})

# Two limits of one frequency cannot be restored in every order.
_PASSES = 2

Tunables = Mapping[Path, str]


def read_tunables(root: Path = Path("/")) -> dict[Path, str]:
    """Return the values of all tunables that this process can read and write, by path.

    :param root: directory of proc and sys; cgroups are read only if it is /
    """
    hidden = _read_hidden_debugfs() if root == Path("/") else {}
    found = {path: text for path in _candidates(root) if (text := _read(path, root)) is not None}
    return {**hidden, **found}


def _read_hidden_debugfs() -> dict[Path, str]:
    """Return the tunables of debugfs if it is not mounted, because a setup may mount it.

    A child process reads them in its own mount namespace. The result is empty if debugfs is
    mounted, cannot be mounted, or this user is not root.
    """
    if os.geteuid() != 0 or (DEBUGFS / "sched").is_dir():
        return {}
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with open(write, "w", encoding="utf-8") as file:  # noqa: PTH123 # a descriptor
                json.dump(_read_privately(), file)
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as file:  # noqa: PTH123 # a descriptor
        content = file.read()
    os.waitpid(child, 0)
    return {Path(name): text for name, text in json.loads(content or "{}").items()}


def _read_privately() -> dict[str, str]:
    libc = ctypes.CDLL(None, use_errno=True)
    # From sched.h and sys/mount.h.
    new_mounts, private = 0x00020000, 0x4000 | (1 << 18)
    if libc.unshare(new_mounts) or libc.mount(b"none", b"/", None, private, None):
        return {}
    if libc.mount(b"none", os.fsencode(DEBUGFS), b"debugfs", 0, None):
        return {}
    root = Path("/")
    paths = [
        Path(folder, name) for folder, _, names in os.walk(DEBUGFS / "sched") for name in names
    ]
    return {str(path): text for path in paths if (text := _read(path, root)) is not None}


def changed_tunables(before: Tunables) -> dict[Path, str]:
    """Return the current values of the tunables that have changed; unreadable ones are left out."""
    changed = {}
    for path, text in before.items():
        with contextlib.suppress(OSError):
            now = _text(path.read_bytes())
            if now != text:
                changed[path] = now
    return changed


def restore_tunables(before: Tunables) -> dict[Path, str]:
    """Restore changed tunables; return the current values of those that could not be restored."""
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


def undo_command(path: Path, before: str, now: str) -> str:
    """Return the shell command that restores a tunable.

    >>> undo_command(Path("/sys/kernel/debug/sched/features"), "A NO_B", "NO_A NO_B")
    'echo A > /sys/kernel/debug/sched/features'
    """
    commands = [
        f"echo {shlex.quote(word)} > {shlex.quote(str(path))}"
        for word in words_to_write(path, before, now)
    ]
    return "; ".join(commands)


def words_to_write(path: Path, before: str, now: str) -> list[str]:
    """Return the texts to write to a tunable, one after the other, to restore its old value.

    >>> words_to_write(Path("/sys/kernel/mm/x/enabled"), "always [madvise] never", "[always] …")
    ['madvise']
    """
    if path.match("sched/features"):
        present = set(now.split())
        return [word for word in before.split() if word not in present]
    if path.name in _FIRST_WORD:
        return before.split()[:1]
    choice = None if "proc" in path.parts else _CHOICE.search(before)
    return [choice[1] if choice else before]


def _candidates(root: Path) -> Iterator[Path]:
    for tree in _TREES:
        for folder, _, names in os.walk(root / tree):
            yield from (Path(folder, name) for name in sorted(names))
    for pattern in _PATTERNS:
        yield from sorted(root.glob(pattern))
    if root == Path("/"):
        for group in sorted(all_cgroups()):
            yield from (group / name for name in _OF_CGROUPS if (group / name).exists())


def _read(path: Path, root: Path) -> str | None:
    if path.name in _NO_TUNABLES or root / _RANDOM in path.parents:
        return None
    try:
        # root can open every file, so the mode decides.
        if path.stat().st_mode & 0o200 and os.access(path, os.R_OK | os.W_OK):
            return _text(path.read_bytes())
    except OSError:
        pass
    return None


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape").rstrip("\n")
