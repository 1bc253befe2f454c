# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from a comparison's JSON file whether a night acts on it.

Under emulation no result has a verdict. If the job says ``act_on_emulated``, a row counts as a
regression if its whole 95% CI is worse than the equivalence margin.
"""

from pathlib import Path

from msgspec import Struct

from schedperf.bundle.files import read_regular
from schedperf.bundle.json import decode
from schedperf.model.text import clean_line

_LARGEST_BYTES = 1 << 30
_EMULATED = "emulated"


class _Caveat(Struct, frozen=True):
    code: str


class _Overall(Struct, frozen=True):
    verdict: str
    reason: str


class _Row(Struct, frozen=True):
    side: str
    point: str
    metric: str
    verdict: str
    better: str
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    margin: float
    caveats: tuple[_Caveat, ...]

    @property
    def is_worse(self) -> bool:
        """Whether the whole 95% CI is worse than the margin."""
        if self.ci_low is None or self.ci_high is None:
            return False
        if self.better == "lower":
            return self.ci_low > 1 + self.margin
        return self.better == "higher" and self.ci_high < 1 - self.margin

    def describe(self) -> str:
        """Return the change with its interval."""
        name = " ".join(filter(None, (self.metric, self.point)))
        if self.ratio is None or self.ci_low is None or self.ci_high is None:
            return f"{name} (no interval)"
        low, high = self.ci_low - 1, self.ci_high - 1
        return f"{name} {self.ratio - 1:+.1%} [{low:+.1%}, {high:+.1%}]"


class _Comparison(Struct, frozen=True):
    id: str
    overall: _Overall
    rows: tuple[_Row, ...]


class Judged(Struct, frozen=True, kw_only=True):
    """What a comparison says.

    :param comparison: its id
    :param is_regression: new is slower than base; under emulation: by the numbers alone
    :param is_emulated: its timings come from an emulator
    :param text: one line
    """

    comparison: str
    is_regression: bool
    is_emulated: bool
    text: str


def judge(path: Path, side: str) -> Judged:
    """Read a comparison.

    :param side: the side that counts
    :raises InputError: it cannot be read
    """
    content = read_regular(path, _LARGEST_BYTES, "a comparison (compare --json)")
    comparison = decode(content, _Comparison, str(path))
    rows = [row for row in comparison.rows if row.side == side]
    emulated = [row for row in rows if any(each.code == _EMULATED for each in row.caveats)]
    if not emulated:
        overall = comparison.overall
        return Judged(
            comparison=comparison.id,
            is_regression=any(row.verdict == "regression" for row in rows)
            and overall.verdict == "regression",
            is_emulated=False,
            text=clean_line(f"{overall.verdict}: {overall.reason}"),
        )
    worse = [row for row in emulated if row.is_worse]
    first = max(worse, key=_size, default=None)
    found = "no row is worse" if first is None else f"worse: {first.describe()}"
    return Judged(
        comparison=comparison.id,
        is_regression=first is not None,
        is_emulated=True,
        text=clean_line(f"emulated, so no verdict; {found}"),
    )


def _size(row: _Row) -> float:
    ratio = row.ratio or 0.0
    return ratio if row.better == "lower" else -ratio
