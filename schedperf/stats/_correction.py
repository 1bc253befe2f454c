# SPDX-License-Identifier: GPL-2.0-or-later
"""Multiple-testing correction of p values."""

import numpy as np
import pandas as pd

from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.stats._rows import Floats, Integers


def holm(p: Floats, question: Integers) -> Floats:
    """Correct the p values of each question, which several sides answer, for their number.

    Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6 (1979).

    :param p: NaN where nothing was tested; those stay and do not count
    """
    table = pd.DataFrame({"question": question, "p": p}).dropna().sort_values("p", kind="stable")
    groups = table.groupby("question", sort=False)
    left = groups["p"].transform("size") - groups.cumcount()
    table["p"] = (table["p"] * left).clip(upper=1.0)
    corrected = np.full(len(p), np.nan)
    corrected[table.index] = table.groupby("question", sort=False)["p"].cummax()
    return corrected


def false_discovery(p: Floats, family: Integers) -> Floats:
    """Return q values, none below its p: a row is discovered where q < 0.05.

    Benjamini & Hochberg, "Controlling the false discovery rate", J. R. Stat. Soc. B 57
    (1995), in the adaptive form of Benjamini, Krieger & Yekutieli, Biometrika 93 (2006),
    definition 6: a first pass at 0.05 / 1.05 estimates the number of unchanged rows, and the
    correction is for this number. If no row changed, 0.05 / 1.05 is the level of all rows.

    :param p: NaN where nothing was tested; those stay and do not count
    :param family: rows are corrected for those of their own family
    """
    level = FALSE_DISCOVERY_RATE / (1.0 + FALSE_DISCOVERY_RATE)
    table = pd.DataFrame({"family": family, "p": p}).dropna().sort_values("p", kind="stable")
    groups = table.groupby("family", sort=False)
    size = groups["p"].transform("size")
    table["q"] = table["p"] * size / (groups.cumcount() + 1.0)
    backwards = table.iloc[::-1].groupby("family", sort=False)["q"].cummin()
    table["q"] = backwards.reindex(table.index)
    discovered = (table["q"] < level).groupby(table["family"], sort=False).transform("sum")
    remaining = (size - discovered).clip(lower=1)
    paid = np.where(size > 1, (1.0 + FALSE_DISCOVERY_RATE) * remaining / size, 1.0)
    corrected = np.full(len(p), np.nan)
    # Where nearly all rows changed the last ones would come for nothing; each has its own p to pay.
    corrected[table.index] = np.clip(table["q"] * paid, table["p"], 1.0)
    return corrected
