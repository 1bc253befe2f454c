# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep a record about each named commit of a search, as ``schedperf culprit new`` writes it."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import click

from schedperf.commands._outputs import dump_json
from schedperf.commands.compare import command as compare
from schedperf.commands.culprit import add as culprit_add
from schedperf.commands.culprit import new as culprit_new
from schedperf.inputs.bundle.durable import write_durably
from schedperf.lab.bisect.document import BisectDocument, NamedCommit, Trial
from schedperf.lab.bisect.prove import proof_folder, switched
from schedperf.lab.bisect.store import Store
from schedperf.model.errors import SchedperfError


def keep_culprits(document: BisectDocument, store: Store, repository: Path) -> None:
    """Write ``culprits/COMMIT/culprit.json``, and the comparison and the search that it refers to.

    A commit that makes nothing worse, or whose boots alone do not show it, has no record; the
    reason is printed. A record that exists is kept, and gets what trials have shown.

    :param document: a search that is over
    """
    for named in document.named:
        folder = store.folder / "culprits" / store.bundle(named.commits[-1].hash).stem
        path = folder / "culprit.json"
        try:
            if not path.exists():
                _keep(document, named, store, repository, path)
        except SchedperfError as error:
            click.echo(f"schedperf: no record of {folder.name}: {error}", err=True)
            continue
        for trial in named.trials:
            try:
                _add(trial, proof_folder(store, named), path)
            except SchedperfError as error:
                click.echo(f"schedperf: {path}: {trial.kind} not added: {error}", err=True)
        click.echo(f"schedperf: record: {path}", err=True)


def _keep(
    document: BisectDocument, named: NamedCommit, store: Store, repository: Path, path: Path
) -> None:
    """Compare a named commit with its parent, and write the record.

    :raises SchedperfError: a file cannot be read or written, or the comparison does not show a
        regression
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    search = path.parent / "bisect.json"
    write_durably(search, dump_json(document).encode())
    good, bad = named.parent.hash, named.commits[-1].hash
    compared = _compare(path, "compare", store.bundle(good), store.bundle(bad))
    _call(
        culprit_new,
        [
            *("--repo", str(repository), "--good", good, "--bad", bad),
            *("--bisection", str(search), str(path), compared),
        ],
    )


def _add(trial: Trial, folder: Path, path: Path) -> None:
    """Add the comparisons of a trial to a record, in their roles.

    :param folder: of the trials of the commit
    :param path: of the record
    :raises SchedperfError: a file cannot be read or written, or a role refuses its comparison
    """
    words: Sequence[str] = ()
    if trial.kind == "revert" and trial.reason is not None:
        words = ("--revert-impossible", trial.reason)
    elif trial.change is None:
        pass
    elif trial.kind == "revert":
        parent, newest, reverted = (
            folder / "revert" / f"{name}.tar" for name in ("parent", "newest", "reverted")
        )
        tip, revert = (
            _compare(path, "tip", parent, newest),
            _compare(path, "revert", parent, reverted),
        )
        words = ("--tip", tip, "--revert", revert)
    elif trial.feature is not None:
        off, on = switched(folder / "feature" / "commit.tar", trial.feature)
        words = ("--feature", f"{trial.feature}={_compare(path, 'feature', on, off)}")
    else:
        parent, commit = (folder / "alignment" / f"{name}.tar" for name in ("parent", "commit"))
        words = ("--forced-alignment", _compare(path, "alignment", parent, commit))
    if words:
        _call(culprit_add, [*words, str(path)])


def _compare(path: Path, name: str, base: Path, new: Path) -> str:
    """Compare two bundles; return the path of the comparison, which is beside the record."""
    written = str(path.parent / f"{name}.json")
    _call(compare, ["--json", written, str(base), str(new)])
    return written


def _call(command: click.Command, arguments: Sequence[str]) -> None:
    """Call a command of schedperf, and discard what it prints."""
    context = command.make_context(f"schedperf {command.name}", list(arguments))
    with context, redirect_stdout(io.StringIO()):
        command.invoke(context)
