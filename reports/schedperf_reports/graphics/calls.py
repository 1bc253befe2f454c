# SPDX-License-Identifier: GPL-2.0-or-later
"""The callers and callees of a function, which a script draws when its table row is opened."""

from collections.abc import Mapping

from schedperf.evidence.profile.record import FlameTree
from schedperf_reports.blocks import Graphic


class Calls(Graphic, frozen=True, kw_only=True):
    """Tables of callers and callees, from the data of a flame graph of the same section.

    :param at: number of the flame graph in its section, of its tree, and of the function in
        ``calls`` of the tree
    """

    at: tuple[int, int, int]


def index_calls(figure: int, tree: int, calls: FlameTree) -> Mapping[tuple[str, str], Calls]:
    """Return what the rows of functions open to, by symbol and file."""
    return {
        (each.symbol, each.dso): Calls(
            caption=f"callers and callees of {each.symbol}", at=(figure, tree, number)
        )
        for number, each in enumerate(calls.calls)
    }
