"""Which functions the running kernel has, by its own symbols: ``/proc/kallsyms``.

A compiler may put a static function into its callers, or leave only a part of it or a changed
copy under its name: ``update_cfs_group.isra.0``. What a probe would then see is not the function.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schedperf_collectors.machine.kernel_files import ADDRESSES_HIDDEN, read_symbols
from schedperf_collectors.machine.system import System


@dataclass(frozen=True)
class KernelFunctions:
    """Those of the functions looked for that are there.

    :param addresses: of each function; 0 where addresses are hidden from this user
    :param copies: of those that are not there, the names that the compiler left
    """

    addresses: Mapping[str, tuple[int, ...]]
    copies: Mapping[str, tuple[str, ...]]

    def first(self, names: Iterable[str]) -> str | None:
        """Return the first of several names that is there."""
        return next((name for name in names if name in self.addresses), None)

    def why_missing(self, name: str) -> str:
        """Say why a function is not there."""
        copies = self.copies.get(name)
        if copies:
            return f"inlined: of it there is only {', '.join(copies)}"
        return "inlined or not built: not among the kernel's symbols"

    def address(self, name: str) -> tuple[int | None, str]:
        """Return the address of a function and "", or None and why it is not known."""
        addresses = self.addresses.get(name)
        if addresses is None:
            return None, self.why_missing(name)
        if len(addresses) > 1:
            return None, f"the kernel has {len(addresses)} functions of this name"
        if not addresses[0]:
            return None, ADDRESSES_HIDDEN
        return addresses[0], ""


def find_functions(system: System, names: Iterable[str]) -> KernelFunctions:
    """Look for functions among the symbols of the kernel itself, not of modules.

    :raises Unavailable: there are no symbols
    """
    wanted = "|".join(map(re.escape, names))
    line = re.compile(rf"^([0-9a-f]+) [tTwW] ({wanted})(\.[\w.]+)?$".encode(), re.MULTILINE)
    addresses: dict[str, set[int]] = defaultdict(set)
    copies: dict[str, list[str]] = defaultdict(list)
    for found in line.finditer(read_symbols(system)):
        name, suffix = found[2].decode(), (found[3] or b"").decode()
        if suffix:
            copies[name].append(name + suffix)
        else:
            addresses[name].add(int(found[1], 16))
    return KernelFunctions(
        addresses={name: tuple(sorted(places)) for name, places in addresses.items()},
        copies={name: tuple(found) for name, found in copies.items()},
    )
