# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the sides of a comparison: the first bundle is base, the others are new."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from schedperf.bundle.open import Bundle
from schedperf.model.comparison import BASE, FIRST_NEW

Content = TypeVar("Content")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One bundle in its role, and what was read of it so far.

    ::

        side.once(load_memory).runs
        side.parsed("boots/0/runs/001/perf_stat/perf_stat.csv", LIMIT_BYTES, parse_counts)

    :param name: "base", "new", then "new2", "new3" …
    """

    name: str
    bundle: Bundle
    _contents: dict[object, object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _shared: dict[Hashable, object] = field(default_factory=dict, repr=False, compare=False)

    def once(self, read: Callable[["Side"], Content]) -> Content:
        """Return what a function reads of this side; it is called for the first caller only.

        Sections that look at the same samples share them so. They are kept as long as the side.
        """
        if read not in self._contents:
            self._contents[read] = read(self)
        return cast("Content", self._contents[read])

    def parsed(self, name: str, limit: int, parse: Callable[[bytes, str], Content]) -> Content:
        """Return a parsed member of the bundle; sections that use the same file share the result.

        :param limit: largest size in bytes
        :param parse: gets the content and the name for messages; called for the first caller only
        :raises InputError: the member is missing or damaged
        """
        key = name, parse
        if key not in self._contents:
            self._contents[key] = parse(self.bundle.read(name, limit), name)
        return cast("Content", self._contents[key])

    def shared(
        self, name: str, parse: Callable[[], Content], what: str, *options: Hashable
    ) -> Content:
        """Return a parsed member; boots and sides with equal members share the result.

        :param parse: parses the member; called once for the same content and options
        :param what: is parsed of it: "addresses"
        :param options: what else the result depends on
        :raises InputError: the member is missing or damaged
        """
        key = self.bundle.sha256(name), what, *options
        if key not in self._shared:
            self._shared[key] = parse()
        return cast("Content", self._shared[key])


def side_name(index: int) -> str:
    """Return the role of a bundle by its index on the command line."""
    return (BASE, FIRST_NEW)[index] if index < 2 else f"new{index}"  # noqa: PLR2004 # base and new


def name_sides(bundles: Sequence[Bundle]) -> tuple[Side, ...]:
    """Give each bundle its role, in the order in which the user named them."""
    shared: dict[Hashable, object] = {}
    return tuple(
        Side(name=side_name(index), bundle=bundle, _shared=shared)
        for index, bundle in enumerate(bundles)
    )
