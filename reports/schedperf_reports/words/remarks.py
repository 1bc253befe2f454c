# SPDX-License-Identifier: GPL-2.0-or-later
"""Write notes on results: caveats, why a result is inconclusive, and how many runs it lacks.

Results with the same note are listed together, so that a sweep of nine points prints it once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from schedperf.model.rows import Row, Verdict
from schedperf.model.text import list_some
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, describe_mde, describe_more_runs
from schedperf_reports.blocks import Item, Text
from schedperf_reports.words.quantities import format_share
from schedperf_reports.words.rows import count_of

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

    Too few runs for a CI is not noted, because a row without a CI states this itself.

    :param lines: the row's name and the row
    :param printed: texts that are printed elsewhere, and left out here
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
    # A row without an interval states itself that it has too few runs for one.
    return code == "few-runs" and row.ci_low is None


def advise(row: Row) -> str | None:
    """State how many more runs would decide a row, and the smallest detectable change, if known.

    Return None in the cases of :func:`advise_runs`.
    """
    more = advise_runs(row)
    if more is None or row.mde is None:
        return more
    return f"{more}; {describe_mde(format_share(row.mde))}"


def advise_runs(row: Row) -> str | None:
    """State how many more runs would decide a row.

    Return None if the row is not inconclusive, if the number of runs or of more runs is unknown, or
    if the timings are emulated, because more runs would then not help.
    """
    is_hopeless = any(caveat.code == "emulated" for caveat in row.caveats)
    is_open = row.verdict == "inconclusive" and not is_hopeless
    if not is_open or row.more_runs is None or None in (row.n_base, row.n_new):
        return None
    return describe_more_runs(row.more_runs, row.replication)


def list_shared(remarks: Remarks, total: int) -> Iterator[Item]:
    """Yield the notes that several rows share, each with the names or the number of the rows.

    :param total: number of all rows
    """
    for text, names in remarks.shared.items():
        yield Item(text=f"{_name_together(names, total)}: {text}", tone="warning")


def list_reasons(lines: Sequence[Line], headline: str) -> Iterator[Item]:
    """Yield why rows are inconclusive or invalid; rows with the same reason are merged.

    Yield nothing if all have the same reason and the headline states it. The reasons omit the
    numbers of the rows, because the table shows them.

    :param lines: the row's name and the row
    """
    named: dict[tuple[Verdict, str], list[str]] = {}
    first_parts: set[str] = set()
    for name, row in lines:
        if row.verdict in ("inconclusive", "invalid"):
            named.setdefault((row.verdict, row.reason_plain), []).append(name)
            first_parts.add(row.reason_short)
    # The text after the first part is advice, which the next steps give.
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
    """Yield a remark that lists the rows that are not significant although their CI excludes 0%.

    Yield nothing if there are none.

    :param rows: for each row, a text with its name and change, and the row
    """
    named = [name for name, row in rows if _is_worth_a_look(row)]
    if not named:
        return
    yield Text(
        text="CI excludes 0, but not significant after correction for multiple testing: "
        f"{list_some(named, MOST_NAMES)}",
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
