# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the tests of the perf.data reader: what real files hold, and how to look at rows."""

import gzip
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.inputs.perf_data import Recording
from tests.shared_data import shared

_FOLDERS = ("quipper", "hotspot", "linux-perf-data", "perfparser")
_MAGICS = (b"PERFILE2", b"PERFFILE")

# Event, CPU, address, call chain and what is counted.
Row = tuple[str, int, int, tuple[int, ...]]


def _rows_of(recording: Recording) -> dict[Row, tuple[int, int]]:
    samples = recording.samples
    found: dict[Row, tuple[int, int]] = {}
    for row in range(len(samples)):
        chain = int(samples.chain[row])
        key = (
            recording.events[samples.event[row]].name,
            int(samples.cpu[row]),
            int(samples.ip[row]),
            tuple(recording.chains[chain].tolist()) if chain >= 0 else (),
        )
        count, period = found.get(key, (0, 0))
        found[key] = count + int(samples.count[row]), period + int(samples.period[row])
    return found


def _by_address(recording: Recording) -> Counter[tuple[str, int, int]]:
    found: Counter[tuple[str, int, int]] = Counter()
    for (event, _, address, _), (samples, period) in _rows_of(recording).items():
        found[event, address, 0] += samples
        found[event, address, 1] += period
    return found


@pytest.fixture(scope="session")
def rows_of() -> Callable[[Recording], dict[Row, tuple[int, int]]]:
    """Return rows as ``{(event, cpu, ip, chain): (samples, period)}``."""
    return _rows_of


@pytest.fixture(scope="session")
def by_address() -> Callable[[Recording], Counter[tuple[str, int, int]]]:
    """Count (event, address) in samples (0) and periods (1), as perf script prints them."""
    return _by_address


def _unpacked(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(raw)
    # Qt puts the size in front.
    return zlib.decompress(raw[4:]) if path.suffix == ".zlib" else raw


@pytest.fixture(scope="session")
def foreign_files() -> dict[str, bytes]:
    """Return perf.data files of other machines by their names; skip where there are none."""
    samples = shared("data/perfdata")
    paths = [path for name in _FOLDERS for path in sorted((samples / name).rglob("*"))]
    contents = {str(path.relative_to(samples)): _unpacked(path) for path in paths if path.is_file()}
    return {name: raw for name, raw in contents.items() if raw[:8] in _MAGICS}


# Two tasks, each in user and in kernel code until it has had a quarter of a second of a CPU, with
# some switches: enough to be sampled on any machine, where ``perf bench`` may be over too soon.
BUSY = """
import os, time
child = os.fork()
open("/proc/self/comm", "w").write("parent" if child else "child")
end = time.process_time() + 0.25
while time.process_time() < end: os.stat("/"); sum(range(500))
for _ in range(20): time.sleep(0.001)
if child: os.waitpid(child, 0)
"""


@pytest.fixture(scope="session")
def recorded_here_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Record this machine: ``recorded_here_with("-z", "-g") -> Path``; skip where that fails."""

    def record(*options: str) -> Path:
        path = tmp_path_factory.mktemp("perf") / "perf.data"
        command = ["perf", "record", "-a", "-N", "-F", "499", "-o", str(path), *options]
        done = subprocess.run(
            [*command, "--", sys.executable, "-c", BUSY], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"all CPUs cannot be profiled here: {done.stderr[-200:]!r}")
        return path

    return record
