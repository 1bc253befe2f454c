# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that hangs in its restart is ended; one that runs after a restart is not."""

import signal
import subprocess
from pathlib import Path

import pytest

from schedperf_generators.disk import machine
from schedperf_generators.disk.machine import Machine

_RESTARTS = b"[   87.673073] reboot: Restarting system\n"


@pytest.mark.parametrize(("earlier", "status"), [(b"", -signal.SIGKILL), (_RESTARTS, 0)])
def test_only_a_restart_of_this_boot_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bytes, status: int
) -> None:
    monkeypatch.setattr(machine, "_RESTART_S", 0.05)
    guest = object.__new__(Machine)
    guest.console = tmp_path / "console.log"
    guest.console.write_bytes(_RESTARTS)
    with subprocess.Popen(["sleep", "60" if status else "1"]) as process:
        assert guest._await_end(process, len(earlier)) == 0
    assert process.returncode == status
