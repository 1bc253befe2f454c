# SPDX-License-Identifier: GPL-2.0-or-later
"""Manage the systemd unit that continues ``ab --resume`` after each boot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from schedperf_collectors.boots.agent import HOLD, RECORDER, VERB
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.new_files import write_durably

NAME = "schedperf-ab.service"
PATH = Path("/etc/systemd/system") / NAME
_LIMIT_S = 60.0

# The recorder of a boot is a separate process, which a restarted engine finds again.
_TEXT = f"""\
[Unit]
Description=Record scheduler benchmarks over several boots (schedperf ab --resume)
After=multi-user.target network-online.target
Wants=network-online.target
ConditionPathExists=!{HOLD}

[Service]
Type=exec
ExecStart={{python}} -I {RECORDER} {VERB} resume
KillMode=process
Restart=on-failure
RestartSec=5
WorkingDirectory=/

[Install]
WantedBy=multi-user.target
"""


def check() -> None:
    """Check that units can be started here.

    :raises RecordError: systemd does not run here
    """
    if not Path("/run/systemd/system").is_dir():
        raise RecordError(
            "--resume: systemd does not run on this machine; use --on ssh:HOST from another machine"
        )


def install() -> None:
    """Write and enable the unit.

    :raises RecordError: systemd refuses, or the unit cannot be written
    """
    try:
        write_durably(PATH, _TEXT.format(python=sys.executable).encode())
    except OSError as error:
        raise RecordError(f"{PATH}: {explain(error)}; run as root") from error
    _systemctl(["daemon-reload"])
    _systemctl(["enable", NAME])


def remove() -> None:
    """Disable and remove the unit if it exists, without stopping a running one.

    :raises RecordError: systemd refuses
    """
    if PATH.exists():
        _systemctl(["disable", NAME])
        PATH.unlink(missing_ok=True)
        _systemctl(["daemon-reload"])


def start() -> None:
    """Start the unit without waiting for its end.

    :raises RecordError: systemd refuses
    """
    _systemctl(["start", "--no-block", NAME])


def _systemctl(words: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            ["systemctl", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RecordError(f"systemctl {words[0]}: {error}; check that systemd runs") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise RecordError(f"systemctl {words[0]}: {lines[-1] if lines else 'failed'}; run as root")
