# SPDX-License-Identifier: GPL-2.0-or-later
"""Ten causes of a slower workload, each planted in the new side by its setup."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ENTER_CGROUP = ROOT / "examples" / "deep-cgroup" / "enter-cgroup"
NO_AUTOGROUP = "echo 0 >/proc/sys/kernel/sched_autogroup_enabled"
HACKBENCH = "hackbench -l 1500 -g 2"
OTHER_LOAD = re.compile("(?:other load|waited for a CPU).*python3", re.DOTALL)
# A load that ends with the run, or after a minute at the latest.
LOAD = "python3 -c 'while True: pass'"


class Cause(NamedTuple):
    """One planted cause.

    :param command: the workload
    :param base: setup of base; "" for none
    :param new: setup of the new side
    :param named: pattern that the first reason must match
    """

    name: str
    command: str
    base: str
    new: str
    named: re.Pattern[str]


def all_causes(folder: Path) -> tuple[Cause, ...]:
    """Return the causes.

    :param folder: where the programs are built, and where files are written
    """
    workload = folder / "workload"

    def in_group(controller: str, limit: str, value: str) -> str:
        group = f"/sys/fs/cgroup/{controller}/schedperf-cause"
        return (
            f"mkdir -p {group} && echo '{value}' >{group}/{limit} && echo $$ >{group}/cgroup.procs"
        )

    def beside(prefix: str, loads: int) -> str:
        start = f"setsid {prefix} timeout 60 {LOAD} >/dev/null 2>&1 &"
        return f"for n in $(seq {loads}); do {start} done"

    device = (folder / ".").stat().st_dev
    node = f"{device >> 8}:{device & 0xFF}"
    return (
        Cause("more user work", HACKBENCH, "", f"export LD_PRELOAD={folder}/user.so",
              re.compile("user time|planted_checksum")),
        Cause("more system calls", HACKBENCH, "", f"export LD_PRELOAD={folder}/calls.so",
              re.compile("system time|getppid|__task_pid_nr_ns")),
        Cause("lock contention in user space", f"{workload} locks 4 30000", "", "export SHARED=1",
              re.compile("blocked|futex")),
        Cause("a niced load", HACKBENCH, "", beside("nice -n 2", 2),
              OTHER_LOAD),
        Cause("a SCHED_FIFO load", HACKBENCH, "", beside("chrt -f 10", 1),
              OTHER_LOAD),
        Cause("cgroup bandwidth", HACKBENCH, "",
              in_group("cpu", "cpu.cfs_quota_us", "50000"), re.compile("throttled")),
        Cause("cgroup depth", "hackbench -p -l 2000 -g 2",
              f"{NO_AUTOGROUP} && {ENTER_CGROUP} 0 $$", f"{NO_AUTOGROUP} && {ENTER_CGROUP} 8 $$",
              re.compile("system time|update_cfs_group|update_load_avg|PELT")),
        Cause("I/O", f"{workload} write {folder}/written 64 2000", "",
              in_group("blkio", "blkio.throttle.write_bps_device", f"{node} 64000000"),
              re.compile("blocked.*mostly by I/O", re.DOTALL)),
        Cause("small pages", f"{workload} faults 256 12", "", "export NO_THP=1",
              re.compile("system time|faults")),
        Cause("one CPU", HACKBENCH, "", "taskset -cp 0 $$ >/dev/null",
              re.compile("waited for a CPU")),
    )  # fmt: skip
