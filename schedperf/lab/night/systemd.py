# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the systemd timer and services that run a night every day, and continue it after a boot."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.durable import write_durably
from schedperf.lab.night.job import JobFile
from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import explain

_SYSTEM = Path("/etc/systemd/system")
_SERVICE = """\
[Unit]
Description={description}
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
Also={resume}
"""
_AT_BOOT = """
[Install]
WantedBy={target}
"""


class Units(Struct, frozen=True, kw_only=True):
    """The systemd units of a job file.

    :param texts: the text of each unit, by its path
    :param enable: the command that starts the timer
    """

    texts: dict[Path, str]
    enable: str


def make_units(job: JobFile, at: str, *, user: bool) -> Units:
    """Return the units of a job file.

    :param at: local time of day: ``22:00``
    :param user: for the user's systemd instance, not the system's
    """
    name = f"schedperf-night-{job.machine.name}-{job.job.name}"
    folder = _user_folder() if user else _SYSTEM
    machine, resume = job.machine.name, f"{name}-resume.service"
    command = [sys.executable, "-m", "schedperf", "night", "run", str(job.path)]
    nightly = _SERVICE.format(
        description=f"Compare two kernels on {machine} (schedperf night)", command=_join(command)
    )
    at_boot = _SERVICE.format(
        description=f"Go on with a night on {machine} that a power cut interrupted",
        command=_join([*command, "--unfinished"]),
    )
    return Units(
        texts={
            folder / f"{name}.service": nightly,
            folder / f"{name}.timer": _TIMER.format(machine=machine, at=at, resume=resume),
            folder / resume: at_boot
            + _AT_BOOT.format(target="default.target" if user else "multi-user.target"),
        },
        enable=f"systemctl {'--user ' if user else ''}enable --now {name}.timer",
    )


def write_units(units: Units) -> None:
    """Write the units.

    :raises InputError: they cannot be written
    """
    for path, text in units.texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, text.encode())
        except OSError as error:
            raise InputError(f"{path}: {explain(error)}; run as root, or give --user") from error


def _user_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(base, "systemd", "user")


def _join(words: Sequence[str]) -> str:
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    """Quote a word for a unit file (systemd.service(5))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
