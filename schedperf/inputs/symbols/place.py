# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a place: the function that a sample is attributed to."""

from typing import NamedTuple

KERNEL = "[kernel]"
BPF = "[bpf]"
UNKNOWN = "[unknown]"
# Prefix of code that a process generated; perf appends the pid.
JIT = "[JIT]"
_OF_PROCESS = f"{JIT} tid "
# Names in brackets that are not kernel code: mappings of the kernel in processes, generated code,
# and code of guests.
_NO_KERNEL = frozenset(
    (
        *(UNKNOWN, JIT, "[vdso]", "[vsyscall]", "[uprobes]", "[vectors]", "[sigpage]"),
        *("[hypervisor]", "[guest]", "[guest kernel]"),
    )
)


class Place(NamedTuple):
    """The function of a sample.

    :param symbol: a function; ``[libc.so.6] unresolved`` for all unresolved addresses of a dso,
        or ``libc.so.6+0x28490`` for one of them
    :param dso: ``[kernel]``, a module ``[nf_conntrack]``, ``[bpf]``, ``[JIT] tid 4242`` for code
        that a process generated, ``[hypervisor]``, ``[guest kernel]``, ``[guest]``, ``[unknown]``,
        or the name of a mapped file or area: ``libc.so.6``, ``[vdso]``
    """

    symbol: str
    dso: str


def jit_of(pid: int | str) -> str:
    """Return the dso of code that a process generated: ``[JIT] tid 4242``."""
    return f"{_OF_PROCESS}{pid}"


def is_jit(dso: str) -> bool:
    """Return whether this is code that a process generated."""
    return dso == JIT or dso.startswith(_OF_PROCESS)


def is_kernel_dso(dso: str) -> bool:
    """Return whether this is the kernel, one of its modules or a BPF program."""
    return dso.startswith("[") and dso not in _NO_KERNEL and not is_jit(dso)
