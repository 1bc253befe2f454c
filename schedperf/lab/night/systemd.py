# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the systemd units that run the nights of a lab every day, and continue them after a boot.

The units are templates, with an instance per machine.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.durable import write_durably
from schedperf.lab.night.lab import Lab, Machine
from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import explain

DEFAULT_AT = "22:00"
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
Description=Compare kernels on %I every night (schedperf night)

[Timer]
OnCalendar=*-*-* {at}:00
Persistent=true

[Install]
WantedBy=timers.target
Also={resume}
"""
_TIMER_OF_MACHINE = """\
[Timer]
OnCalendar=
OnCalendar=*-*-* {at}:00
"""
_AT_BOOT = """
[Install]
WantedBy={target}
"""


class Units(Struct, frozen=True, kw_only=True):
    """The systemd units of a lab.

    :param texts: the text of each unit, by its path
    :param enable: the command that starts the timers
    """

    texts: dict[Path, str]
    enable: str


def make_units(lab: Lab, at: str | None, *, user: bool) -> Units:
    """Return the units of a lab: templates, and the time of each machine that has another one.

    :param at: local time of day, ``22:00``; None for the begin of each machine's hours
    :param user: for the user's systemd instance, not the system's
    """
    name = f"schedperf-{_escape(lab.path.stem)}"
    folder = _user_folder() if user else _SYSTEM
    resume = f"{name}-resume@.service"
    command = [sys.executable, "-m", "schedperf", "night", "run", str(lab.path)]
    of_machine = f'{_join(command)} "--machine" "%I"'
    nightly = _SERVICE.format(
        description="Compare kernels on %I (schedperf night)", command=of_machine
    )
    at_boot = _SERVICE.format(
        description="Go on with a night on %I that a power cut interrupted",
        command=f'{of_machine} "--unfinished"',
    )
    times = {machine.name: at or _begin(machine) for machine in lab.machines}
    usual = times[lab.machines[0].name]
    timer = _TIMER.format(at=usual, resume=resume.replace("@", "@%i"))
    texts = {
        folder / f"{name}@.service": nightly,
        folder / f"{name}@.timer": timer,
        folder / resume: at_boot
        + _AT_BOOT.format(target="default.target" if user else "multi-user.target"),
    }
    for machine, its_time in times.items():
        if its_time != usual:
            path = folder / f"{name}@{_escape(machine)}.timer.d" / "at.conf"
            texts[path] = _TIMER_OF_MACHINE.format(at=its_time)
    timers = " ".join(f"'{name}@{_escape(machine)}.timer'" for machine in times)
    timers = timers if "\\" in timers else timers.replace("'", "")
    return Units(texts=texts, enable=f"systemctl {'--user ' if user else ''}enable --now {timers}")


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


def _begin(machine: Machine) -> str:
    return DEFAULT_AT if machine.hours is None else machine.hours[:5]


def _user_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(base, "systemd", "user")


def _escape(text: str) -> str:
    """Escape a name for a unit's name, as systemd-escape(1)."""
    return re.sub(
        r"[^A-Za-z0-9_]",
        lambda match: "".join(f"\\x{byte:02x}" for byte in match[0].encode()),
        text,
    )


def _join(words: Sequence[str]) -> str:
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    """Quote a word for a unit file (systemd.service(5))."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
