# SPDX-License-Identifier: GPL-2.0-or-later
"""Search a range: build and boot the commit that the boots so far ask for, until they ask for none.

Everything is decided from the stored events, so a search that was killed continues as if it had
not been.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from schedperf.inputs.git import Commit
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.judge import Range, judge
from schedperf.lab.bisect.store import (
    AnyEvent,
    Booted,
    Booting,
    Building,
    Built,
    Confirmed,
    Progress,
    Side,
    Skipped,
    Store,
)
from schedperf.lab.bisect.values import choose_result, read_values
from schedperf.lab.build import BuildFailed
from schedperf.lab.failed import Failed
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

_LONGEST_REASON = 300


class Untestable(Failed):
    """A commit cannot be booted or run."""


class Machine(Protocol):
    """Records the command with what commits build."""

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Record the command in some boots, and add them to a bundle, which is new at first.

        :param built: directory of what the commit built
        :raises Untestable: the commit does not boot
        :raises InputError: nothing can be recorded here
        """
        ...

    def recover(self, bundle: Path) -> None:
        """Complete a bundle whose recording was killed.

        :raises InputError: it cannot be read or written
        """
        ...


class Builds(Protocol):
    """Builds commits."""

    def existing(self, commit: str) -> Path | None:
        """Return the directory of what a commit, given its hash, built before; or None."""
        ...

    def build(self, commit: str) -> Path:
        """Return the directory of what a commit, given its hash, builds.

        :raises BuildFailed: it does not build
        :raises InputError: nothing can be built here
        """
        ...


class Watcher(Protocol):
    """Is told what happens, and asked whether to go on."""

    def tell(self, event: AnyEvent) -> None:
        """Take an event, after it was stored."""
        ...

    def show(self, document: BisectDocument, progress: Progress) -> None:
        """Take what the boots show so far."""
        ...

    def confirm(self, document: BisectDocument, progress: Progress) -> bool:
        """Return whether to search, now that the ends differ."""
        ...


class Search:
    """A search in the directory of a store."""

    def __init__(
        self,
        store: Store,
        span: Range,
        builds: Builds,
        machine: Machine,
        watcher: Watcher,
    ) -> None:
        self._store = store
        self._span = span
        self._builds = builds
        self._machine = machine
        self._watcher = watcher
        self._request = store.request()

    def run(self, check: Callable[[], None] = lambda: None) -> BisectDocument:
        """Search until nothing is left to boot, or the user stops it; return what is known then.

        :param check: is called before each visit, and raises an exception to end the search
        :raises InputError: an end of the range cannot be tested, or nothing can be recorded
        """
        self._take_unfinished()
        while True:
            check()
            progress = self._store.progress()
            document = judge_progress(self._span, progress)
            if document.next is None or self._store.is_to_stop():
                return document
            self._watcher.show(document, progress)
            if document.next.phase != "ends" and not progress.is_confirmed:
                if not self._watcher.confirm(document, progress):
                    return document
                self._append(Confirmed(at=time.time()))
            self._visit(document.next.commit, document.next.boots)

    def _visit(self, commit: Commit, boots: int) -> None:
        try:
            built = self._build(commit)
            self._append(Booting(at=time.time(), commit=commit.hash, boots=boots))
            self._boot(commit, built, boots)
        except BuildFailed as error:
            self._skip(commit, f"does not build: {error.reason}")
        except Untestable as error:
            self._skip(commit, error.reason)

    def _build(self, commit: Commit) -> Path:
        existing = self._builds.existing(commit.hash)
        if existing is not None:
            return existing
        self._append(Building(at=time.time(), commit=commit.hash))
        began_s = time.monotonic()
        built = self._builds.build(commit.hash)
        took_s = time.monotonic() - began_s
        self._append(Built(at=time.time(), commit=commit.hash, took_s=took_s))
        return built

    def _boot(self, commit: Commit, built: Path, boots: int) -> None:
        began_s = time.monotonic()
        bundle = self._store.bundle(commit.hash)
        try:
            self._machine.boot(commit, built, boots, bundle)
        finally:
            is_taken = self._take(commit.hash, began_s)
        if not is_taken:
            raise Untestable(f"no run was successful; see {bundle}")

    def _skip(self, commit: Commit, reason: str) -> None:
        for end, name in ((self._span.commits[0], "good"), (self._span.commits[-1], "bad")):
            if commit.hash == end.hash:
                raise InputError(f"--{name} {commit.short}: {reason}; name another end")
        reason = cut(clean_line(reason), _LONGEST_REASON)
        self._append(Skipped(at=time.time(), commit=commit.hash, reason=reason))

    def _take_unfinished(self) -> None:
        """Take the boots that were recorded, but not stored, when the last search was killed."""
        visits = [each for each in self._store.events() if isinstance(each, Booting | Booted)]
        if visits and isinstance(visits[-1], Booting):
            commit = visits[-1].commit
            self._machine.recover(self._store.bundle(commit))
            self._take(commit, None)

    def _take(self, commit: str, began_s: float | None) -> bool:
        """Store the boots that the bundle of a commit has in addition; return whether it has any.

        :param began_s: when they began, on the monotonic clock; None if unknown
        """
        took_s = None if began_s is None else time.monotonic() - began_s
        progress = self._store.progress()
        bundle = self._store.bundle(commit)
        if not bundle.exists():
            return False
        chosen = progress.chosen
        if chosen is None:
            chosen = choose_result(bundle, self._request.result, time.time())
            if chosen is None:
                return False
            self._append(chosen)
        known = sum(each == commit for each, _ in progress.boots)
        values = tuple(read_values(bundle, chosen, self._request.place)[known:])
        self._append(Booted(at=time.time(), commit=commit, values=values, took_s=took_s))
        made = [*progress.boots, *((commit, value) for value in values)]
        self._store.write_boots(made)
        return bool(values)

    def _append(self, event: AnyEvent) -> None:
        self._store.append(event)
        self._watcher.tell(event)


def judge_progress(span: Range, progress: Progress) -> BisectDocument:
    """Return what the boots of a search show."""
    marked = replace(span, unlikely=excluded_by(span, progress.marks))
    untestable = progress.untestable
    document = judge(marked, progress.boots, untestable, reasons=untestable)
    emulated = None if progress.chosen is None else progress.chosen.emulated
    return replace(document, emulated=emulated)


def excluded_by(span: Range, marks: Mapping[str, Side]) -> frozenset[str]:
    """Return the hashes of the commits that are not the first bad one if the marks are right.

    After a commit that is good, and up to one that is bad, lies the first bad commit.
    """
    places = {commit.hash: place for place, commit in enumerate(span.commits)}
    known = [(places[commit], side) for commit, side in marks.items() if commit in places]
    first = max((place for place, side in known if side == "good"), default=0)
    last = min((place for place, side in known if side == "bad"), default=len(places) - 1)
    return frozenset(commit for commit, place in places.items() if not first < place <= last)
