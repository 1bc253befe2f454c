# SPDX-License-Identifier: GPL-2.0-or-later
"""Notes on results: caveats, why one is undecided, how many more runs would decide it.

Results with the same note are named together, so that a sweep of nine points has it once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from schedperf.model.comparison import Row, Verdict
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE, say_more, say_smallest
from schedperf_reports.blocks import Item, Text
from schedperf_reports.words.rows import count_of
from schedperf_reports.words.units import format_share

# More results than these are counted, not named.
MOST_NAMES = 3

Line = tuple[str, Row]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remarks:
    """The caveats of some rows.

    :param notes: by the name of a row what is said of that row alone
    :param shared: by text the names of all rows of which it is said
    """

    notes: Mapping[str, Sequence[str]]
    shared: Mapping[str, Sequence[str]]


def find_remarks(lines: Sequence[Line], told: Collection[str]) -> Remarks:
    """Sort the caveats of rows by whom they are about.

    :param lines: the row's name and the row
    :param told: texts that are said elsewhere
    """
    named: dict[str, list[str]] = {}
    for name, row in lines:
        texts = [one.text for one in row.caveats if not _is_reason(one.code, row)]
        for text in dict.fromkeys(texts):
            if text not in told:
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
    """Say how many more runs would decide an open row, and the smallest detectable change.

    None where that cannot be known, or where something else than the number of runs is in the way.
    """
    is_hopeless = any(one.code == "emulated" for one in row.caveats)
    is_open = row.verdict == "inconclusive" and not is_hopeless
    if not is_open or row.more_runs is None or None in (row.n_base, row.n_new):
        return None
    more = say_more(row.more_runs, row.replication)
    return more if row.mde is None else f"{more}; {say_smallest(format_share(row.mde))}"


def list_shared(remarks: Remarks, total: int) -> Iterator[Item]:
    """Yield what is said of several rows.

    :param total: how many rows there are in all
    """
    for text, names in remarks.shared.items():
        yield Item(text=f"{_name_together(names, total)}: {text}", tone="warning")


def list_reasons(lines: Sequence[Line], headline: str) -> Iterator[Item]:
    """Yield why rows are undecided; nothing where the headline has said it.

    A reason is told without its row's own numbers, which stand in the cells and in the advice.
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
    """Yield a legend where the CI of a row excludes 0 and the row is not significant all the same.

    :param rows: what each row is called, with its change, and the row
    """
    named = [name for name, row in rows if _is_worth_a_look(row)]
    if not named:
        return
    more = f", {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
    yield Text(
        text="CIs are per row; significance is corrected for multiple testing; worth a look, with "
        f"a CI that excludes 0: {', '.join(named[:MOST_NAMES])}{more}",
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
