# SPDX-License-Identifier: GPL-2.0-or-later
"""Chain the reference kernels of a series, by the nights that compared one with the next."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.questions.history import History
from schedperf.history.questions.records import Night
from schedperf.history.series import Chain
from schedperf.history.store.nights import NIGHTS_OF_A_DATE
from schedperf.history.store.tables import CHAIN, SERIES

# A chain night is so many days old at most when the next reference is used first.
_LATEST_DAYS = 31


class ChainNight(Struct, frozen=True, kw_only=True):
    """A comparison of a reference kernel with the next one, for one result.

    :param previous: level of the previous kernel, in the unit of the series
    :param previous_sd: standard deviation between its boots, of logarithms if ``scale`` is "log";
        None for one boot
    """

    position: int
    scale: str
    previous_revision: str
    previous: float
    previous_sd: float | None
    previous_boots: int
    next_revision: str
    next: float
    next_sd: float | None
    next_boots: int

    def chain(self, *, is_log: bool) -> Chain | None:
        """Return the change of the level; None if its error is unknown, or if it has no logarithm.

        :param is_log: whether levels of the series are logarithms
        """
        if self.previous_sd is None or self.next_sd is None or (is_log and self.scale != "log"):
            return None
        sds = [self.previous_sd, self.next_sd]
        if not is_log and self.scale == "log":
            sds = [self.previous_sd * self.previous, self.next_sd * self.next]
        boots = (self.previous_boots, self.next_boots)
        shift = math.log(self.next / self.previous) if is_log else self.next - self.previous
        errors = (sd / math.sqrt(number) for sd, number in zip(sds, boots, strict=True))
        return Chain(shift=shift, sd=math.hypot(*errors))


def read_chains(history: History) -> Mapping[str, Sequence[ChainNight]]:
    """Return the chain nights by the key of the series, in their order.

    :raises InputError: the database cannot be read
    """
    columns = [CHAIN.c[name] for name in ChainNight.__struct_fields__]
    query = (
        select(SERIES.c.key, *columns)
        .join(SERIES, SERIES.c.result_id == CHAIN.c.result_id)
        .order_by(SERIES.c.id, *CHAIN.primary_key.columns)
    )
    found: dict[str, list[ChainNight]] = {}
    with history.database.transaction() as connection:
        for key, *values in connection.execute(query):
            chain = ChainNight(**dict(zip(ChainNight.__struct_fields__, values, strict=True)))
            found.setdefault(key, []).append(chain)
    return found


def chain_references(
    nights: Sequence[Night],
    chain_nights: Sequence[ChainNight],
    *,
    is_log: bool,
    before: str | None = None,
) -> Mapping[int, Chain | None]:
    """Return the positions at which the reference kernel is another one, each with its chain.

    :param nights: in their order
    :param chain_nights: those of the series, in their order
    :param before: reference kernel before these nights; None if there are none
    :return: None where no chain night compared both kernels in the 31 days before
    """
    renewed: dict[int, Chain | None] = {}
    last = before
    for night in nights:
        now = night.reference_revision
        if now is not None and last not in {None, now}:
            chains = [
                each
                for each in chain_nights
                if (each.previous_revision, each.next_revision) == (last, now)
                and 0 <= night.position - each.position <= _LATEST_DAYS * NIGHTS_OF_A_DATE
            ]
            renewed[night.position] = chains[-1].chain(is_log=is_log) if chains else None
        last = now or last
    return renewed
