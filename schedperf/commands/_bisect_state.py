# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf bisect status|log|skip|mark|stop``: look at a search, and change it while it runs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._bisect_outputs import Outputs, result_options
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

if TYPE_CHECKING:
    from schedperf.inputs.git import Repository
    from schedperf.lab.bisect.judge import Range
    from schedperf.lab.bisect.store import Side, Store

_COMMIT = click.argument("name", metavar="COMMIT")
_SIDES = {"good": "before the first bad commit", "bad": "the first bad commit, or after it"}


def _takes_folder(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-o", "--output", metavar="DIR", required=True, type=click.Path(path_type=Path),
        help="Name the directory of the search.",
    )(function)  # fmt: skip


@click.command()
@_takes_folder
@result_options
def status(output: Path, **options: Any) -> None:
    """Print what a search has found, what it does now, and how much is left."""
    from schedperf.commands._bisect_text import format_state  # noqa: PLC0415 # --help stays fast
    from schedperf.lab.bisect.search import judge_progress  # noqa: PLC0415 # as above

    outputs = Outputs(options, output)
    with outputs.opened() as write:
        store, _, span = _open(output)
        progress = store.progress()
        document = judge_progress(span, progress)
        write(document)
    outputs.print(document)
    if outputs.printed is None:
        is_running = store.is_claimed()
        click.echo(format_state(document, progress, is_running=is_running), nl=False)


@click.command()
@_takes_folder
def log(output: Path) -> None:
    """Print a search as a log for `git bisect replay`."""
    from schedperf.lab.bisect.git_log import write_git_log  # noqa: PLC0415 # as above
    from schedperf.lab.bisect.search import judge_progress  # noqa: PLC0415

    store, _, span = _open(output)
    document = judge_progress(span, store.progress())
    click.echo(write_git_log(document), nl=False)


@click.command()
@_COMMIT
@_takes_folder
def skip(name: str, output: Path) -> None:
    """Leave a commit out, e.g. one that hangs; a running search does so from its next boots on."""
    from schedperf.lab.bisect.judge import find_inside  # noqa: PLC0415 # as above
    from schedperf.lab.bisect.store import Skipped  # noqa: PLC0415

    store, repository, span = _open(output)
    commit = find_inside(span, repository, name)
    store.append(Skipped(at=time.time(), commit=commit, reason="left out by the user"))


@click.command()
@_COMMIT
@click.argument("side", type=click.Choice(list(_SIDES)))
@_takes_folder
def mark(name: str, side: "Side", output: Path) -> None:
    """State that a commit is good or bad, from other knowledge.

    The commits that this excludes become a hundred times less probable, but not impossible.
    """
    from schedperf.lab.bisect.judge import find_inside  # noqa: PLC0415 # as above
    from schedperf.lab.bisect.search import excluded_by  # noqa: PLC0415
    from schedperf.lab.bisect.store import Marked  # noqa: PLC0415

    store, repository, span = _open(output)
    commit = find_inside(span, repository, name)
    if all(each.hash != commit for each in span.commits):
        raise InputError(
            f"{clean_line(name)}: not on the first-parent history of bad (expected a commit of the "
            "range itself, not of a branch that it merges); mark the merge"
        )
    marks = {**store.progress().marks, commit: side}
    if len(excluded_by(span, marks)) == len(span.commits):
        raise InputError(
            f"{clean_line(name)}: {_SIDES[side]}, contradicts an earlier mark (expected the good "
            "ones before the bad ones); mark that commit again"
        )
    store.append(Marked(at=time.time(), commit=commit, side=side))


@click.command()
@_takes_folder
def stop(output: Path) -> None:
    """End a running search after its current boots."""
    from schedperf.lab.bisect.store import Store  # noqa: PLC0415 # as above

    store = Store(output)
    store.request()
    if not store.is_claimed():
        raise InputError(f"{output}: no search is running there; nothing to stop")
    store.ask_to_stop()


def _open(output: Path) -> "tuple[Store, Repository, Range]":
    """Return a search, its repository, and its range.

    :raises InputError: the directory has no search, or the repository lacks its commits
    """
    from schedperf.inputs.git import Repository  # noqa: PLC0415 # as above
    from schedperf.lab.bisect.judge import read_range  # noqa: PLC0415
    from schedperf.lab.bisect.store import Store  # noqa: PLC0415

    store = Store(output)
    begun = store.request()
    repository = Repository(Path(begun.repository))
    span = read_range(repository, begun.good, begun.bad, begun.search)
    return store, repository, span
