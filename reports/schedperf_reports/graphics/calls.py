# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the tables of callers and callees that a script draws when a function's row is opened."""

from collections.abc import Mapping

from schedperf.evidence.profile.flame_record import FlameTree
from schedperf_reports.blocks import Graphic


class Calls(Graphic, frozen=True, kw_only=True):
    """Tables of callers and callees, computed from a flame graph of the same section.

    :param at: number of the flame graph in its section, number of its tree, and index of the
        function in the tree's ``calls``
    """

    at: tuple[int, int, int]


def index_calls(figure: int, tree: int, calls: FlameTree) -> Mapping[tuple[str, str], Calls]:
    """Return the tables of callers and callees of each function, by symbol and file.

    :param figure: number of the flame graph in its section
    :param tree: number of the tree in the flame graph
    :param calls: the tree
    """
    return {
        (each.symbol, each.dso): Calls(
            caption=f"callers and callees of {each.symbol}", at=(figure, tree, number)
        )
        for number, each in enumerate(calls.calls)
    }
