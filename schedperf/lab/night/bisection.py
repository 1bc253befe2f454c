# SPDX-License-Identifier: GPL-2.0-or-later
"""Search the first bad commit of a step on its machine, and test its revert, as requested."""

from collections.abc import Callable
from pathlib import Path

from schedperf.history.decide import advance_step
from schedperf.history.follow_up import REVERTED
from schedperf.history.questions.records import Series
from schedperf.history.store.directory import Directory
from schedperf.history.store.requests import Request
from schedperf.lab.bisect.document import BisectDocument, NamedCommit
from schedperf.lab.bisect.json import load_bisection
from schedperf.lab.night.context import Context, NotNow
from schedperf.lab.night.job import Job, run_options
from schedperf.lab.night.recording import boot_options
from schedperf.lab.night.state import NightError
from schedperf.model.text import clean_line, cut
from schedperf.model.units import signed

BISECTION = "bisect.json"
SEARCH = "search"
_USAGE = 2
_AGAIN = 75
_LONGEST = 300


class CannotSearch(NightError):
    """The search can never be made, e.g. because the good commit is not an ancestor."""


def search(
    context: Context,
    directory: Directory,
    request: Request,
    *,
    job: Job,
    series: Series,
    folder: Path,
    look: Callable[[], None],
) -> str:
    """Search until the hours of the machine end; store what is found, and return it in words.

    :param context: of the step's tree
    :param folder: directory of the request, in which a search continues
    :param look: called about every 2 s while it runs
    :raises NotNow: the hours ended, or the machine cannot be used now; the next call goes on
    :raises CannotSearch: it can never be made
    :raises NightError: another failure
    :raises InputError: the result is damaged, or the store cannot be written
    """
    context.check_hours()
    log = f"{request.kind}-{request.id}"
    stopped: list[str] = []

    def stop_in_time() -> None:
        """Stop the search when the permitted hours end or the disk is nearly full."""
        look()
        try:
            context.check_hours()
            context.check_space()
        except NightError as error:
            if not stopped:
                stopped.append(str(error))
                context.commands.schedperf("stop", ["bisect", "stop", "-o", str(folder / SEARCH)])

    words = _words(context, request, job, series, folder)
    status = context.commands.schedperf(log, words, stop_in_time, limit_s=None)
    if stopped or status == _AGAIN:
        raise NotNow(stopped[0] if stopped else context.commands.last_error(log))
    if status == _USAGE:
        raise CannotSearch(context.commands.last_error(log))
    if status not in {0, 1, 3}:
        raise NightError(context.commands.last_error(log))
    return _store(directory, request, load_bisection(folder / BISECTION))


def _words(context: Context, request: Request, job: Job, series: Series, folder: Path) -> list[str]:
    tree = context.tree
    assert tree.bisect is not None
    command = job.command_of(series.point)
    assert command is not None
    words = ["bisect", "run", "-o", str(folder / SEARCH), "--json", str(folder / BISECTION)]
    words += ["--good", str(request.reference), "--bad", str(request.new), "--yes", "-q"]
    words += ["--repo", str(tree.repo), "--install", tree.bisect.install]
    for option, value in (("--build", tree.bisect.build), ("--config", tree.bisect.config)):
        words += [] if value is None else [option, value]
    for path in tree.bisect.paths:
        words += ["--paths", path]
    words += ["--prove"] if request.kind == "revert" else []
    words += ["--result", series.metric, *boot_options(context)]
    return [*words, *run_options(job), "--", *command]


def _store(directory: Directory, request: Request, document: BisectDocument) -> str:
    """Store what a search found as the state of its step; return it in words."""
    assert request.step_id is not None
    if not document.named:
        text = f"no commit named ({document.status})"
        if document.status != "withheld":
            return text
        ends = f"{document.good.short}..{document.bad.short}"
        advance_step(
            directory,
            request.step_id,
            "range known",
            reason=f"bisection: {text}; in {ends}",
            numbers={"boots": document.boots},
            say=lambda _: None,
        )
        return text
    named = max(document.named, key=lambda each: abs(each.change.ratio - 1.0))
    commit = named.commits[-1]
    text = clean_line(cut(f'first bad commit {commit.short} ("{commit.subject}")', _LONGEST))
    others = f"; {len(document.named) - 1} more" if len(document.named) > 1 else ""
    advance_step(
        directory,
        request.step_id,
        "first bad known",
        reason=f"bisection: {text}, {signed(named.change.ratio - 1.0)}{others}",
        numbers={
            "probability": named.probability,
            "boots": document.boots,
            **({REVERTED: 1.0} if _is_reverted(named) else {}),
        },
        say=lambda _: None,
    )
    return f"{text}{others}{_describe_revert(named)}"


def _is_reverted(named: NamedCommit) -> bool:
    return any(trial.kind == "revert" for trial in named.trials)


def _describe_revert(named: NamedCommit) -> str:
    results = [trial.result for trial in named.trials if trial.kind == "revert"]
    return f"; revert: {', '.join(results)}" if results else ""
