# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of /proc/PID as the kernel writes them."""


def stat_of(pid: int, name: str, *, parent: int, group: int | None = None) -> str:
    """Return /proc/PID/stat of a process, which leads a group of its own if none is given."""
    session = pid if group is None else group
    return f"{pid} ({name}) S {parent} {session} {session} 0 -1" + " 0" * 44 + "\n"
