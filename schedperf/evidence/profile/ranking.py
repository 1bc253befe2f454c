"""Which places of a comparison are shown, and which functions a class owes its change to."""

import numpy as np

from schedperf.evidence.profile.compare import PointComparison
from schedperf.symbols.functions import is_scheduler_function

# Places that are shown of each point, besides the scheduler's functions, which are all shown.
MOST_PLACES = 40
# Functions that are named for each class.
MOST_FUNCTIONS = 4


def choose_places(found: PointComparison) -> list[int]:
    """Return the places to show: what changed, largest first, then what is hot or moved most.

    Everything that changed is among them, and every function of the scheduler.
    """
    base, new = found.share.base, found.share.new
    interest = np.maximum(base, new) + np.abs(new - base)
    ranked = sorted(
        range(len(found.places)), key=lambda place: (-interest[place], found.places[place])
    )
    chosen = [
        place
        for rank, place in enumerate(ranked)
        if rank < MOST_PLACES
        or found.is_changed[place]
        or is_scheduler_function(found.places[place])
    ]
    change = np.where(found.is_changed, -np.abs(found.share.difference), 0.0)
    return sorted(chosen, key=lambda place: float(change[place]))


def moving_places(found: PointComparison, number: int) -> list[int]:
    """Return the places that moved a class most, not those that moved against it.

    :param number: index into ``found.classes``
    """
    members = np.flatnonzero(found.class_of_place == number)
    along = found.share.difference[members] * np.sign(found.class_share.difference[number])
    order = np.argsort(-along, kind="stable")[:MOST_FUNCTIONS]
    return [int(members[place]) for place in order if along[place] > 0.0]
