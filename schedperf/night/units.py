# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the systemd timer and service that run a night every day."""

import os
import sys
from pathlib import Path

from msgspec import Struct

from schedperf.bundle.durable import write_durably
from schedperf.model.errors import InputError
from schedperf.night.job import JobFile
from schedperf_collectors.machine.errors import explain

_SYSTEM = Path("/etc/systemd/system")
_SERVICE = """\
[Unit]
Description=Compare two kernels on {machine} (schedperf night)
Documentation=man:schedperf-night(1)
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart={command}
# A night that was killed, or whose machine did not answer, goes on.
Restart=on-failure
RestartPreventExitStatus=1 2
RestartSec=600
KillMode=mixed
TimeoutStopSec=300
"""
_TIMER = """\
[Unit]
Description=Compare two kernels on {machine} every night (schedperf night)

[Timer]
OnCalendar=*-*-* {at}:00
Persistent=true

[Install]
WantedBy=timers.target
"""


class Units(Struct, frozen=True, kw_only=True):
    """The units of a job file: path and text of each.

    :param enable: the command that starts the timer
    """

    service: Path
    timer: Path
    service_text: str
    timer_text: str
    enable: str


def make_units(job: JobFile, at: str, *, user: bool) -> Units:
    """Return the units of a job file.

    :param at: time of day: ``22:00``
    :param user: for the user's systemd, not that of the system
    """
    name = f"schedperf-night-{job.machine.name}-{job.job.name}"
    folder = _user_folder() if user else _SYSTEM
    command = " ".join(
        map(_quote, [sys.executable, "-m", "schedperf", "night", "run", str(job.path)])
    )
    return Units(
        service=folder / f"{name}.service",
        timer=folder / f"{name}.timer",
        service_text=_SERVICE.format(machine=job.machine.name, command=command),
        timer_text=_TIMER.format(machine=job.machine.name, at=at),
        enable=f"systemctl {'--user ' if user else ''}enable --now {name}.timer",
    )


def write_units(units: Units) -> None:
    """Write the units.

    :raises InputError: they cannot be written
    """
    for path, text in ((units.service, units.service_text), (units.timer, units.timer_text)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, text.encode())
        except OSError as error:
            raise InputError(f"{path}: {explain(error)}; run as root, or give --user") from error


def _user_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(base, "systemd", "user")


def _quote(word: str) -> str:
    """Quote a word as systemd.service(5) reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
