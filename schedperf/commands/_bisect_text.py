# SPDX-License-Identifier: GPL-2.0-or-later
"""Format the result of ``schedperf bisect`` as text."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.inputs.git import HASH_DIGITS, Commit
from schedperf.lab.bisect.changes import Change
from schedperf.lab.bisect.document import (
    BisectDocument,
    BranchResult,
    Candidate,
    MergedBranch,
    NamedCommit,
    OpenRange,
    Trial,
)
from schedperf.lab.bisect.estimate import Estimate
from schedperf.lab.bisect.posterior import LEADING
from schedperf.lab.bisect.rule import SURE, Check
from schedperf.lab.bisect.store import Booting, Building, Progress, Proving
from schedperf.model.text import clean_line, cut
from schedperf_collectors.recorder.progress import format_duration
from schedperf_reports.bisection.words import LEAST_SHOWN
from schedperf_reports.words.quantities import format_change, format_interval, format_p

_LABEL_COLUMNS = 18
_LONGEST_SUBJECT = 60
# Lines with a bar are as long as those of a mail.
_LONGEST_BESIDE_BAR = 30
_BAR_COLUMNS = 20
_MOST_BARS = 10
_BRANCH_RESULTS: Mapping[BranchResult, str] = {
    "named": "its first bad commit is above",
    "excluded": "alone, it does not have the change of the merge",
    "undecided": "its ends do not differ significantly, but its 95% CI overlaps that of the merge",
    "withheld": "its ends differ, but no commit of it is named",
    "unfinished": "its search is not finished",
    "no-merge-base": "not searched: no merge base, or several",
    "untestable": "not searched: one of its ends cannot be tested",
}
_ARTEFACT = "no change if functions and per-CPU variables are aligned to 64 bytes"
_BARS_HEADING = f"{'probability':<{6 + _BAR_COLUMNS}}  {'commit':<{HASH_DIGITS}}  boots"


def format_document(document: BisectDocument) -> str:
    """Return the result as text: what to boot next, what is named, and the probabilities."""
    lines = (
        f"{label:<{_LABEL_COLUMNS}}{clean_line(text)}".rstrip()
        for label, text in describe_document(document)
    )
    return "".join(f"{line}\n" for line in (*lines, *_bars(document.candidates)))


def format_next(document: BisectDocument) -> str:
    """Return in one line how many boots were made, what is named, and what to boot next."""
    parts = [_count(document.boots, "boot")]
    parts += [f"named: {_set(named.commits)}" for named in document.named]
    if document.candidates and document.candidates[0].probability > LEADING:
        leading = document.candidates[0]
        parts.append(f"{_hash(leading.commits[-1])} has a probability of {leading.probability:.3f}")
    if document.next is not None:
        parts.append(
            f"next: {_count(document.next.boots, 'boot')} of {_hash(document.next.commit)}"
        )
    return "; ".join(parts)


def describe_left(left: Estimate) -> str:
    """Return what the search of this range needs: ``about 41 boots (90%: at most 58) …``."""
    return (
        f"about {_count(round(left.boots), 'boot')} (90%: at most {left.most_boots:.0f}) of "
        f"{_count(round(left.builds), 'new commit')}; chance to name one: {left.named:.0%}"
    )


def describe_time(left: Estimate, progress: Progress) -> str:
    """Return how long the search of this range takes: ``about 2 h``; or ``unknown time``."""
    left_s = progress.time_of(left.boots, left.builds)
    return "unknown time" if left_s is None else f"about {format_duration(left_s)}"


def format_state(document: BisectDocument, progress: Progress, *, is_running: bool) -> str:
    """Return as text what a search does, and what it has taken."""
    lines = [("state", _describe_state(document, progress, is_running=is_running))]
    if document.next is not None and document.next.left is not None:
        lines.append(("time left", describe_time(document.next.left, progress)))
    if progress.build_s is not None:
        lines.append(("builds", str(progress.builds)))
        lines.append(("time per build", format_duration(progress.build_s)))
    if progress.boot_s is not None:
        lines.append(("time per boot", format_duration(progress.boot_s)))
    for commit, reason in progress.untestable.items():
        lines.append(("untestable", f"{commit[:HASH_DIGITS]}: {reason}"))
    for commit, side in progress.marks.items():
        lines.append(("marked", f"{commit[:HASH_DIGITS]} {side}"))
    return "".join(f"{label:<{_LABEL_COLUMNS}}{clean_line(text)}\n" for label, text in lines)


def _describe_state(document: BisectDocument, progress: Progress, *, is_running: bool) -> str:
    last = progress.last
    if not is_running:
        is_over = document.next is None
        return "over" if is_over else "not running; repeat its command to continue"
    if isinstance(last, Building | Booting):
        doing = "building" if isinstance(last, Building) else "booting"
        return f"{doing} {last.commit[:HASH_DIGITS]}"
    if isinstance(last, Proving):
        return f"proving {last.commit[:HASH_DIGITS]}: {last.doing}"
    return "deciding"


def describe_document(document: BisectDocument) -> Iterator[tuple[str, str]]:
    """Yield what the boots show, each fact with its label, "" if it continues the one before.

    The first one is the answer, or what to boot next.
    """
    if document.next is not None and document.status == "more-boots":
        yield "next", f"{_name(document.next.commit)}, {_count(document.next.boots, 'boot')}"
        yield "why", _why(document)
        if document.next.left is not None:
            yield "left", describe_left(document.next.left)
    for named in filter(_is_artefact, document.named):
        yield "layout artefact", f"{_hash(named.commits[-1])}: {_ARTEFACT}"
    for named in document.named:
        yield from _named_lines(named, document)
    for open_range in document.open:
        yield from _open_lines(open_range, document.most_boots)
    for branch in document.branches:
        yield from _branch_lines(branch)
    if document.status == "withheld" and not document.open:
        yield "withheld", _why_withheld(document)
    if document.status == "no-change":
        yield "no change", "good and bad do not differ significantly by 1% or more"
        if document.needed_boots is not None:
            yield "needed", f"{_count(document.needed_boots, 'boot')} per end to show this change"
    yield from _range_lines(document)


def _range_lines(document: BisectDocument) -> Iterator[tuple[str, str]]:
    commits = _count(document.commits, "commit")
    untestable = f", {len(document.untestable)} untestable" if document.untestable else ""
    yield "range", f"{_span(document.good, document.bad)}, {commits}{untestable}"
    if document.change is not None:
        yield "whole change", _change(document.change)
    if document.unexplained is not None:
        yield "unexplained", format_change(document.unexplained)
    yield "boots", f"{document.boots}, first boots included"
    if document.emulated:
        yield "emulated", "emulated CPUs; repeat the check of a named commit on real hardware"


def _why(document: BisectDocument) -> str:
    boots = document.next
    assert boots is not None
    if boots.phase == "ends":
        ends = f"to find out whether {_hash(boots.good)} and {_hash(boots.bad)} differ"
        return ends if boots.merge is None else f"{ends}, in the branch of {_hash(boots.merge)}"
    if boots.suspect is not None:
        return f"check of {_hash(boots.suspect)} on fresh boots, interleaved with its parent"
    leading = document.candidates[0]
    if leading.probability > LEADING:
        return f"it has fewer boots, of {_hash(leading.commits[-1])} and its parent"
    return "half of the probability is of this commit and those before it"


def _why_withheld(document: BisectDocument) -> str:
    if not document.candidates:
        return "too few boots of good and bad"
    leading = document.candidates[0]
    text = f"{_set(leading.commits)} has a probability of {leading.probability:.3f}"
    if leading.probability < SURE:
        return f"{text} (expected {SURE} or more)"
    return f"{text}, but no fresh boots of it and its parent"


def _named_lines(named: NamedCommit, document: BisectDocument) -> Iterator[tuple[str, str]]:
    yield "first bad commit", _set(named.commits)
    for merge in named.merges:
        yield "merged by", f"{_name(merge.commit)}, {_change(merge.change)}"
    yield "probability", f">= {SURE}; {_check(named.check)}"
    whole = "" if document.change is None else f" of {format_change(document.change.ratio)}"
    yield "change", f"{_change(named.change)}; explains {format_change(named.change.ratio)}{whole}"
    if _is_merge_itself(named, document.branches):
        yield "", "merged branches alone do not have it: the merge itself is the first bad commit"
    yield from map(_trial_line, named.trials)


def _trial_line(trial: Trial) -> tuple[str, str]:
    """Return what a trial has shown, with its label."""
    if trial.kind == "revert":
        label, where, with_ = "revert", f"on {trial.kernel.short}: ", "with the commit"
    elif trial.kind == "feature":
        label, where, with_ = "feature switch", f"NO_{trial.feature}: ", f"with {trial.feature}"
    else:
        label, where, with_ = "forced alignment", "", "aligned"
    if trial.change is None or trial.p is None:
        return label, f"{where}not measured: {trial.reason}"
    # Without what is reverted or switched off, the change must be gone; an alignment must keep it.
    removes = (trial.result == "present") != (trial.kind == "alignment")
    shown = "removes the change" if removes else "does not remove the change"
    if trial.result == "undecided":
        shown = "undecided"
    measured = f"{_change(trial.change)}, p = {format_p(trial.p)}"
    return label, f"{where}{shown}; {with_}: {measured}"


def _is_artefact(named: NamedCommit) -> bool:
    return any(each.kind == "alignment" and each.result == "absent" for each in named.trials)


def _is_merge_itself(named: NamedCommit, branches: Sequence[MergedBranch]) -> bool:
    return {each.result for each in branches if (each.merge,) == named.commits} == {"excluded"}


def _branch_lines(branch: MergedBranch) -> Iterator[tuple[str, str]]:
    span = _hash(branch.bad) if branch.good is None else _span(branch.good, branch.bad)
    commits = "" if branch.commits is None else f"{_count(branch.commits, 'commit')}, "
    yield "merged branch", f"{span}, {commits}by {_hash(branch.merge)}"
    if branch.change is not None:
        yield "", _change(branch.change)
    yield "", _BRANCH_RESULTS[branch.result]


def _open_lines(open_range: OpenRange, most_boots: int) -> Iterator[tuple[str, str]]:
    ends = _span(open_range.good, open_range.bad)
    yield "withheld", f"{ends}: the ends differ, but no commit is named"
    yield "leading", f"{_set(open_range.commits)}, probability {open_range.probability:.3f}"
    if open_range.check is None:
        yield "", f"the limit of {most_boots} boots is reached"
    else:
        yield "", f"not reproduced: {_check(open_range.check)}"


def _check(check: Check) -> str:
    return f"{check.boots} + {check.boots} fresh boots, p = {format_p(check.p)}"


def _change(change: Change) -> str:
    interval = format_interval(change.ci_low, change.ci_high)
    counts = f"n = {change.older_boots} + {change.newer_boots} boots"
    return f"{format_change(change.ratio)} {interval} ({counts})"


def _bars(candidates: Sequence[Candidate]) -> Iterator[str]:
    """Yield a bar for each of the most probable commits; nothing while all are equal."""
    if not candidates or candidates[0].probability == candidates[-1].probability:
        return
    yield _BARS_HEADING
    shown = [each for each in candidates if each.probability >= LEAST_SHOWN]
    for each in shown[:_MOST_BARS]:
        bar = "#" * round(_BAR_COLUMNS * each.probability)
        commit = each.commits[-1]
        subject = clean_line(cut(commit.subject, _LONGEST_BESIDE_BAR))
        yield (
            f"{each.probability:<6.3f}{bar:<{_BAR_COLUMNS}}  {_hash(commit)}  {each.boots:>5}  "
            f"{subject}"
        )
    if len(shown) > _MOST_BARS:
        yield "…: --json lists more"


def _set(commits: Sequence[Commit]) -> str:
    others = [*map(_hash, commits[:-1])]
    text = _name(commits[-1])
    return f"{text}, or untestable before it: {', '.join(others)}" if others else text


def _name(commit: Commit) -> str:
    return f'{_hash(commit)} ("{cut(commit.subject, _LONGEST_SUBJECT)}")'


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _span(good: Commit, bad: Commit) -> str:
    return f"{_hash(good)}..{_hash(bad)}"


def _hash(commit: Commit) -> str:
    return commit.short
