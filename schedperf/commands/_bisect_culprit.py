# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep a record about each named commit of a search, as ``schedperf culprit new`` writes it."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import click

from schedperf.commands._outputs import dump_json
from schedperf.commands.compare import command as compare
from schedperf.commands.culprit import new as culprit_new
from schedperf.inputs.bundle.durable import write_durably
from schedperf.lab.bisect.document import BisectDocument, NamedCommit
from schedperf.lab.bisect.store import Store
from schedperf.model.errors import SchedperfError


def keep_culprits(document: BisectDocument, store: Store, repository: Path) -> None:
    """Write ``culprits/COMMIT/culprit.json``, and the comparison and the search that it refers to.

    A commit that makes nothing worse, or whose boots alone do not show it, has no record; the
    reason is printed. A record that exists is kept.

    :param document: a search that is over
    """
    for named in document.named:
        folder = store.folder / "culprits" / store.bundle(named.commits[-1].hash).stem
        path = folder / "culprit.json"
        if path.exists():
            continue
        try:
            _keep(document, named, store, repository, path)
        except SchedperfError as error:
            click.echo(f"schedperf: no record of {folder.name}: {error}", err=True)
        else:
            click.echo(f"schedperf: record: {path}", err=True)


def _keep(
    document: BisectDocument, named: NamedCommit, store: Store, repository: Path, path: Path
) -> None:
    """Compare a named commit with its parent, and write the record.

    :raises SchedperfError: a file cannot be read or written, or the comparison does not show a
        regression
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    search, compared = path.parent / "bisect.json", path.parent / "compare.json"
    write_durably(search, dump_json(document).encode())
    ends = named.parent.hash, named.commits[-1].hash
    _call(compare, ["--json", str(compared), *map(str, map(store.bundle, ends))])
    good, bad = ends
    _call(
        culprit_new,
        [
            *("--repo", str(repository), "--good", good, "--bad", bad),
            *("--bisection", str(search), str(path), str(compared)),
        ],
    )


def _call(command: click.Command, arguments: Sequence[str]) -> None:
    """Call a command of schedperf, and discard what it prints."""
    context = command.make_context(f"schedperf {command.name}", list(arguments))
    with context, redirect_stdout(io.StringIO()):
        command.invoke(context)
