# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the sides of a comparison: the first bundle is base, the others are new."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from schedperf.inputs.bundle.open import Bundle
from schedperf.model.base_new import BASE, FIRST_NEW

Content = TypeVar("Content")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One bundle in its role, with a cache of the data read from it.

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
        """Return the result of a function for this side; it is computed once and cached.

        Sections that use the same samples share them. Results are cached for the lifetime of the
        side; exceptions of ``read`` are not cached.
        """
        if read not in self._contents:
            self._contents[read] = read(self)
        return cast("Content", self._contents[read])

    def parsed(self, name: str, limit: int, parse: Callable[[bytes, str], Content]) -> Content:
        """Return a parsed member of the bundle; sections that use the same file share the result.

        :param limit: largest size in bytes
        :param parse: takes the content and the name for messages; called once per member
        :raises InputError: the member is missing, too large or damaged; or as ``parse`` raises it
        """
        key = name, parse
        if key not in self._contents:
            self._contents[key] = parse(self.bundle.read_captured(name, limit), name)
        return cast("Content", self._contents[key])

    def shared(
        self, name: str, parse: Callable[[], Content], what: str, *options: Hashable
    ) -> Content:
        """Return a parsed member; boots and sides with identical members share the result.

        :param name: the member, whose checksum identifies its content
        :param parse: reads and parses the member; called once for the same content, ``what`` and
            ``options``
        :param what: the part that is parsed: "addresses"
        :param options: other inputs that the result depends on
        :raises InputError: the member is missing or damaged; or as ``parse`` raises it
        """
        key = self.bundle.sha256(name), what, *options
        if key not in self._shared:
            self._shared[key] = parse()
        return cast("Content", self._shared[key])


def side_name(index: int) -> str:
    """Return the role of a bundle by its index (from 0) on the command line: "base", "new" …"""
    return (BASE, FIRST_NEW)[index] if index < 2 else f"new{index}"  # noqa: PLR2004 # base and new


def name_sides(bundles: Sequence[Bundle]) -> tuple[Side, ...]:
    """Assign roles to bundles in command-line order."""
    shared: dict[Hashable, object] = {}
    return tuple(
        Side(name=side_name(index), bundle=bundle, _shared=shared)
        for index, bundle in enumerate(bundles)
    )
