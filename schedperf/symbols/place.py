# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a place: the function that a sample is attributed to."""

from typing import NamedTuple

KERNEL = "[kernel]"
BPF = "[bpf]"


class Place(NamedTuple):
    """The function of a sample.

    :param symbol: a function; ``[libc.so.6] unresolved`` for all unresolved addresses of a file,
        or ``libc.so.6+0x28490`` for one of them
    :param dso: ``[kernel]``, a module ``[nf_conntrack]``, ``[bpf]``, or a file's name
    """

    symbol: str
    dso: str
