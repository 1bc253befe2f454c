# SPDX-License-Identifier: GPL-2.0-or-later
"""Add bundles, nights, trees and tables to a store; what it has already is skipped."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct

from schedperf.history.store.apply import Content
from schedperf.history.store.contents import Workers, read_content, workers
from schedperf.history.store.decisions import Added, AnyDecision, NightEnded, Role
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.inputs import Found, Source
from schedperf.history.store.objects import Objects, hash_file
from schedperf.history.store.reading import Reading
from schedperf.history.store.writer import BATCH, known_files, writing
from schedperf.inputs.importers.open import import_results
from schedperf.model.base_new import BASE
from schedperf.model.errors import InputError
from schedperf_collectors.contract import temporary_prefix

# Clocks that were never set show 1970, or the date of the firmware.
_EARLIEST_YEAR = 2001
_AHEAD = timedelta(days=1)


class Options(Struct, frozen=True, kw_only=True):
    """How to add.

    :param keep: whether the store keeps a copy of each file
    :param night: night of all runs; None for the date of each recording
    :param references: sides or labels of the reference kernel; () for the base of each recording
    :param is_chain: whether the runs compare the reference kernel with its successor
    :param facts: facts of all inputs, which take precedence over those of the recordings; these
        take precedence over those of ``facts.toml``
    """

    keep: bool = True
    night: str | None = None
    references: tuple[str, ...] = ()
    is_chain: bool = False
    facts: Mapping[str, str] = {}


class Counts(Struct, kw_only=True):
    """What was done.

    :param known: inputs that the store had already
    :param failed: inputs that could not be read
    """

    added: int = 0
    known: int = 0
    failed: int = 0
    nights: int = 0


class _Prepared(Struct, frozen=True, kw_only=True):
    """A file that was read, and copied if the store keeps it."""

    source: Source
    sha256: str
    bytes: int
    content: Content


def add(directory: Directory, found: Found, options: Options, say: Say) -> Counts:
    """Add what was found; one that cannot be read does not stop the others.

    :param say: called with one line for each input that cannot be read
    :raises InputError: the store cannot be written
    """
    adding = _Adding(directory, options, say)
    with workers(len(found.sources)) as pool:
        batch: list[_Prepared] = []
        for prepared in adding.prepare(found.sources, pool):
            batch.append(prepared)
            if len(batch) == BATCH:
                adding.commit(batch)
                batch = []
        adding.commit(batch)
    adding.add_nights(found.nights)
    if options.is_chain and len(adding.roles) == 1:
        [role] = adding.roles
        say(
            f"--chain: all bundles are of the {role} kernel (expected the reference kernel and the "
            "next one); if the other one is not added yet, add it, too, or pass --reference NAME"
        )
    return adding.counts


class _Problem(Struct, frozen=True):
    text: str


class _Adding:
    """Adds to one store, and counts; ``roles`` are those of what was added."""

    def __init__(self, directory: Directory, options: Options, say: Say) -> None:
        self.counts = Counts()
        self.roles: set[Role | None] = set()
        self._directory = directory
        self._options = options
        self._say = say

    def prepare(self, sources: Sequence[Source], pool: Workers) -> Iterator[_Prepared]:
        """Yield the new inputs, read and copied, in their order."""
        prepare = partial(_prepare, objects=self._directory.objects, keep=self._options.keep)
        for _, prepared in pool.map(prepare, self._unknown(sources, pool)):
            if isinstance(prepared, _Problem):
                self._fail(prepared.text)
            else:
                yield prepared

    def commit(self, batch: Sequence[_Prepared]) -> None:
        """Add inputs, except those whose data are in the store."""
        if not batch:
            return
        with writing(self._directory, self._say) as writer:
            known = writer.known([each.content.digest for each in batch])
            decisions: list[tuple[AnyDecision, Content | None]] = []
            for each in batch:
                if each.content.digest in known:
                    self.counts.known += 1
                    self._discard(each)
                elif decision := self._decide(each):
                    known.add(each.content.digest)
                    self.roles.add(decision.role)
                    decisions.append((decision, each.content))
            writer.commit(decisions)
            self.counts.added += len(decisions)

    def add_nights(self, nights: Sequence[NightEnded]) -> None:
        """Add the outcomes of nights that the store lacks."""
        if not nights:
            return
        with writing(self._directory, self._say) as writer:
            decided = [each.line.decided for each in self._directory.log.read()]
            new = [each for each in nights if each not in decided]
            writer.commit([(each, None) for each in new])
            self.counts.nights += len(new)

    def _unknown(self, sources: Sequence[Source], pool: Workers) -> Iterator[tuple[Source, str]]:
        """Yield the files that are not in the store, with their SHA-256."""
        known = known_files(self._directory)
        for source, sha256 in pool.map(_hash, sources):
            if isinstance(sha256, _Problem):
                self._fail(sha256.text)
            elif sha256 in known:
                self.counts.known += 1
            else:
                known.add(sha256)
                yield source, sha256

    def _decide(self, prepared: _Prepared) -> Added | None:
        try:
            return _decide(self._directory, prepared, self._options)
        except InputError as error:
            self._fail(str(error))
            self._discard(prepared)
            return None

    def _fail(self, problem: str) -> None:
        self.counts.failed += 1
        self._say(problem)

    def _discard(self, prepared: _Prepared) -> None:
        """Remove the copy of a file that is not added, unless another input is the same file."""
        if prepared.sha256 not in known_files(self._directory):
            path = self._directory.objects.path(prepared.sha256, prepared.source.kind)
            path.unlink(missing_ok=True)


def _hash(source: Source) -> str | _Problem:
    """Return the SHA-256 of a file; "" followed by the path of a tree, whose bundle is not made."""
    if source.format is not None:
        return str(source.path)
    try:
        return hash_file(source.path)
    except InputError as error:
        return _Problem(str(error))


def _prepare(task: tuple[Source, str], *, objects: Objects, keep: bool) -> _Prepared | _Problem:
    source, sha256 = task
    try:
        if source.format is not None:
            with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
                return _prepare_tree(source, Path(folder) / "tree.tar", objects, keep=keep)
        return _prepare_file(source, source.path, sha256, objects, keep=keep)
    except InputError as error:
        return _Problem(str(error))


def _prepare_tree(source: Source, bundle: Path, objects: Objects, *, keep: bool) -> _Prepared:
    kind, _, path = str(source.path).partition(":")
    import_results(kind, Path(path), bundle, better={})
    return _prepare_file(source, bundle, hash_file(bundle), objects, keep=keep)


def _prepare_file(
    source: Source, path: Path, sha256: str, objects: Objects, *, keep: bool
) -> _Prepared:
    # The copy has the hash that the file had before it was read.
    content = read_content(path, source.kind, source.path.stem)
    if keep:
        objects.keep(path, sha256, source.kind)
    return _Prepared(source=source, sha256=sha256, bytes=path.stat().st_size, content=content)


def _decide(directory: Directory, prepared: _Prepared, options: Options) -> Added:
    """Return the decision that adds an input.

    :raises InputError: the night of its runs is unknown
    """
    source, content = prepared.source, prepared.content
    night, role, facts, purpose = None, None, {}, source.purpose
    if isinstance(content, Reading):
        night = options.night or source.night or _night_of(source.path, content)
        role = source.role or _role_of(content, options)
        facts = {**directory.facts_of(content.machine_class, content.machine), **content.facts}
        purpose = "retest" if content.is_retest else "chain" if options.is_chain else purpose
    return Added(
        kind=source.kind,
        digest=content.digest,
        sha256=prepared.sha256,
        bytes=prepared.bytes,
        format=source.format,
        path=str(source.path),
        kept=options.keep,
        night=night,
        role=role,
        purpose=purpose,
        facts={**facts, **options.facts},
    )


def _role_of(reading: Reading, options: Options) -> Role:
    if not options.references:
        return "reference" if reading.side == BASE else "new"
    return "reference" if {reading.side, reading.label} & {*options.references} else "new"


def _night_of(path: Path, reading: Reading) -> str:
    """Return the date on which a recording began, UTC.

    :raises InputError: it is unknown, or the clock was not set
    """
    if reading.created is None:
        raise InputError(f"{path}: no start time; pass --night DATE, e.g. --night 2026-11-30")
    try:
        created = datetime.fromisoformat(reading.created)
    except ValueError:
        raise InputError(f"{path}: invalid start time; pass --night DATE") from None
    if created.tzinfo is None:
        created = created.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    if created.year < _EARLIEST_YEAR or created > now + _AHEAD:
        raise InputError(
            f"{path}: recorded on {created:%Y-%m-%d} by its clock (expected a date from "
            f"{_EARLIEST_YEAR} to today, {now:%Y-%m-%d}); pass --night DATE"
        )
    return f"{created.astimezone(UTC):%Y-%m-%d}"
