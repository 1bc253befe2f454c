"""How much the values vary: between the sides, and between boots."""

from collections.abc import Iterable

import numpy as np
from scipy import special

from schedperf.stats._estimates import variances_of
from schedperf.stats._rows import REPLICATIONS, Block, Floats, Rows

# Fewer values say nothing of a variance.
FEWEST_VALUES = 5


def compare_spread(count: int, blocks: Iterable[Block]) -> tuple[Floats, Floats]:
    """Test whether the sides vary alike.

    Brown & Forsythe, "Robust tests for the equality of variances", J. Am. Stat. Assoc.
    69 (1974): Student's t of the distances from the side's median.

    :return: two-sided p and the quotient new / base of the standard deviations, shape (rows,)
    """
    p, quotient = np.full(count, np.nan), np.full(count, np.nan)
    for block in blocks:
        sides = (block.base, block.new)
        sizes = [side.shape[1] for side in sides]
        if min(sizes) < FEWEST_VALUES:
            continue
        distances = [np.abs(side - np.median(side, axis=1)[:, None]) for side in sides]
        df = sum(sizes) - 2.0
        squares = sum(
            variances_of(one) * (size - 1.0) for one, size in zip(distances, sizes, strict=True)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            se = np.sqrt(squares / df * sum(1.0 / size for size in sizes))
            t = np.abs(distances[1].mean(axis=1) - distances[0].mean(axis=1)) / se
            quotient[block.rows] = np.sqrt(variances_of(sides[1]) / variances_of(sides[0]))
        p[block.rows] = np.where(se > 0.0, 2.0 * special.stdtr(df, -t), np.nan)
    return p, quotient


def boot_shares(rows: Rows) -> tuple[Floats, Floats]:
    """Return how much of the variance is between boots, and how much runs of a boot repeat it.

    One-way analysis of variance by the method of moments (Searle, Casella & McCulloch,
    "Variance Components", section 3.6), both sides pooled; the design effect is
    1 + (m - 1) ICC with m runs a boot (Kish, "Survey Sampling", section 5.4).

    :return: ICC and design effect, shape (rows,); NaN where boots are not the unit or hold one run
    """
    count = len(rows)
    icc, effect = np.full(count, np.nan), np.full(count, np.nan)
    by_boot = rows.replication == REPLICATIONS.index("boots")
    inner = rows.inner[by_boot[rows.inner["row"].to_numpy()]]
    if inner.empty:
        return icc, effect
    boots = (
        inner.groupby(["row", "is_new", "boot"])["value"].agg(["mean", "size", "var"]).reset_index()
    )
    boots["within"] = (boots["size"] - 1.0) * boots["var"].fillna(0.0)
    sides = boots.groupby(["row", "is_new"])
    weighted = boots["mean"] * boots["size"]
    centre = weighted.groupby([boots["row"], boots["is_new"]]).transform("sum") / sides[
        "size"
    ].transform("sum")
    boots["between"] = boots["size"] * (boots["mean"] - centre) ** 2
    boots["square"] = boots["size"] ** 2 / sides["size"].transform("sum")
    boots["first"] = (~boots.duplicated(["row", "is_new"])).astype(np.float64)
    total = boots.groupby("row").agg(
        boots=("mean", "size"), sides=("first", "sum"), runs=("size", "sum"),
        within=("within", "sum"), between=("between", "sum"), square=("square", "sum"),
    )  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        between_df, within_df = total["boots"] - total["sides"], total["runs"] - total["boots"]
        inside, outside = total["within"] / within_df, total["between"] / between_df
        each = (total["runs"] - total["square"]) / between_df
        share = ((outside - inside) / (outside + (each - 1.0) * inside)).clip(0.0, 1.0)
    members = total.index.to_numpy()
    icc[members] = share.to_numpy()
    effect[members] = 1.0 + (total["runs"] / total["boots"] - 1.0).to_numpy() * icc[members]
    return icc, effect
