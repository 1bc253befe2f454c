# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a place: the function that a sample is attributed to."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

KERNEL = "[kernel]"
BPF = "[bpf]"
UNKNOWN = "[unknown]"
# Prefix of code that a process generated; perf appends the pid.
JIT = "[JIT]"
_OF_PROCESS = f"{JIT} tid "
# Suffix of the dso of code in an interrupt or softirq, which is not that of the interrupted task.
_INTERRUPTS = " (interrupts)"
# Names in brackets that are not kernel code: mappings of the kernel in processes, their memory,
# generated code, and code of guests.
_NO_KERNEL = frozenset(
    (
        *(UNKNOWN, JIT, "[vdso]", "[vsyscall]", "[uprobes]", "[vectors]", "[sigpage]"),
        *("[vvar]", "[vvar_vclock]", "[heap]", "[stack]"),
        *("[hypervisor]", "[guest]", "[guest kernel]"),
    )
)
# Memory that a process has named, e.g. [anon:v8]; modules have no colon in their names.
_NAMED_MEMORY = ":"


class Place(NamedTuple):
    """The function of a sample.

    :param symbol: a function; ``[libc.so.6] unresolved`` for all unresolved addresses of a dso,
        or ``libc.so.6+0x28490`` for one of them
    :param dso: ``[kernel]``, a module ``[nf_conntrack]``, ``[bpf]``, ``[JIT] tid 4242`` for code
        that a process generated, ``[hypervisor]``, ``[guest kernel]``, ``[guest]``, ``[unknown]``,
        or the name of a mapped file or area: ``libc.so.6``, ``[vdso]``; ``[kernel] (interrupts)``
        for code in an interrupt or softirq
    """

    symbol: str
    dso: str


# All samples of tasks that do not belong to the workload.
OTHER_LOAD = Place("other load", "(other tasks)")


def in_interrupts(location: Place) -> Place:
    """Return the place of the same code in an interrupt or softirq."""
    return Place(location.symbol, f"{code_of(location).dso}{_INTERRUPTS}")


def is_in_interrupts(dso: str) -> bool:
    """Return whether a dso is that of code in an interrupt or softirq."""
    return dso.endswith(_INTERRUPTS)


def code_of(location: Place) -> Place:
    """Return the place of the same code in a task.

    >>> code_of(in_interrupts(Place("update_curr", "[kernel]")))
    Place(symbol='update_curr', dso='[kernel]')
    """
    return Place(location.symbol, location.dso.removesuffix(_INTERRUPTS))


class ShownNames:
    """The names of places as reports print them.

    :param places: the places that are listed together
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self._counts = Counter(location.symbol for location in {*map(code_of, places)})

    def of(self, location: Place) -> str:
        """Return the symbol, with its dso if several dsos have it.

        Code in an interrupt or softirq has the suffix " (interrupts)".


        >>> ShownNames([Place("read", "libc.so.6")]).of(Place("read", "libc.so.6"))
        'read'
        """
        symbol, dso = code_of(location)
        name = f"{symbol} ({dso})" if self._counts[symbol] > 1 else symbol
        return f"{name}{_INTERRUPTS}" if is_in_interrupts(location.dso) else name


def name_frame(symbol: str, name: str) -> str:
    """Return the name that the frames of a function have in a flame graph.

    >>> name_frame("read", "read (libc.so.6)"), name_frame("rcu_core", "rcu_core (interrupts)")
    ('read', 'rcu_core (interrupts)')

    :param name: the function as reports print it, see :class:`ShownNames`
    """
    return f"{symbol}{_INTERRUPTS}" if name.endswith(_INTERRUPTS) else symbol


def jit_of(pid: int | str) -> str:
    """Return the dso of code that a process generated: ``[JIT] tid 4242``."""
    return f"{_OF_PROCESS}{pid}"


def is_jit(dso: str) -> bool:
    """Return whether a dso is that of code that a process generated."""
    return dso == JIT or dso.startswith(_OF_PROCESS)


@lru_cache(maxsize=1024)
def is_kernel_dso(dso: str) -> bool:
    """Return whether a dso is the kernel, one of its modules or a BPF program."""
    is_other = dso in _NO_KERNEL or _NAMED_MEMORY in dso or is_jit(dso)
    return dso.startswith("[") and not is_other
