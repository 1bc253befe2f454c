"""Call stacks as other viewers read them: folded lines, and the JSON of speedscope.

Nothing is left out here, however small it is. The weights are means over the runs of a
side, in the unit of the event, rounded to whole numbers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from schedperf.evidence.profile._folded import folded_text
from schedperf.evidence.profile._speedscope import SCHEMA, speedscope_text
from schedperf.evidence.profile.stacks import Stacks

# What a file for speedscope calls its format.
SPEEDSCOPE_SCHEMA = SCHEMA

# By the name of the format: the text of a file, piece by piece, from the stacks of each event.
EXPORTS: Mapping[str, Callable[[Sequence[Stacks]], Iterable[str]]] = {
    "folded": folded_text,
    "speedscope": speedscope_text,
}
