# SPDX-License-Identifier: GPL-2.0-or-later
"""Multiple-testing correction of p values."""

import numpy as np

from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.stats._rows import Floats, Integers


def false_discovery(p: Floats, family: Integers) -> Floats:
    """Return q values, none below its p: a row is discovered where q < 0.05.

    Benjamini & Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B 57
    (1995), in the adaptive form of Benjamini, Krieger & Yekutieli, Biometrika 93 (2006),
    definition 6: a first pass at 0.05 / 1.05 estimates the number of unchanged rows, and the
    correction is for this number. If no row changed, 0.05 / 1.05 is the level of all rows.

    :param p: shape (rows,); NaN for rows that were not tested; these stay NaN and do not count
    :param family: number of each row's family, shape (rows,); each family is corrected separately
    """
    corrected = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    for each in np.unique(family[tested]):
        members = tested[family[tested] == each]
        members = members[np.argsort(p[members], kind="stable")]
        corrected[members] = _discover(p[members])
    return corrected


def _discover(p: Floats) -> Floats:
    # The p values of one family, sorted.
    level = FALSE_DISCOVERY_RATE / (1.0 + FALSE_DISCOVERY_RATE)
    size = len(p)
    q = np.minimum.accumulate((p * size / np.arange(1.0, size + 1.0))[::-1])[::-1]
    remaining = max(size - int((q < level).sum()), 1)
    paid = (1.0 + FALSE_DISCOVERY_RATE) * remaining / size if size > 1 else 1.0
    # If nearly all rows changed, the correction could give a q below p; q is never below p.
    return np.clip(q * paid, p, 1.0)
