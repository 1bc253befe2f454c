# SPDX-License-Identifier: GPL-2.0-or-later
"""Add bundles, nights, trees and tables to a store; what it has already is skipped."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import Struct

from schedperf.history.store.apply import Content
from schedperf.history.store.contents import largest_file, read_content
from schedperf.history.store.decisions import Added, AnyDecision, NightEnded, Role
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.inputs import Found, Source
from schedperf.history.store.objects import Objects, hash_file
from schedperf.history.store.reading import Reading
from schedperf.history.store.writer import BATCH, known_files, writing
from schedperf.inputs.importers.open import import_results
from schedperf.inputs.many.lost import Lost
from schedperf.inputs.many.urls import local_file
from schedperf.inputs.many.workers import Workers, start_workers
from schedperf.model.base_new import BASE
from schedperf.model.errors import InputError
from schedperf_collectors.contract import temporary_prefix

# Clocks that were never set show 1970, or the date of the firmware.
_EARLIEST_YEAR = 2001
_AHEAD = timedelta(days=1)
# Copies that are written at the same time.
_COPIES = 4


class Options(Struct, frozen=True, kw_only=True):
    """How to add.

    :param keep: whether the store keeps a copy of each file
    :param night: night of all runs; None for the date of each recording
    :param references: sides or labels of the reference kernel; () for the base of each recording
    :param is_chain: whether the runs compare the reference kernel with its successor
    :param facts: facts of all inputs, which take precedence over those of the recordings; these
        take precedence over those of ``facts.toml``
    :param scheduler: address of the Dask scheduler whose workers read; None for processes of this
        machine
    """

    keep: bool = True
    night: str | None = None
    references: tuple[str, ...] = ()
    is_chain: bool = False
    facts: Mapping[str, str] = {}
    scheduler: str | None = None


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


class _Problem(Struct, frozen=True):
    text: str


def add(directory: Directory, found: Found, options: Options, say: Say) -> Counts:
    """Add what was found; one that cannot be read does not stop the others.

    :param say: called with one line for each input that cannot be read
    :raises InputError: the store cannot be written, the scheduler cannot be used, or a URL that is
        needed again has secrets
    """
    if not options.keep:
        _refuse_secrets(found.sources)
    adding = _Adding(directory, options, say)
    with start_workers(len(found.sources), options.scheduler) as pool:
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


class _Adding:
    """Adds to one store, and counts; ``roles`` are those of what was added."""

    def __init__(self, directory: Directory, options: Options, say: Say) -> None:
        self.counts = Counts()
        self.roles: set[Role | None] = set()
        self._directory = directory
        self._options = options
        self._say = say

    def prepare(self, sources: Sequence[Source], pool: Workers) -> Iterator[_Prepared]:
        """Yield the new inputs, read and copied, in their order; imported trees last."""
        if not pool.are_elsewhere:
            yield from self._prepare(sources, pool, self._directory.objects)
            return
        # Workers of other machines need not reach the store.
        files = [each for each in sources if each.format is None]
        yield from self._prepare(files, pool, None)
        trees = [each for each in sources if each.format is not None]
        yield from self._prepare(trees, Workers(None, 1), self._directory.objects)

    def _prepare(
        self, sources: Sequence[Source], pool: Workers, objects: Objects | None
    ) -> Iterator[_Prepared]:
        """Yield the new inputs that workers read.

        :param objects: where they copy files to; None if they do not reach it
        """
        prepare = partial(_prepare, objects=objects if self._options.keep else None)
        for (source, _), prepared in pool.map(prepare, self._unknown(sources, pool)):
            if isinstance(prepared, Lost):
                self._fail(f"{source.name}: {prepared.problem}")
            elif isinstance(prepared, _Problem):
                self._fail(prepared.text)
            else:
                yield prepared

    def commit(self, batch: Sequence[_Prepared]) -> None:
        """Add inputs, except those whose data are in the store."""
        batch = [*self._copied(batch)]
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

    def _copied(self, batch: Sequence[_Prepared]) -> Iterator[_Prepared]:
        """Yield inputs, whose files are copied first if the store lacks them."""
        if not self._options.keep:
            yield from batch
            return
        copy = partial(_copy, objects=self._directory.objects)
        with ThreadPoolExecutor(_COPIES) as threads:
            for each, problem in zip(batch, threads.map(copy, batch), strict=True):
                if problem is None:
                    yield each
                else:
                    self._fail(problem)

    def _unknown(self, sources: Sequence[Source], pool: Workers) -> Iterator[tuple[Source, str]]:
        """Yield the files that are not in the store, with their SHA-256."""
        known = known_files(self._directory)
        for source, sha256 in pool.map(_hash, sources):
            if isinstance(sha256, Lost):
                self._fail(f"{source.name}: {sha256.problem}")
            elif isinstance(sha256, _Problem):
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


def _refuse_secrets(sources: Sequence[Source]) -> None:
    """Refuse files without a copy whose URLs cannot be stored.

    :raises InputError: there is one
    """
    for each in sources:
        if each.url is not None and each.url != each.name:
            raise InputError(
                f"{each.name}: --no-keep needs the URL again, but a password, a query or a "
                "fragment is not stored; leave out --no-keep"
            )


def _hash(source: Source) -> str | _Problem:
    """Return the SHA-256 of a file; the name of a tree or a URL, whose file is not there yet."""
    if source.format is not None or source.url is not None:
        return source.name
    try:
        return hash_file(Path(source.name))
    except InputError as error:
        return _Problem(str(error))


def _prepare(task: tuple[Source, str], *, objects: Objects | None) -> _Prepared | _Problem:
    source, sha256 = task
    try:
        if source.format is not None:
            with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
                return _prepare_tree(source, Path(folder) / "tree.tar", objects)
        with local_file(source.url or source.name, largest_file(source.kind)) as path:
            if source.url is not None:
                sha256 = hash_file(path)
            return _prepare_file(source, path, sha256, objects)
    except InputError as error:
        return _Problem(str(error))


def _prepare_tree(source: Source, bundle: Path, objects: Objects | None) -> _Prepared:
    kind, _, path = source.name.partition(":")
    import_results(kind, Path(path), bundle, better={})
    return _prepare_file(source, bundle, hash_file(bundle), objects)


def _prepare_file(source: Source, path: Path, sha256: str, objects: Objects | None) -> _Prepared:
    # The copy has the hash that the file had before it was read.
    content = read_content(path, source.kind, Path(source.name).stem)
    if objects is not None:
        objects.keep(path, sha256, source.kind)
    return _Prepared(source=source, sha256=sha256, bytes=path.stat().st_size, content=content)


def _copy(prepared: _Prepared, *, objects: Objects) -> str | None:
    """Copy a file, unless the store has it; return the problem if that fails."""
    source = prepared.source
    if objects.path(prepared.sha256, source.kind).exists():
        return None
    try:
        with local_file(source.url or source.name, largest_file(source.kind)) as path:
            objects.keep(path, prepared.sha256, source.kind)
    except InputError as error:
        return str(error)
    return None


def _decide(directory: Directory, prepared: _Prepared, options: Options) -> Added:
    """Return the decision that adds an input.

    :raises InputError: the night of its runs is unknown
    """
    source, content = prepared.source, prepared.content
    night, role, facts, purpose = None, None, {}, source.purpose
    if isinstance(content, Reading):
        night = options.night or source.night or _night_of(source.name, content)
        role = source.role or _role_of(content, options)
        facts = {**directory.facts_of(content.machine_class, content.machine), **content.facts}
        purpose = "retest" if content.is_retest else "chain" if options.is_chain else purpose
    return Added(
        kind=source.kind,
        digest=content.digest,
        sha256=prepared.sha256,
        bytes=prepared.bytes,
        format=source.format,
        path=source.name,
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


def _night_of(name: str, reading: Reading) -> str:
    """Return the date on which a recording began, UTC.

    :raises InputError: it is unknown, or the clock was not set
    """
    if reading.created is None:
        raise InputError(f"{name}: no start time; pass --night DATE, e.g. --night 2026-11-30")
    try:
        created = datetime.fromisoformat(reading.created)
    except ValueError:
        raise InputError(f"{name}: invalid start time; pass --night DATE") from None
    if created.tzinfo is None:
        created = created.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    if created.year < _EARLIEST_YEAR or created > now + _AHEAD:
        raise InputError(
            f"{name}: recorded on {created:%Y-%m-%d} by its clock (expected a date from "
            f"{_EARLIEST_YEAR} to today, {now:%Y-%m-%d}); pass --night DATE"
        )
    return f"{created.astimezone(UTC):%Y-%m-%d}"
