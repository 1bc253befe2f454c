# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the record of a step of a store, or update it: ``schedperf culprit new --step``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from schedperf.commands.culprit import Files, read_roles, repository_of, save
from schedperf.compare.json import MOST_BYTES
from schedperf.history.decide import advance_steps
from schedperf.history.questions.history import open_history
from schedperf.history.store.decisions import PROGRAM
from schedperf.history.store.directory import open_directory
from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import parse_json
from schedperf.inputs.git import Repository
from schedperf.lab.bisect.culprit_record import convert_to_record
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.json import convert_bisection
from schedperf.model.errors import InputError
from schedperf.publish.culprit.build import Part, part_of
from schedperf.publish.culprit.commits import Ends, commit_of, read_ends
from schedperf.publish.culprit.figures import ID_DIGITS, Evidence
from schedperf.publish.culprit.files import find_comparisons, load_culprit
from schedperf.publish.culprit.of_step import Named, StepRequest, culprit_of_step, shows
from schedperf.publish.culprit.record import COMMIT_DIGITS, Culprit
from schedperf.publish.culprit.steps import read_steps

_MOST_BYTES = 8 << 20


def write_step(
    path: Path, files: Sequence[str], store: Path, step: str, options: Mapping[str, Any]
) -> None:
    """Write the record of a step, or update it; the state of its steps follows in the store.

    Comparisons are copied to the directory of the record, where mails and pages find them.

    :param path: of the record; the caller has locked its directory
    :param files: comparisons of nights, and of the first bad commit
    :param options: the roles, by the names of the options
    :raises InputError: a file or the store cannot be read, or a comparison does not belong to it
    """
    known, loaded = _read_known(path)
    repository = repository_of(options)
    parts = [loaded.part(file, file, part_of) for file in files]
    document = _read_document(options["bisection"])
    directory = open_directory(store)
    with open_history(directory.folder) as history:
        steps = read_steps(history, step, known.steps if known else ())
    is_private = options["private"]
    kept = {**options, "bisection": None, "private": is_private and options["tree"] is not None}
    roles = read_roles(kept, loaded, repository, None)
    named = None if document is None else _choose(document, parts, str(options["bisection"]))
    if named is not None and not any(shows(part, named) for part in parts):
        click.echo(
            f"--bisect: no comparison of {named.commit[:COMMIT_DIGITS]} with its parent "
            f"{named.parent[:COMMIT_DIGITS]}, so the record stays about the range; give it, too",
            err=True,
        )
        named = None
    if document is not None and named is not None:
        where = f"--bisect {options['bisection']}"
        roles = replace(roles, bisection=convert_to_record(document, named.commit, where))
    culprit = culprit_of_step(
        StepRequest(
            steps=steps,
            parts=parts,
            roles=roles,
            named=named if known is None or known.is_range else None,
            known=known,
            known_main=_known_main(path, known, loaded),
            is_private=is_private,
            ends_of=lambda part: _ends_of(part, repository),
        )
    )
    if repository is not None and options["tree"] is not None:
        tree = repository.resolve(options["tree"])
        culprit = replace(culprit, merged=repository.is_ancestor(culprit.bad.commit, tree))
    _copy(path.parent, loaded)
    save(path, culprit, loaded)
    _advance(store, culprit)


def _read_known(path: Path) -> tuple[Culprit | None, Files]:
    if not path.exists():
        return None, Files({})
    known = load_culprit(path)
    if not known.steps:
        raise InputError(
            f"{path}: a record without a step (expected one that --step has written); add to it by "
            "`schedperf culprit add`, or write another file"
        )
    return known, Files(find_comparisons(path.parent, known.comparisons))


def _known_main(path: Path, known: Culprit | None, loaded: Files) -> Part | None:
    if known is None:
        return None
    evidence = Evidence(culprit=known, comparisons=loaded.comparisons)
    return Part(name=f"{path}: main", comparison=evidence.main, measured=known.main)


def _read_document(path: Path | None) -> BisectDocument | None:
    if path is None:
        return None
    where = f"--bisect {path}"
    content = read_regular(path, _MOST_BYTES, "the JSON of schedperf bisect")
    return convert_bisection(parse_json(content, where), where)


def _choose(document: BisectDocument, parts: Sequence[Part], where: str) -> Named:
    """Return the commit of a search that a comparison shows, else the first one that it names.

    :raises InputError: the search is not over, or names no commit
    """
    commits = {(_commit(part, "base"), _commit(part, "new")) for part in parts}
    named = [
        Named(parent=each.parent.hash, commit=each.commits[-1].hash) for each in document.named
    ]
    fitting = [each for each in named if (each.parent, each.commit) in commits]
    if not named:
        # It raises, because no commit is named.
        convert_to_record(document, "", f"--bisect {where}")
    return (fitting or named)[0]


def _commit(part: Part, side: str) -> str | None:
    source = (part.base if side == "base" else part.new).source
    return source.commit if source else None


def _ends_of(part: Part, repository: Repository | None) -> Ends:
    """Return the commits of a comparison, from the repository or as the bundles record them.

    :raises InputError: a bundle does not record its commit
    """
    good, bad = _commit(part, "base"), _commit(part, "new")
    if good is None or bad is None:
        side = "base" if good is None else "new"
        raise InputError(
            f"{part.name}: {side} does not record its commit (expected --source); record with "
            "--source, or set kernel.sources of the night"
        )
    if repository is not None:
        return read_ends(repository, good, bad)
    return Ends(
        good=commit_of(part.base.source, good, f"{part.name}: base"),
        bad=commit_of(part.new.source, bad, f"{part.name}: new"),
        is_range=True,
    )


def _copy(folder: Path, loaded: Files) -> None:
    """Copy comparisons to the directory of the record, named by their ids."""
    for source, comparison in loaded.sources.items():
        target = folder / f"{comparison[:ID_DIGITS]}.json"
        if not folder.samefile(source.parent) and not target.exists():
            write_durably(target, read_regular(source, MOST_BYTES, "a comparison"))
    loaded.paths.clear()


def _advance(store: Path, culprit: Culprit) -> None:
    """Give the steps of a record the state that it shows."""
    commits = f"{culprit.range_name} ({culprit.good.commit[:COMMIT_DIGITS]}..{culprit.id})"
    advance_steps(
        open_directory(store),
        [each.step for each in culprit.steps],
        "range known" if culprit.is_range else "first bad known",
        reason=commits if culprit.is_range else f"first bad commit {culprit.id}",
        by=PROGRAM,
        say=lambda line: click.echo(line, err=True),
    )
