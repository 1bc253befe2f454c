"""Chooses collectors and lets them capture into folders of a staging place.

The staging place is on a local file system: perf loses build ids when it
writes onto a network file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.plugin import AfterRun, Capture, Collector, all_collectors
from schedperf_collectors.recorder.isolate import FAILED, OK, Isolated, Result
from schedperf_collectors.workload import run_workload

# Two bundles cannot be compared without it, so it is captured whatever is chosen.
HOST = "host"

# A busy shell, then sleep: both on-CPU samples and context switches exist for a trial.
TRIAL_COMMAND = "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1'"

Options = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Captured:
    """What one collector brought.

    :param files: path below the collector's place, and where it lies now; empty unless ok
    """

    collector: Collector
    result: Result
    files: tuple[tuple[str, Path], ...]


@dataclass(frozen=True)
class Chosen:
    """The collectors of a recording, each list sorted by name."""

    boot: tuple[Collector, ...]
    clean: tuple[Collector, ...]
    intrusive: tuple[Collector, ...]
    after: tuple[Collector, ...]

    @property
    def run(self) -> tuple[Collector, ...]:
        """Return those that capture around each instrumented run."""
        return self.clean + self.intrusive

    def without(self, names: set[str]) -> Chosen:
        """Return the choice less some collectors, of those that work in each run."""
        return replace(
            self,
            clean=tuple(one for one in self.clean if one.name not in names),
            intrusive=tuple(one for one in self.intrusive if one.name not in names),
            after=tuple(one for one in self.after if one.name not in names),
        )


def choose(names: Sequence[str]) -> Chosen:
    """Choose collectors as ``--with`` says.

    "default" are those that are used by default, "none" is nothing but host.
    Any other name adds that collector to those that need no choice: they capture once
    a boot, or read what others captured.
    """
    known = {name: one for name, one in all_collectors().items() if one.scope != "workload"}
    for name in names:
        if name not in known and name not in {"default", "none"}:
            raise RecordError(
                f"--with: there is no collector {name!r}; choose from default, none, "
                + ", ".join(known)
            )
    if "none" in names and len(names) > 1:
        raise RecordError("--with: none goes with no other name; leave it out")

    def wanted(one: Collector) -> bool:
        by_default = one.default and ("default" in names or one.scope != "run")
        return one.name == HOST or one.name in names or (by_default and "none" not in names)

    chosen = [one for one in known.values() if wanted(one)]
    return Chosen(
        boot=tuple(one for one in chosen if one.scope == "boot"),
        clean=tuple(one for one in chosen if one.scope == "run" and not one.intrusive),
        intrusive=tuple(one for one in chosen if one.scope == "run" and one.intrusive),
        after=tuple(one for one in chosen if one.scope == "after"),
    )


def check_options(options: Options) -> None:
    """Refuse ``--set`` for a collector that does not exist."""
    known = all_collectors()
    for name in options:
        if name not in known:
            raise RecordError(
                f"--set: there is no collector {name!r}; choose from {', '.join(known)}"
            )


class Staging:
    """A folder of temporary folders, gone at the end.

    :param parent: where it lies; None for TMPDIR
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self.path = Path()

    def __enter__(self) -> Staging:  # noqa: PYI034 # Self came with Python 3.11
        try:
            # By its name those who started this process find what it left when it was killed.
            prefix = f"schedperf-{os.getpid()}-"
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=self._parent))
        except OSError as error:
            raise RecordError(f"temporary folder: {explain(error)}; set TMPDIR") from error
        return self

    def __exit__(self, *_exception: object) -> None:
        # Whatever cannot be removed is the system's to clean: it lies in TMPDIR.
        shutil.rmtree(self.path, ignore_errors=True)

    def folder(self) -> Path:
        """Return a new, empty folder."""
        return Path(tempfile.mkdtemp(dir=self.path))

    def log(self) -> Path:
        """Return a new, empty file for what a collector prints."""
        handle, name = tempfile.mkstemp(dir=self.path, suffix=".log")
        os.close(handle)
        return Path(name)


def capture_boot(collector: Collector, staging: Staging, pid: int, options: Options) -> Captured:
    """Let one collector capture what is captured once a boot.

    :param pid: a process that lives where the workload will live
    :raises Interrupted: a signal came
    """
    capture = Capture(staging.folder(), pid, options.get(collector.name, {}))
    return _capture_once(collector, capture, staging)


def capture_after(
    collector: Collector,
    staging: Staging,
    options: Options,
    captured: Sequence[Captured],
    present: frozenset[str],
) -> Captured:
    """Let one collector read what the others captured around a run.

    :param present: names of the files that it wrote earlier in this boot
    :raises Interrupted: a signal came
    """
    files = tuple(path for one in captured for _, path in one.files)
    folder = staging.folder()
    capture = AfterRun(folder, os.getpid(), options.get(collector.name, {}), files, present)
    return _capture_once(collector, capture, staging)


def _capture_once(collector: Collector, capture: Capture, staging: Staging) -> Captured:
    isolated = Isolated(collector, capture, staging.log())
    isolated.start()
    assert isolated.result is not None
    return _gather(collector, isolated.result, capture.folder)


class RunCaptures:
    """Collectors around one run; whatever still works at the end of the ``with`` is killed.

    In the ``with`` they are prepared, and see the run from :meth:`begin` to :meth:`stop`.
    """

    def __init__(self, collectors: Sequence[Collector], staging: Staging, options: Options) -> None:
        self._working: list[tuple[Isolated, Path]] = []
        for collector in collectors:
            folder = staging.folder()
            capture = Capture(folder, os.getpid(), options.get(collector.name, {}))
            self._working.append((Isolated(collector, capture, staging.log()), folder))

    def __enter__(self) -> RunCaptures:  # noqa: PYI034 # Self came with Python 3.11
        try:
            for isolated, _ in self._working:
                isolated.start()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._kill()

    def begin(self) -> None:
        """Let them begin; return when all have.

        :raises Interrupted: a signal came
        """
        self._order()
        for isolated, _ in self._working:
            isolated.await_begun()

    def stop(self) -> list[Captured]:
        """Stop them, and return what they brought in the order of starting."""
        self._order()
        return [
            _gather(isolated.collector, isolated.await_end(), folder)
            for isolated, folder in self._working
        ]

    def _order(self) -> None:
        # All at once: what one does before its first or after its last moment is not for the
        # others to count.
        for isolated, _ in self._working:
            isolated.order()

    def _kill(self) -> None:
        for isolated, _ in self._working:
            isolated.kill()


def try_run_collectors(
    collectors: Sequence[Collector], staging: Staging, options: Options
) -> list[Captured]:
    """Try collectors around a short workload of our own; return what they brought."""
    with RunCaptures(collectors, staging, options) as captures:
        trial = Capture(staging.folder(), os.getpid(), {"command": TRIAL_COMMAND})
        run_workload(trial, begin=captures.begin)
        return captures.stop()


def _gather(collector: Collector, result: Result, folder: Path) -> Captured:
    if result.status != OK:
        return Captured(collector, result, ())
    files = tuple((str(path.relative_to(folder)), path) for path in sorted(_regular_files(folder)))
    # What is read after a run may hold nothing that earlier runs did not.
    if not files and collector.scope != "after":
        result = replace(result, status=FAILED, reason="wrote no file")
    return Captured(collector, result, files)


def _regular_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path
