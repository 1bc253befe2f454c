# SPDX-License-Identifier: GPL-2.0-or-later
"""Start a PostgreSQL server for a measurement, on a socket of its own."""

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_USER = "postgres"
_DEBIAN = "/usr/lib/postgresql"


def find_programs() -> Path | None:
    """Return the directory of ``initdb``; None if PostgreSQL is not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    return next((path.parent for path in sorted(Path(_DEBIAN).glob("*/bin/initdb"))[::-1]), None)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str | None]:
    """Yield the URL of an empty database; None if PostgreSQL is not installed.

    :param folder: new directory for its files, which the user postgres can reach
    """
    programs = find_programs()
    if programs is None or (os.geteuid() == 0 and not _has_user()):
        yield None
        return
    folder.mkdir()
    if os.geteuid() == 0:
        shutil.chown(folder, _USER)
    data = folder / "data"
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    _run(programs / "initdb", "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8")
    control = (programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log")
    _run(*control, "-o", options, "start")
    try:
        yield f"postgresql://{_USER}@/{_USER}?host={folder}"
    finally:
        _run(*control, "-m", "immediate", "stop")


def _has_user() -> bool:
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return False
    return True


def _run(*command: str | Path) -> None:
    """Run a program; as the user postgres if this user is root, whom PostgreSQL refuses.

    :raises CalledProcessError: it ends with an error
    """
    user = _USER if os.geteuid() == 0 else None
    subprocess.run(
        command,
        check=True,
        user=user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
    )
