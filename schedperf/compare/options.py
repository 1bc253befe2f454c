# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the options of a comparison, and derive its identifier from data and options."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import SCHEMA
from schedperf.model.frame import Frame
from schedperf.model.rows import Better, digest_of
from schedperf.model.verdict import MARGIN

if TYPE_CHECKING:
    import pandas as pd


class CompareOptions(Struct, frozen=True, kw_only=True):
    """Options that the user can choose.

    :param margin: half-width of the equivalence band, as a fraction of the value
    :param allowed: host.json paths that are known to differ, beside the bundles' own treatment
    :param better: direction of metrics whose format does not state it, by name
    :param history: runs of earlier recordings on the same machine, which show how much its results
        vary
    :param boot_sd: standard deviation between boots of one kernel, as a fraction; None to use that
        of ``history``, else 0.1
    """

    margin: float = MARGIN
    allowed: tuple[str, ...] = ()
    better: Mapping[str, Better] = field(default_factory=dict)
    history: "tuple[Frame | pd.DataFrame, ...]" = ()
    boot_sd: float | None = None


def comparison_id(digests: Sequence[str], options: CompareOptions) -> str:
    """Return an identifier that is equal for the same data and options on every machine."""
    history = [
        digest_of([[*map(str, row)] for row in Frame.of(past).rows()]) for past in options.history
    ]
    better = [sorted(options.better.items())] if options.better else []
    boot_sd = [] if options.boot_sd is None else [{"boot_sd": options.boot_sd}]
    return digest_of(
        [SCHEMA, [*digests], options.margin, sorted(options.allowed), history, *better, *boot_sd]
    )


def history_caveats(options: CompareOptions) -> Iterator[Caveat]:
    """Yield a caveat about the number of earlier recordings, if any were used."""
    if options.history:
        yield caveat("history", count=len(options.history))
