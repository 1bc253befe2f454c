# SPDX-License-Identifier: GPL-2.0-or-later
"""Store a search in a directory, so that it can be continued after a kill, a crash or a power cut.

::

    search.json     what is searched, and how; written once
    events.jsonl    what has happened; each line is synced to disk before the next step
    boots.csv       the values of all boots, as `schedperf bisect next` reads them
    bundles/COMMIT.tar, builds/, work/    recordings, results of builds, and the check-out
    proof/, builds-aligned/               trials of the named commits, and what they build
"""

import fcntl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.json import encode

from schedperf.inputs.bundle.durable import append_lines, explain, write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import Count, decode
from schedperf.inputs.git import HASH_DIGITS
from schedperf.lab.bisect.judge import Options
from schedperf.lab.bisect.results import COLUMNS
from schedperf.model.errors import InputError
from schedperf.model.json_text import to_json

_SEARCH = "search.json"
_EVENTS = "events.jsonl"
BOOTS = "boots.csv"
_LOCK = "lock"
_MOST_BYTES = 64 << 20

Hash = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")]
Text = Annotated[str, Meta(max_length=4096)]
Seconds = Annotated[float, Meta(ge=0.0)]
Value = Annotated[float, Meta(gt=0.0)]
Place = Literal["here", "vm", "ssh"]
Side = Literal["good", "bad"]


class Request(Struct, frozen=True, kw_only=True):
    """What is searched, and how; a directory belongs to one request.

    :param repository: its absolute path
    :param place: where the command runs: on this machine, in guests, or on another machine
    :param target: that machine; "" for the others
    :param build: hash of the recipe
    :param recording: options of the recordings
    :param words: the command
    """

    schema: Literal["schedperf/bisect-search/1"] = "schedperf/bisect-search/1"
    repository: Text
    good: Hash
    bad: Hash
    search: Options
    place: Place
    target: Text
    result: Text | None
    build: Text
    recording: tuple[Text, ...]
    words: tuple[Text, ...]


# What the user gives for each field of a request.
OPTIONS = {
    "repository": "--repo",
    "good": "--good",
    "bad": "--bad",
    "search": "--paths, --boot-sd, --history or --boots",
    "place": "--in or --on",
    "target": "--on",
    "result": "--result",
    "build": "--build, --config or the compilers",
    "recording": "options of the recordings",
    "words": "the command",
}


class Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    """Something that has happened.

    :param at: when, in s since 1970
    """

    at: Seconds


class Building(Event, frozen=True, kw_only=True, tag="building"):
    """A build begins."""

    commit: Hash


class Built(Event, frozen=True, kw_only=True, tag="built"):
    """A commit was built.

    :param took_s: duration
    """

    commit: Hash
    took_s: Seconds


class Booting(Event, frozen=True, kw_only=True, tag="booting"):
    """Some boots of a commit begin."""

    commit: Hash
    boots: Count


class Booted(Event, frozen=True, kw_only=True, tag="booted"):
    """Boots of a commit have ended.

    :param values: result of each
    :param took_s: duration; None if it is not known, because schedperf was killed
    """

    commit: Hash
    values: tuple[Value, ...]
    took_s: Seconds | None


class Skipped(Event, frozen=True, kw_only=True, tag="skipped"):
    """A commit cannot be tested."""

    commit: Hash
    reason: Text


class Marked(Event, frozen=True, kw_only=True, tag="marked"):
    """The user states on which side of the first bad commit a commit is."""

    commit: Hash
    side: Side


class Chosen(Event, frozen=True, kw_only=True, tag="chosen"):
    """The result of the command that decides was found.

    :param emulated: whether the CPUs of its boot are emulated in software
    """

    workload: Text
    point: Text
    metric: Text
    emulated: bool


class Confirmed(Event, frozen=True, kw_only=True, tag="confirmed"):
    """The user agreed to the plan of the search."""


class Proving(Event, frozen=True, kw_only=True, tag="proving"):
    """A step of the trials of a named commit begins.

    :param doing: what is done
    """

    commit: Hash
    doing: Text


AnyEvent = Building | Built | Booting | Booted | Skipped | Marked | Chosen | Confirmed | Proving


class _Line(Struct, frozen=True, kw_only=True):
    happened: AnyEvent


class Store:
    """The directory of one search.

    :param folder: its path
    :param bundles: directory of the bundles; None for ``bundles`` in the folder
    :param names: names of bundles by the hash of the commit; others have the beginning of the hash
    """

    def __init__(
        self,
        folder: Path,
        bundles: Path | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.bundles = bundles or self.folder / "bundles"
        self._names = names or {}
        self.builds = self.folder / "builds"
        self.aligned_builds = self.folder / "builds-aligned"
        self.work = self.folder / "work"

    def is_begun(self) -> bool:
        """Return whether the directory has a search."""
        return (self.folder / _SEARCH).exists()

    def begin(self, request: Request) -> None:
        """Write what is searched; do nothing if the directory has the same search.

        :raises InputError: the directory cannot be written, or has another search
        """
        path = self.folder / _SEARCH
        try:
            for folder in (self.folder, self.bundles):
                folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                write_durably(path, to_json(request).encode())
        except OSError as error:
            raise InputError(
                f"{error.filename or self.folder}: {explain(error)}; choose another --output"
            ) from None
        found = self.request()
        other = [
            option
            for name, option in OPTIONS.items()
            if getattr(found, name) != getattr(request, name)
        ]
        if other:
            raise InputError(
                f"{self.folder}: contains another search (different: {', '.join(other)}); choose "
                "another --output, or repeat the command that began it"
            )

    def request(self) -> Request:
        """Return what is searched.

        :raises InputError: the directory has no search, or its file is damaged
        """
        path = self.folder / _SEARCH
        if not self.is_begun():
            raise InputError(
                f"{self.folder}: no search (expected the --output of `schedperf bisect run`); "
                "check the path"
            )
        return decode(read_regular(path, _MOST_BYTES, "a search"), Request, str(path))

    def events(self) -> list[AnyEvent]:
        """Return what has happened; an incomplete last line, of a power cut, is left out.

        :raises InputError: the file is damaged
        """
        path = self.folder / _EVENTS
        if not path.exists():
            return []
        lines = read_regular(path, _MOST_BYTES, "the events of a search").split(b"\n")[:-1]
        return [
            decode(line, _Line, f"{path}:{number}").happened for number, line in enumerate(lines, 1)
        ]

    def progress(self) -> "Progress":
        """Return what has happened, summed up.

        :raises InputError: the file is damaged
        """
        return read_progress(self.events())

    def append(self, event: AnyEvent) -> None:
        """Add an event, and sync it to disk.

        :raises InputError: it cannot be written
        """
        path = self.folder / _EVENTS
        try:
            append_lines(path, encode(_Line(happened=event)) + b"\n")
        except OSError as error:
            raise _unwritable(path, error) from None

    def write_boots(self, boots: Sequence[tuple[str, float]]) -> None:
        """Write the table of boots.

        :param boots: hash of the commit and value of each, in the order in which they were made
        :raises InputError: it cannot be written
        """
        made: Counter[str] = Counter()
        lines = [",".join(COLUMNS)]
        for commit, value in boots:
            made[commit] += 1
            lines.append(f"{commit},{made[commit]},{value!r}")
        path = self.folder / BOOTS
        try:
            write_durably(path, "".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise _unwritable(path, error) from None

    def bundle(self, commit: str) -> Path:
        """Return where the recordings of a commit are."""
        return self.bundles / f"{self._names.get(commit, commit[:HASH_DIGITS])}.tar"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the directory for the block; a killed search leaves no lock.

        :raises InputError: another process searches in the directory, or it is not writable
        """
        try:
            with (self.folder / _LOCK).open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._stop.unlink(missing_ok=True)
                yield
        except BlockingIOError:
            raise InputError(
                f"{self.folder}: another `schedperf bisect run` uses this directory; wait until it "
                "has ended, or stop it by `schedperf bisect stop`"
            ) from None
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    def is_claimed(self) -> bool:
        """Return whether a process searches in the directory."""
        try:
            with (self.folder / _LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def ask_to_stop(self) -> None:
        """Let the search end after its current boots.

        :raises InputError: the directory is not writable
        """
        try:
            self._stop.touch()
        except OSError as error:
            raise _unwritable(self._stop, error) from None

    def is_to_stop(self) -> bool:
        """Return whether the user has asked the search to end."""
        return self._stop.exists()

    @property
    def _stop(self) -> Path:
        return self.folder / "stop"


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: {explain(error)}; free space there, and repeat the command")


class Progress(Struct, frozen=True, kw_only=True):
    """What has happened in a search.

    :param boots: hash of the commit and value of each boot, in the order in which they were made
    :param untestable: reason by hash of the commit
    :param marks: side of the first bad commit by hash, as the user states it
    :param chosen: the result that decides; None before the first boot
    :param is_confirmed: whether the user agreed to the plan
    :param builds: number of builds
    :param build_s: mean duration of a build; None without any
    :param boot_s: mean duration of a boot, as part of its visit; None if none was timed
    :param last: the last event; None if nothing has happened
    """

    boots: Sequence[tuple[str, float]]
    untestable: Mapping[str, str]
    marks: Mapping[str, Side]
    chosen: Chosen | None
    is_confirmed: bool
    builds: int
    build_s: float | None
    boot_s: float | None
    last: AnyEvent | None

    def time_of(self, boots: float, builds: float) -> float | None:
        """Return how long boots and builds take, as those before, in s; None if none was timed."""
        if self.boot_s is None or (builds and self.build_s is None):
            return None
        return boots * self.boot_s + builds * (self.build_s or 0.0)


def read_progress(events: Sequence[AnyEvent]) -> Progress:
    """Return what has happened."""
    booted = [event for event in events if isinstance(event, Booted)]
    chosen = (event for event in events if isinstance(event, Chosen))
    build_s = [each.took_s for each in events if isinstance(each, Built)]
    timed = [event for event in booted if event.took_s is not None and event.values]
    return Progress(
        boots=[(event.commit, value) for event in booted for value in event.values],
        untestable={each.commit: each.reason for each in events if isinstance(each, Skipped)},
        marks={event.commit: event.side for event in events if isinstance(event, Marked)},
        chosen=next(chosen, None),
        is_confirmed=any(isinstance(event, Confirmed) for event in events),
        builds=len(build_s),
        build_s=fmean(build_s) if build_s else None,
        boot_s=fmean((each.took_s or 0.0) / len(each.values) for each in timed) if timed else None,
        last=events[-1] if events else None,
    )
