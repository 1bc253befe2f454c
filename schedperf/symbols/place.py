# SPDX-License-Identifier: GPL-2.0-or-later
"""A place: what a sample is counted under."""

from typing import NamedTuple

KERNEL = "[kernel]"
BPF = "[bpf]"


class Place(NamedTuple):
    """Where a sample was.

    :param symbol: a function; ``[libc.so.6] unresolved`` for all of a file that nobody names, or
        ``libc.so.6+0x28490`` for one address of it
    :param dso: ``[kernel]``, a module ``[nf_conntrack]``, ``[bpf]``, or a file's name
    """

    symbol: str
    dso: str
