# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorder is killed while a setting is in force: ``ab stop`` restores CPUs and cgroups."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.recorder.tunables import read_tunables

pytestmark = [pytest.mark.system, pytest.mark.alone]

# A full /run of this recorder alone.
FULL_RUN = "mount -t tmpfs -o size=16k none /run && ! cat /dev/zero >/run/filler 2>&-; "
CPUS = "sys/devices/system/cpu/"


@pytest.fixture
def shares() -> Iterator[Path]:
    """The CPU share of a cgroup that exists before the recording."""
    for point, name in (("/sys/fs/cgroup/cpu", "cpu.shares"), ("/sys/fs/cgroup", "cpu.weight")):
        folder = Path(point, f"schedperf-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if os.access(folder / name, os.W_OK):
                yield folder / name
                return
        finally:
            folder.rmdir()
    pytest.skip("needs root and cgroups with the controller cpu")


def other_settings() -> Iterator[tuple[Path, str]]:
    """Yield settings of CPUs that this kernel takes, and another value of each."""
    governors = {"powersave": "performance", "performance": "powersave"}
    for path, text in read_tunables().items():
        if path.match(f"{CPUS}cpu0/cpuidle/state0/disable"):
            yield path, str(1 - int(text))
        elif path.match(f"{CPUS}cpufreq/policy0/scaling_governor") and text in governors:
            yield path, governors[text]
        elif path.match("sys/kernel/debug/sched/tunable_scaling") and os.access(path, os.W_OK):
            yield path, "0" if text != "0" else "1"


@pytest.mark.parametrize("run", ["", FULL_RUN], ids=["run", "full-run"])
def test_what_a_setup_changed_is_restored_after_a_kill(
    recorder: Any, shares: Path, run: str, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    changes = [(shares, str(int(shares.read_text()) // 2)), *other_settings()]
    before = {path: path.read_text() for path, _ in changes}
    setup = "; ".join(f"echo {value} > {path}" for path, value in changes)
    words = [sys.executable, "-m", "schedperf_collectors", "ab", "-o", "s", "-n", "1", "--warmup"]
    words += ["0", "--with", "none", "--new-setup", setup]
    # With the setting, the workload runs until the recorder is gone.
    wait = "touch started; exec tail -s 0.05 --pid=$PPID -f /dev/null"
    test = f'[ "$(cat {shares})" != {changes[0][1]} ] || {{ {wait}; }}'
    script = f'{run}exec "$@"'
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script, "sh", *words, "--", "sh", "-c", test],
        cwd=recorder.folder,
        env=recorder.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for((recorder.folder / "started").exists)
        assert {path: path.read_text() for path, _ in changes} != before
        process.kill()
        _, err = process.communicate(timeout=60)
    warnings = [line for line in err.splitlines() if "warning" in line]
    assert len(warnings) == bool(run), err
    assert all("/run/schedperf: no space left on device; " in line for line in warnings)
    stopped = recorder("ab", "stop", "-o", "s")
    assert {path: path.read_text() for path, _ in changes} == before, stopped
    for path, _ in changes:
        assert f"restored {path} to " in stopped.stdout
    assert "nothing more is left of the killed recording" in stopped.stdout
    assert not list(recorder.folder.glob("schedperf-*"))
