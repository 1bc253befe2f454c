"""The sides of a comparison: the first bundle is base, the others are new."""

from collections.abc import Sequence
from dataclasses import dataclass

from schedperf.bundle import Bundle

BASE = "base"
FIRST_NEW = "new"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One bundle in its role.

    :param name: "base", "new", then "new2", "new3" …
    """

    name: str
    bundle: Bundle


def side_name(index: int) -> str:
    """Return the role of the bundle that the user named at this place, counted from 0."""
    return ("base", "new")[index] if index < 2 else f"new{index}"  # noqa: PLR2004 # base and new


def name_sides(bundles: Sequence[Bundle]) -> tuple[Side, ...]:
    """Give each bundle its role, in the order in which the user named them."""
    return tuple(Side(name=side_name(index), bundle=bundle) for index, bundle in enumerate(bundles))
