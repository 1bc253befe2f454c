# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from a comparison's JSON file whether a night must act on it.

Under emulation no result has a verdict: the confidence intervals alone decide, as they do for the
record of a first bad commit. The night acts on these only if the job says ``act_on_emulated``.
"""

from pathlib import Path

from msgspec import Struct

from schedperf.compare.json import MOST_BYTES, read_comparison
from schedperf.inputs.bundle.files import read_regular
from schedperf.model.rows import Row, Verdict
from schedperf.model.text import clean_line
from schedperf.model.worse import is_emulated, is_worse
from schedperf.publish.culprit.figures import (
    has_change,
    show_both,
    worst_first,
)


class Judged(Struct, frozen=True, kw_only=True):
    """The verdict of a comparison, for the decision of a night.

    :param is_regression: whether the verdict is a regression and a result of the side regressed;
        under emulation, by the confidence intervals alone
    :param is_emulated: whether its timings come from an emulator
    :param verdict: verdict of the whole comparison; None under emulation
    :param text: the result in one line
    """

    is_regression: bool
    is_emulated: bool
    verdict: Verdict | None
    text: str


def judge(path: Path, side: str) -> Judged:
    """Read a comparison's JSON file, and decide whether a side regressed.

    :param side: name of the side
    :raises InputError: the file cannot be read, or is damaged
    """
    content = read_regular(path, MOST_BYTES, "a comparison (compare --json)")
    comparison = read_comparison(content, str(path))
    rows = [row for row in comparison.rows if row.side == side]
    worse = worst_first([row for row in rows if has_change(row) and is_worse(row)])
    if any(map(is_emulated, rows)):
        found = f"slower: {_describe(worse[0])}" if worse else "no result is slower"
        return Judged(
            is_regression=bool(worse),
            is_emulated=True,
            verdict=None,
            text=clean_line(f"emulated, so no verdict; {found}"),
        )
    overall = comparison.overall
    return Judged(
        is_regression=bool(worse) and overall.verdict == "regression",
        is_emulated=False,
        verdict=overall.verdict,
        text=clean_line(f"{overall.verdict}: {overall.reason}"),
    )


def _describe(row: Row) -> str:
    return f"{' '.join(filter(None, (row.metric, row.point)))} {show_both(row)}"
