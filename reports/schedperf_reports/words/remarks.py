# SPDX-License-Identifier: GPL-2.0-or-later
"""Notes on results: caveats, why a result is inconclusive, and how many more runs it needs.

Results with the same note are named together, so that a sweep of nine points prints it once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from schedperf.model.comparison import Row, Verdict
from schedperf.model.text import list_some
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, say_more, say_smallest
from schedperf_reports.blocks import Item, Text
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import format_share

# More results than these are counted, not named.
MOST_NAMES = 3

Line = tuple[str, Row]


class Remarks(Struct, frozen=True, kw_only=True):
    """The caveats of some rows.

    :param notes: notes on single rows, by the name of the row
    :param shared: names of the rows that share a note, by its text
    """

    notes: Mapping[str, Sequence[str]]
    shared: Mapping[str, Sequence[str]]


def find_remarks(lines: Sequence[Line], printed: Collection[str]) -> Remarks:
    """Split the caveats of rows into notes on single rows and shared notes.

    :param lines: the row's name and the row
    :param printed: texts that are printed elsewhere
    """
    named: dict[str, list[str]] = {}
    for name, row in lines:
        texts = [caveat.text for caveat in row.caveats if not _is_reason(caveat.code, row)]
        for text in dict.fromkeys(texts):
            if text not in printed:
                named.setdefault(text, []).append(name)
    notes: dict[str, list[str]] = {}
    for text, names in named.items():
        if len(names) == 1:
            notes.setdefault(names[0], []).append(text)
    return Remarks(
        notes=notes, shared={text: names for text, names in named.items() if len(names) > 1}
    )


def _is_reason(code: str, row: Row) -> bool:
    # A row without an interval says itself that it has too few runs for one.
    return code == "few-runs" and row.ci_low is None


def advise(row: Row) -> str | None:
    """State how many more runs would decide a row, and the smallest detectable change.

    None if the number is unknown, or if more runs would not help.
    """
    more = advise_runs(row)
    if more is None or row.mde is None:
        return more
    return f"{more}; {say_smallest(format_share(row.mde))}"


def advise_runs(row: Row) -> str | None:
    """State how many more runs would decide a row; None as :func:`advise`."""
    is_hopeless = any(caveat.code == "emulated" for caveat in row.caveats)
    is_open = row.verdict == "inconclusive" and not is_hopeless
    if not is_open or row.more_runs is None or None in (row.n_base, row.n_new):
        return None
    return say_more(row.more_runs, row.replication)


def list_shared(remarks: Remarks, total: int) -> Iterator[Item]:
    """Yield the notes that several rows share.

    :param total: number of all rows
    """
    for text, names in remarks.shared.items():
        yield Item(text=f"{_name_together(names, total)}: {text}", tone="warning")


def list_reasons(lines: Sequence[Line], headline: str) -> Iterator[Item]:
    """Yield why rows are inconclusive, unless the headline states it.

    The reasons are without the numbers of the rows, which the table shows.
    """
    named: dict[tuple[Verdict, str], list[str]] = {}
    first_parts: set[str] = set()
    for name, row in lines:
        if row.verdict in ("inconclusive", "invalid"):
            named.setdefault((row.verdict, row.reason_plain), []).append(name)
            first_parts.add(row.reason_short)
    # What follows the first part is advice, which the next steps give.
    if len(named) == 1 and all(part in headline for part in first_parts):
        return
    for (verdict, reason), names in named.items():
        yield Item(text=f"{_name_together(names, len(lines))}: {verdict}: {reason}")


class Corrected(Protocol):
    """A row with its own CI, and a q that is corrected over all rows tested with it."""

    @property
    def q(self) -> float | None: ...
    @property
    def ci_low(self) -> float | None: ...
    @property
    def ci_high(self) -> float | None: ...


def explain_correction(rows: Iterable[tuple[str, Corrected]]) -> Iterator[Text]:
    """Yield a legend if a row is not significant although its CI excludes 0.

    :param rows: name and change of each row, and the row
    """
    named = [name for name, row in rows if _is_worth_a_look(row)]
    if not named:
        return
    yield Text(
        text="CIs are per row, significance is corrected for multiple testing; rows that are not "
        f"significant although the CI excludes 0: {list_some(named, MOST_NAMES)}",
        tone="muted",
    )


def _is_worth_a_look(row: Corrected) -> bool:
    if row.q is None or row.ci_low is None or row.ci_high is None:
        return False
    return row.q >= FALSE_DISCOVERY_RATE and not row.ci_low <= 1.0 <= row.ci_high


def _name_together(names: Sequence[str], total: int) -> str:
    if len(names) == total > 1:
        return f"all {total} results"
    return ", ".join(names) if len(names) <= MOST_NAMES else count_of(len(names), "result")
