# SPDX-License-Identifier: GPL-2.0-or-later
"""Define pairs of values: of base, and of the new side that is compared with it."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

# Names of the first two sides.
BASE = "base"
FIRST_NEW = "new"

Value_co = TypeVar("Value_co", covariant=True)
Result = TypeVar("Result")


class BaseNew(Struct, Generic[Value_co], frozen=True, kw_only=True):
    """A pair of values: of base, and of the new side that is compared with it."""

    base: Value_co
    new: Value_co

    def __iter__(self) -> Iterator[Value_co]:
        """Yield the value of base, then that of new."""
        yield self.base
        yield self.new

    def of(self, side: str) -> Value_co:
        """Return the value of base if ``side`` is "base"; for any other name that of new."""
        return self.base if side == "base" else self.new

    def items(self) -> Iterator[tuple[str, Value_co]]:
        """Yield ``("base", value)``, then ``("new", value)``."""
        yield "base", self.base
        yield "new", self.new

    def map(self, function: Callable[[Value_co], Result]) -> "BaseNew[Result]":
        """Return the pair of a function's results for both values."""
        return BaseNew(base=function(self.base), new=function(self.new))
