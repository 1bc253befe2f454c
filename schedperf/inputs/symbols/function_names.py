# SPDX-License-Identifier: GPL-2.0-or-later
"""Translate names of kernel functions to those in the kernels of the sides.

Tables and rules of the analysis use the newest names::

    names = FunctionNames(KernelNames(release="6.1.0"), KernelNames(release="6.12.0"))
    names.in_text("sched_balance_rq()")     # "sched_balance_rq() (load_balance() in base)"
"""

import re
from collections.abc import Container, Iterator, Sequence
from functools import partial
from itertools import repeat

from msgspec import Struct

from schedperf.inputs.bundle.open import Boot
from schedperf.inputs.kernel.renames import all_names, name_in_release, renamed_functions
from schedperf.inputs.kernel_files import (
    SYMBOL_TABLES,
    has_kernel_file,
    kernel_member,
    read_kernel_text,
)
from schedperf.inputs.side import Side
from schedperf.model.base_new import BASE
from schedperf.model.errors import InputError

_CALL = re.compile(r"\b(\w+)\(\)")


class Words:
    """The words of a text, searched without splitting it: a System.map has 400,000 words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, bool] = {}

    def __contains__(self, word: object) -> bool:
        name = str(word)
        if name not in self._known:
            self._known[name] = any(map(self._is_whole, self._places(name), repeat(len(name))))
        return self._known[name]

    def _places(self, name: str) -> Iterator[int]:
        place = self._text.find(name)
        while name and place >= 0:
            yield place
            place = self._text.find(name, place + 1)

    def _is_whole(self, start: int, length: int) -> bool:
        before, after = (
            self._text[max(start - 1, 0) : start],
            self._text[start + length : start + length + 1],
        )
        return (not before or before.isspace()) and (not after or after.isspace())


class KernelNames(Struct, frozen=True, kw_only=True):
    """The sources of function names of one kernel.

    :param release: ``uname -r``; None if unknown
    :param symbols: words of kallsyms or System.map; empty if not captured or not readable
    """

    release: str | None = None
    symbols: Container[str] = ()

    def of(self, function: str) -> str | None:
        """Return the name of a function in this kernel; None if unknown.

        The kernel's symbols have precedence. An inlined function has no symbol; its name is taken
        from the release.
        """
        for name in all_names(function):
            if name in self.symbols:
                return name
        return None if self.release is None else name_in_release(function, self.release)


def read_kernel_names(side: Side) -> KernelNames:
    """Return the names of a side's kernel, which is the same in all boots.

    They come from the first symbol table that can be read; without one, from the release only.
    """
    for boot in side.bundle.boots:
        for table in SYMBOL_TABLES:
            if has_kernel_file(side.bundle, boot, table):
                try:
                    symbols = side.shared(
                        kernel_member(boot, table), partial(_read_words, side, boot, table), "words"
                    )
                except InputError:
                    # The sections that need the addresses report the damage.
                    continue
                return KernelNames(release=boot.host.kernel.release, symbols=symbols)
    releases = (boot.host.kernel.release for boot in side.bundle.boots)
    return KernelNames(release=next(releases, None))


def _read_words(side: Side, boot: Boot, table: str) -> Words:
    return Words(read_kernel_text(side, boot, table))


class FunctionNames:
    """The names of functions in the kernels of two sides.

    :param new: names of the other side; None if there is only one side
    """

    def __init__(self, base: KernelNames, new: KernelNames | None = None) -> None:
        self._base = base
        self._new = new or base

    def in_text(self, text: str) -> str:
        """Replace each renamed function ``name()`` in a text by its names in the sides' kernels."""
        return _CALL.sub(lambda match: self._spell(match[1]), text)

    def of(self, function: str) -> str:
        """Return the name of a function in new's kernel, or in base's; the newest if unknown."""
        names = (kernel.of(function) for kernel in (self._new, self._base))
        return next(filter(None, names), all_names(function)[0])

    def _spell(self, function: str) -> str:
        newest, *former = all_names(function)
        if not former:
            return f"{function}()"
        base, new = self._base.of(function), self._new.of(function)
        if new is None and base is None:
            since = renamed_functions()[former[0]].since
            return f"{newest}() ({former[0]}() before Linux {since})"
        if base is None or new is None or base == new:
            return f"{new or base}()"
        return f"{new}() ({base}() in {BASE})"


def function_names(sides: Sequence[Side]) -> dict[str, FunctionNames]:
    """Return the names of functions in the kernels of base and of each side, by side."""
    base = sides[0].once(read_kernel_names)
    return {side.name: FunctionNames(base, side.once(read_kernel_names)) for side in sides}
