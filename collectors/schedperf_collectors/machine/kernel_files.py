# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the running kernel's configuration, symbols, functions and build id.

Distributions install these files in different directories; the collector's option ``kernel_files``
names a further one (a build tree, an unpacked package), which is searched before these. Files of
another kernel may have the same release, so a System.map is accepted only if it matches the running
kernel's symbols.

A compiler may inline a static function, or emit only a part or a modified copy of it, such as
``update_cfs_group.isra.0``. A probe would then not observe the function itself.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from schedperf_collectors.contract import SYMBOLS_LIMIT_BYTES, Unavailable
from schedperf_collectors.machine.elf_symbols import gnu_build_id
from schedperf_collectors.machine.system import System, attempt

# A distribution's configuration is 0.3 MB.
CONFIG_LIMIT_BYTES = 4 << 20
NOTES_LIMIT_BYTES = 1 << 16
ADDRESSES_HIDDEN = (
    "/proc/kallsyms: addresses are hidden; run as root with kernel.kptr_restrict=0 or 1"
)

# Nearly all global functions of a kernel's System.map are in its kallsyms, which omits a few
# (is_ignored_symbol() in scripts/kallsyms.c). Another kernel lacks some of them, and their offsets
# differ.
LEAST_COMMON_SHARE = 0.95
GLOBAL_FUNCTION = re.compile(r"^([0-9a-f]{8,16}) T (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Identity:
    """The identity of one build of a kernel.

    :param version: as ``uname -v`` prints it
    :param build_id: hexadecimal; None if the kernel has none, or if it is not known
    """

    release: str
    version: str
    build_id: Optional[str]  # noqa: UP045 # Python 3.9 reads this type at run time

    def is_same_build(self, other: Identity) -> bool:
        """Return whether both are of one build; a build id that is not known fits every other."""
        return (self.release, self.version) == (other.release, other.version) and (
            None in (self.build_id, other.build_id) or self.build_id == other.build_id
        )


def find_config(system: System, options: Mapping[str, str]) -> tuple[str, str]:
    """Return the running kernel's configuration and the path of its source.

    /proc/config.gz comes first; other files are found by the kernel's release.

    :param options: ``kernel_files`` may name a directory
    :raises Unavailable: it was not found
    """
    release = system.text("/proc/sys/kernel/osrelease")
    config, reason = attempt(_proc_config, system)
    if config is not None:
        return config, "/proc/config.gz"
    reasons = [reason]
    given = (f"config-{release}", "config", ".config")
    usual = (
        f"/boot/config-{release}",
        f"/lib/modules/{release}/config",
        f"/lib/modules/{release}/build/.config",
    )
    for root, name in _places(system, options, given, usual):
        content, reason = attempt(root.bytes, name, CONFIG_LIMIT_BYTES)
        if content is not None:
            return content.decode("utf-8", "replace"), name
        reasons.append(reason)
    raise Unavailable("; ".join(reasons))


def config_value(config: str, name: str) -> str:
    """Return the value of an option: "y", "m", a number or text.

    :param config: the configuration, from :func:`find_config`
    :param name: name of the option, e.g. "CONFIG_HZ"
    :raises Unavailable: it is not set
    """
    match = re.search(rf"^{re.escape(name)}=(.*)$", config, re.MULTILINE)
    if not match:
        raise Unavailable(f"{name} is not set")
    return match.group(1).strip('"')


def read_symbols(system: System) -> bytes:
    """Return /proc/kallsyms; all addresses are 0 if they are hidden from this user.

    :raises Unavailable: the file does not exist, cannot be read, or is too large
    """
    return system.bytes("/proc/kallsyms", SYMBOLS_LIMIT_BYTES)


def read_kallsyms(system: System) -> bytes:
    """Return /proc/kallsyms if it has addresses.

    :raises Unavailable: the file cannot be read, or the addresses are hidden from this user
    """
    content = read_symbols(system)
    if not re.search(rb"^0*[1-9a-f]", content, re.MULTILINE):
        raise Unavailable(ADDRESSES_HIDDEN)
    return content


def find_system_map(system: System, options: Mapping[str, str], kallsyms: bytes) -> bytes:
    """Return the System.map of the running kernel.

    :param options: ``kernel_files`` may name a directory
    :param kallsyms: the running kernel's symbols; empty if they are hidden
    :raises Unavailable: there is none, none matches the running kernel, or ``kallsyms`` is empty
    """
    release = system.text("/proc/sys/kernel/osrelease")
    given = (f"System.map-{release}", "System.map")
    usual = (
        f"/boot/System.map-{release}",
        f"/lib/modules/{release}/System.map",
        f"/lib/modules/{release}/build/System.map",
    )
    running = _global_functions(kallsyms)
    reasons: list[str] = []
    for root, name in _places(system, options, given, usual):
        content, reason = attempt(_checked_map, root, name, running)
        if content is not None:
            return content
        reasons.append(reason)
    raise Unavailable("; ".join(reasons))


def _checked_map(root: System, name: str, running: Mapping[str, int]) -> bytes:
    content = root.bytes(name, SYMBOLS_LIMIT_BYTES)
    if not running:
        raise Unavailable(
            f"{name}: cannot be checked, because addresses of the running kernel are hidden"
        )
    listed = _global_functions(content)
    slides = {running[name] - address for name, address in listed.items() if name in running}
    common = sum(name in running for name in listed)
    if common < LEAST_COMMON_SHARE * len(listed) or len(slides) != 1:
        raise Unavailable(
            f"{name}: does not match the running kernel ({common} of {len(listed)} functions "
            f"are in /proc/kallsyms, at {len(slides)} different offsets; expected "
            f"{LEAST_COMMON_SHARE:.0%} or more, at 1 offset)"
        )
    return content


def build_id(system: System) -> str:
    """Return the running kernel's build id, hexadecimal, from its ELF notes.

    :raises Unavailable: it has no build id, or /sys/kernel/notes cannot be read
    """
    notes = system.bytes("/sys/kernel/notes", NOTES_LIMIT_BYTES)
    own_id = gnu_build_id(notes, "<" if _is_little_endian(notes) else ">")
    if own_id is not None:
        return own_id
    raise Unavailable("/sys/kernel/notes: no build id")


def _is_little_endian(notes: bytes) -> bool:
    # The first number is the length of a name, far below 65536.
    return notes[2:4] == b"\0\0"


def _places(
    system: System, options: Mapping[str, str], given: Sequence[str], usual: Sequence[str]
) -> Iterator[tuple[System, str]]:
    if options.get("kernel_files"):
        folder = Path(options["kernel_files"]).absolute()
        yield from ((System(), str(folder / name)) for name in given)
    yield from ((system, name) for name in usual)


def _proc_config(system: System) -> str:
    packed = system.bytes("/proc/config.gz", CONFIG_LIMIT_BYTES)
    try:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        return stream.decompress(packed, CONFIG_LIMIT_BYTES).decode("utf-8", "replace")
    except zlib.error as error:
        raise Unavailable(f"/proc/config.gz: {error}") from error


def _global_functions(symbols: bytes) -> dict[str, int]:
    # Lines of modules end in "[module]" and do not match.
    text = symbols.decode("ascii", "replace")
    return {name: int(address, 16) for address, name in GLOBAL_FUNCTION.findall(text)}


@dataclass(frozen=True)
class KernelFunctions:
    """The functions that were found among the kernel's symbols.

    :param addresses: addresses of each function; 0 if hidden from this user
    :param copies: names of the compiler's copies of a function, ``update_cfs_group.isra.0``; the
        function itself may exist too
    """

    addresses: Mapping[str, tuple[int, ...]]
    copies: Mapping[str, tuple[str, ...]]

    def first(self, names: Iterable[str]) -> str | None:
        """Return the first of several names that exists; None if none does."""
        return next((name for name in names if name in self.addresses), None)

    def why_missing(self, name: str) -> str:
        """Return why a function is missing."""
        copies = self.copies.get(name)
        if copies:
            return f"inlined: the kernel's symbols contain only {', '.join(copies)}"
        return "inlined or not built: not in the kernel's symbols"

    def address(self, name: str) -> tuple[int | None, str]:
        """Return a function's address and "", or None and why it is unknown or ambiguous."""
        addresses = self.addresses.get(name)
        if addresses is None:
            return None, self.why_missing(name)
        if len(addresses) > 1:
            return None, f"{len(addresses)} kernel functions have this name"
        if not addresses[0]:
            return None, ADDRESSES_HIDDEN
        return addresses[0], ""


def find_functions(system: System, names: Iterable[str]) -> KernelFunctions:
    """Look for functions among the symbols of the kernel itself, not of modules.

    :raises Unavailable: /proc/kallsyms cannot be read
    """
    alternatives = "|".join(map(re.escape, names))
    line = re.compile(rf"^([0-9a-f]+) [tTwW] ({alternatives})(\.[\w.]+)?$".encode(), re.MULTILINE)
    addresses: dict[str, set[int]] = defaultdict(set)
    copies: dict[str, list[str]] = defaultdict(list)
    for match in line.finditer(read_symbols(system)):
        name, suffix = match[2].decode(), (match[3] or b"").decode()
        if suffix:
            copies[name].append(name + suffix)
        else:
            addresses[name].add(int(match[1], 16))
    return KernelFunctions(
        addresses={name: tuple(sorted(places)) for name, places in addresses.items()},
        copies={name: tuple(found_addresses) for name, found_addresses in copies.items()},
    )
