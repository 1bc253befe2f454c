# SPDX-License-Identifier: GPL-2.0-or-later
"""Provide the built-in boot hooks as complete shell scripts.

They are files of this package, so that they travel in the recorder's zip file. ``docs/kernels.md``
describes the verbs of a hook.
"""

from __future__ import annotations

import pkgutil

# In the order in which ``auto`` tries them; kexec last, and only if asked for by name.
BUILT_IN = ("grub-reboot", "bootctl", "efibootmgr", "kexec")
# Those that boot through firmware and boot loader, as a power cycle does.
COLD = ("grub-reboot", "bootctl", "efibootmgr")

# Input is not read from the script, which may itself be the standard input of the shell.
_CALL = b'\nmain "$@" </dev/null\n'


def script(name: str) -> bytes:
    """Return the POSIX shell script of a built-in hook; its arguments are a verb and a release.

    :raises KeyError: no built-in hook has this name
    """
    if name not in BUILT_IN:
        raise KeyError(name)
    return b"\n".join((_read("common"), _read(name))) + _CALL


def _read(name: str) -> bytes:
    data = pkgutil.get_data(__package__, f"hooks/{name}.sh")
    assert data is not None, f"hooks/{name}.sh is not packed"
    return data
