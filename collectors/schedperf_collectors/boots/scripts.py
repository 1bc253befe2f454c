# SPDX-License-Identifier: GPL-2.0-or-later
"""Provide the built-in boot hooks as complete shell scripts.

They are files of this package, so the recorder's zip file contains them. ``docs/kernels.md``
describes the verbs of a hook.
"""

from __future__ import annotations

import pkgutil

# In the order in which ``auto`` tries them; kexec is used only if it is named.
BUILT_IN = ("grub-reboot", "bootctl", "efibootmgr", "kexec")
# Hooks that boot through firmware and boot loader, as a power cycle does.
COLD = ("grub-reboot", "bootctl", "efibootmgr")

# Commands must not read the script, which may be the shell's own standard input.
_CALL = b'\nmain "$@" </dev/null\n'


def script(name: str) -> bytes:
    """Return the POSIX shell script of a built-in hook.

    Its arguments are a verb and, for ``check`` and ``arm``, a release.

    :raises KeyError: no built-in hook has this name
    """
    if name not in BUILT_IN:
        raise KeyError(name)
    return b"\n".join((_read("common"), _read(name))) + _CALL


def _read(name: str) -> bytes:
    data = pkgutil.get_data(__package__, f"hooks/{name}.sh")
    assert data is not None, f"hooks/{name}.sh is not packed"
    return data
