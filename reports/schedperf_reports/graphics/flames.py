"""Differential flame graphs: a drawing that a script makes one to search, zoom and turn over.

Without a script its largest frames are there all the same, at the places and in the colours that
the script would give them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schedperf.evidence.profile.export import SPEEDSCOPE_SCHEMA
from schedperf.evidence.profile.record import FlameTree
from schedperf.model.schema import to_plain
from schedperf_reports.blocks import Graphic
from schedperf_reports.graphics._flame_still import ROW_PIXELS, StillFrame, place_frames
from schedperf_reports.graphics.flame_tables import beyond_noise, runs_of_tree
from schedperf_reports.words.rows import side_letter, side_place


@dataclass(frozen=True, kw_only=True, slots=True)
class Still:
    """What is drawn without a script.

    :param height: of all frames, in pixels
    """

    frames: tuple[StillFrame, ...]
    height: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Flames(Graphic):
    """The drawing of one or more trees, which the reader chooses from.

    The tables of its section say in words what changed.

    :param sides: names of what the trees compare: "base", "new2"
    :param limits: what the samples cannot show; the section ``basis`` has the whole text
    """

    trees: Sequence[FlameTree]
    sides: tuple[str, ...]
    limits: tuple[str, ...] = ()
    basis: str = ""

    @property
    def has_new(self) -> bool:
        """Whether there are two sides."""
        return len(self.sides) > 1

    @property
    def least(self) -> str:
        """The least share of all time that a frame of its own has, in per cent."""
        return f"{100.0 * self.trees[0].least_share:g}"

    @property
    def still(self) -> Still:
        """The largest frames of the first tree."""
        frames = place_frames(self.trees[0])
        height = max((frame.top for frame in frames), default=0) + ROW_PIXELS
        return Still(frames=frames, height=height)

    def data(self) -> object:
        """Return the trees, who the sides are, and what a file for speedscope calls its format."""
        sides = [
            {"name": side, "letter": side_letter(side), "place": side_place(side)}
            for side in self.sides
        ]
        return {"events": to_plain(self.trees), "sides": sides, "speedscope": SPEEDSCOPE_SCHEMA}


def caption_of(tree: FlameTree) -> str:
    """Say whose graph this is, on how many runs it rests, and what is coloured in it."""
    if len(tree.labels) == 1:
        runs = runs_of_tree(tree)
        return f"{tree.labels[0]}, {runs if tree.counts == (1,) else f'mean of {runs}'}"
    base, new = tree.labels
    sides = f"{new} against {base}, n = {runs_of_tree(tree)}"
    if min(tree.counts) == 1:
        return f"{sides}; nobody knows what of it is noise, so nothing is coloured"
    return f"{sides}; coloured is what {beyond_noise(tree)}"
