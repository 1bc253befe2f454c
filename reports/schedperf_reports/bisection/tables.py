# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of a bisection: tested commits, named commits, probabilities, untestable commits."""

from collections.abc import Collection, Iterator, Sequence

from schedperf.lab.bisect.changes import Change
from schedperf.lab.bisect.document import BisectDocument, Candidate, NamedCommit
from schedperf.lab.bisect.tested import Boot, BootedCommit
from schedperf.model.text import cut
from schedperf_reports.bisection.words import (
    LEAST_SHOWN,
    describe_change,
    format_level_interval,
    format_probability,
    format_value,
)
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.words.quantities import MISSING, format_change, format_interval, format_p

LONGEST_SUBJECT = 100
_NAN = float("nan")
_COMMIT = (Column(title="commit", code=True), Column(title="subject"))


def list_tested(document: BisectDocument, tested: Sequence[BootedCommit]) -> Iterator[Block]:
    """Yield the table of tested commits, oldest first; nothing without any.

    :param tested: tested commits of the range, or of a branch
    """
    if not tested:
        return
    named = {step.commits[-1].hash for step in document.named}
    yield Table(
        caption="Tested commits, oldest first; the first boot of each is not used",
        columns=(
            Column(title="position", align="right", priority=3),
            *_COMMIT,
            Column(title="boots", align="right", priority=1),
            Column(title="level", align="right",
                   explains="geometric mean of the used boots, with its 95% CI"),
            Column(title="CI of level", align="right", priority=2),
            Column(title="change from good", align="right"),
            Column(title="95% CI", align="right", priority=2),
            Column(title="probability", align="right",
                   explains="that it is the first bad commit, at the end of the last search of a "
                            "range with it inside"),
            *([Column(title="result")] if named else []),
        ),
        rows=tuple((*_tested_cells(each), *_result_cells(each, named)) for each in tested),
        details=tuple((_list_boots(each.boots),) for each in tested),
    )  # fmt: skip


def _tested_cells(tested: BootedCommit) -> tuple[Cell, ...]:
    level, probability = tested.level, tested.probability
    return (
        Cell(text=str(tested.position)),
        *_commit_cells(tested.commit.short, tested.commit.subject),
        Cell(text=str(len(tested.boots))),
        Cell(text=MISSING if level is None else format_value(level.mean)),
        Cell(text=format_level_interval(level)),
        *_change_cells(tested.change),
        Cell(
            text=format_probability(probability), sort=_NAN if probability is None else probability
        ),
    )


def _result_cells(tested: BootedCommit, named: Collection[str]) -> tuple[Cell, ...]:
    """Return the cell that marks a named commit; none if no commit is named."""
    if not named:
        return ()
    return (Cell(text="first bad commit" * (tested.commit.hash in named), tone="strong"),)


def _list_boots(boots: Sequence[Boot]) -> Text:
    values = (format_value(boot.value) + " (not used)" * (not boot.is_used) for boot in boots)
    return Text(text=f"boots in their order: {', '.join(values)}")


def list_named(document: BisectDocument) -> Iterator[Block]:
    """Yield the table of the named commits, in the order in which they were found, with the sum."""
    if not document.named:
        return
    yield Table(
        caption="Named commits; each is compared with its parent",
        columns=(
            *_COMMIT,
            Column(title="change", align="right"),
            Column(title="95% CI", align="right"),
            Column(title="boots", align="right", priority=2),
            Column(title="probability", align="right"),
            Column(title="fresh boots", align="right", priority=1),
            Column(title="p", align="right", priority=1,
                   explains="of the check on fresh boots; one-sided"),
        ),
        rows=tuple(map(_named_row, document.named)),
    )  # fmt: skip
    yield Text(text=_explained(document))


def _named_row(named: NamedCommit) -> tuple[Cell, ...]:
    change, check = named.change, named.check
    return (
        *_commit_cells(named.commits[-1].short, _subject(named)),
        *_change_cells(change),
        Cell(text=f"{change.older_boots} + {change.newer_boots}"),
        Cell(text=format_probability(named.probability), sort=named.probability),
        Cell(text=f"{check.boots} + {check.boots}"),
        Cell(text=format_p(check.p), sort=check.p),
    )


def _subject(named: NamedCommit) -> str:
    last, others = named.commits[-1], named.commits[:-1]
    if not others:
        return last.subject
    names = ", ".join(each.short for each in others)
    return f"{cut(last.subject, LONGEST_SUBJECT)}; or untestable before it: {names}"


def _explained(document: BisectDocument) -> str:
    subject = "commit explains" if len(document.named) == 1 else "commits together explain"
    text = f"The named {subject} {format_change(document.explained)}"
    if document.change is None:
        return f"{text}."
    return (
        f"{text} of the whole change of {describe_change(document.change)}; "
        f"{format_change(document.unexplained)} remains unexplained."
    )


def list_candidates(candidates: Sequence[Candidate]) -> Iterator[Block]:
    """Yield the table of the most probable commits; nothing without any."""
    shown = [each for each in candidates if each.probability >= LEAST_SHOWN]
    if not shown:
        return
    yield Table(
        caption=f"Commits that may be the first bad one, most probable first ({len(shown)})",
        columns=(
            Column(title="probability", align="right"),
            *_COMMIT,
            Column(title="boots", align="right"),
        ),
        rows=tuple(
            (
                Cell(text=format_probability(each.probability), sort=each.probability),
                *_commit_cells(each.commits[-1].short, each.commits[-1].subject),
                Cell(text=str(each.boots)),
            )
            for each in shown
        ),
    )


def list_untestable(document: BisectDocument) -> Iterator[Block]:
    """Yield the table of the commits that cannot be tested; nothing without any."""
    if document.untestable:
        yield Table(
            caption="Commits that cannot be tested, oldest first",
            columns=(*_COMMIT, Column(title="reason")),
            rows=tuple(
                (
                    *_commit_cells(each.short, each.subject),
                    Cell(text=document.reasons.get(each.hash, MISSING)),
                )
                for each in document.untestable
            ),
        )


def _commit_cells(short: str, subject: str) -> tuple[Cell, Cell]:
    return Cell(text=short), Cell(text=cut(subject, LONGEST_SUBJECT))


def _change_cells(change: Change | None) -> tuple[Cell, Cell]:
    if change is None:
        return Cell(text=MISSING, sort=_NAN), Cell(text=MISSING, sort=_NAN)
    return (
        Cell(text=format_change(change.ratio), sort=change.ratio),
        Cell(text=format_interval(change.ci_low, change.ci_high), sort=change.ci_low),
    )
