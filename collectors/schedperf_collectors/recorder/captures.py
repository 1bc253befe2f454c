# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose collectors and run them, each writing into a staging directory.

The staging directory is on a local file system: perf loses build ids when it writes to a
network file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, TracebackType

from schedperf_collectors.contract import temporary_prefix
from schedperf_collectors.machine.errors import LARGER_TMPDIR, OUT_OF_SPACE, RecordError, explain
from schedperf_collectors.plugin import AfterRun, Capture, Collector, all_collectors
from schedperf_collectors.recorder.isolate import FAILED, OK, SKIPPED, Isolated, Result
from schedperf_collectors.workload import run_workload

# host.json is always captured, because bundles cannot be compared without it.
HOST = "host"

# A busy shell, then sleep, so that a trial has both on-CPU samples and context switches.
TRIAL_COMMAND = "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1'"

# With less free space than this, a run's output may be truncated without an error.
STAGING_FLOOR_BYTES = 1 << 20

_HAS_ADDRESSES = "records kernel addresses, which --shareable leaves out"

Options = Mapping[str, Mapping[str, str]]


class CannotCapture(RecordError):
    """A collector that the user named would be missing from the bundle.

    It does not work here, no run would use it, or ``--shareable`` leaves it out.
    """


@dataclass(frozen=True)
class Captured:
    """The result of one collector, and its files.

    :param files: of each file, the path below the collector's directory and the current path; empty
        unless the result is ok
    """

    collector: Collector
    result: Result
    files: tuple[tuple[str, Path], ...]


@dataclass(frozen=True)
class Chosen:
    """The collectors of a recording, sorted by name in each tuple.

    :param boot: collectors that capture once per boot
    :param clean: collectors that capture every run, because they do not disturb it
    :param intrusive: collectors that disturb a run, so that they capture instrumented runs only
    :param after: collectors that read the captures of an instrumented run
    :param named: names that the user gave, or that other options add; the recording fails if one
        that captures boots or runs does not work here
    :param beside: option that adds a collector of ``named``, by name; others are in ``--with``
    :param left_out: collectors that ``--shareable`` leaves out
    """

    boot: tuple[Collector, ...]
    clean: tuple[Collector, ...]
    intrusive: tuple[Collector, ...]
    after: tuple[Collector, ...]
    named: frozenset[str] = frozenset()
    beside: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[Collector, ...] = ()

    @property
    def run(self) -> tuple[Collector, ...]:
        """Return the collectors that capture each instrumented run."""
        return self.clean + self.intrusive

    def without(self, names: Collection[str]) -> Chosen:
        """Return the choice without collectors of these names; those of scope "boot" stay."""
        return replace(
            self,
            clean=tuple(collector for collector in self.clean if collector.name not in names),
            intrusive=tuple(
                collector for collector in self.intrusive if collector.name not in names
            ),
            after=tuple(collector for collector in self.after if collector.name not in names),
        )


def choose(
    names: Sequence[str],
    attempted: Sequence[str] = (),
    beside: Mapping[str, str] = MappingProxyType({}),
    *,
    without: Collection[str] = (),
    shareable: bool = False,
) -> Chosen:
    """Choose the collectors that ``--with`` names, and leave out those of ``--without``.

    "default" selects the default collectors, "none" only host. Any other name adds that collector.
    Default collectors that capture once per boot or read other captures are included except with
    "none".

    :param names: the names
    :param attempted: names of collectors that are added if they work here
    :param beside: collectors that other options add, even to "none": the option by name
    :param without: names of collectors that are left out
    :param shareable: leave out collectors that record kernel addresses
    :raises CannotCapture: ``names`` has a collector that ``shareable`` leaves out
    :raises RecordError: a name is unknown, "none" is combined with another name, or a collector is
        both selected and left out
    """
    available = {
        name: collector
        for name, collector in all_collectors().items()
        if collector.scope != "workload"
    }
    for name in (*names, *attempted):
        if name not in available and name not in {"default", "none"}:
            raise RecordError(
                f"--with: unknown collector {name!r} (expected one or more of default, none, "
                f"{', '.join(available)})"
            )
    if "none" in names and len(names) > 1:
        raise RecordError(
            "--with: 'none' cannot be combined with other names; omit 'none' or the other names"
        )

    _check_without(without, available, names, beside)

    def wanted(collector: Collector) -> bool:
        by_default = collector.default and ("default" in names or collector.scope != "run")
        if collector.name in without:
            return False
        return (
            collector.name == HOST
            or collector.name in names
            or collector.name in beside
            or collector.name in attempted
            or (by_default and "none" not in names)
        )

    chosen = [collector for collector in available.values() if wanted(collector)]
    left_out = tuple(collector for collector in chosen if shareable and collector.addresses)
    for collector in left_out:
        if collector.name in names:
            raise CannotCapture(f"--with {collector.name}: {_HAS_ADDRESSES}; omit one of the two")
    chosen = [collector for collector in chosen if collector not in left_out]
    return Chosen(
        boot=tuple(collector for collector in chosen if collector.scope == "boot"),
        clean=tuple(
            collector
            for collector in chosen
            if collector.scope == "run" and not collector.intrusive
        ),
        intrusive=tuple(
            collector for collector in chosen if collector.scope == "run" and collector.intrusive
        ),
        after=tuple(collector for collector in chosen if collector.scope == "after"),
        named=frozenset((*names, *beside)) - {"default", "none"},
        beside=beside,
        left_out=left_out,
    )


def _check_without(
    without: Collection[str],
    available: Collection[str],
    names: Collection[str],
    beside: Mapping[str, str],
) -> None:
    """Reject names of ``--without`` that are unknown, or that another option selects.

    :param available: names of all collectors
    :raises RecordError: there is one
    """
    possible = [name for name in available if name != HOST]
    for name in without:
        if name == HOST:
            raise RecordError(
                f"--without: {HOST} is always captured, because bundles cannot be compared without "
                "it; omit it"
            )
        if name not in possible:
            raise RecordError(
                f"--without: unknown collector {name!r} (expected one or more of "
                f"{', '.join(possible)})"
            )
        if name in names or name in beside:
            option = "--with" if name in names else beside[name]
            raise RecordError(
                f"--without {name}: {option} {'selects' if name in names else 'needs'} this "
                "collector; omit one of the two"
            )


def captures_left_out(chosen: Chosen) -> tuple[Captured, ...]:
    """Return a skipped capture of each collector that ``--shareable`` leaves out."""
    result = Result(SKIPPED, _HAS_ADDRESSES, "record without --shareable, as root")
    return tuple(Captured(collector, result, ()) for collector in chosen.left_out)


def check_reachable(chosen: Chosen, instrumented: int | None) -> None:
    """Reject named collectors that no run would use.

    :param instrumented: number of instrumented runs; None for the default, at least 1
    :raises CannotCapture: a collector that the user named would never capture
    """
    intrusive = {collector.name for collector in chosen.intrusive} & chosen.named
    if intrusive and instrumented == 0:
        raise CannotCapture(
            f"--with {', '.join(sorted(intrusive))}: only used in instrumented runs, but "
            "--instrumented is 0; set --instrumented to 1 or more"
        )
    after = {collector.name for collector in chosen.after} & chosen.named
    if after and (not chosen.intrusive or instrumented == 0):
        raise CannotCapture(
            f"--with {', '.join(sorted(after))}: reads the captures of instrumented runs, but "
            "none are planned; do not set --instrumented to 0, and use e.g. --with perf_profile,"
            f"{','.join(sorted(after))}"
        )


def check_set(names: Iterable[str], chosen: Chosen) -> None:
    """Reject ``--set`` for collectors that are not used.

    :param names: names of known collectors
    :raises RecordError: one of them is not used
    """
    # The workload always runs, and services are always watched.
    used = {
        collector.name
        for collector in all_collectors().values()
        if collector.scope == "workload" or collector.watch is not None
    }
    used |= {collector.name for collector in (*chosen.boot, *chosen.run, *chosen.after)}
    for name in names:
        if name not in used:
            raise RecordError(
                f"--set: options of {name}, which is not used; add --with default,{name}, or omit "
                "them"
            )


def check_named(chosen: Chosen, captured: Captured) -> None:
    """Reject a recording without a collector that the user named.

    :raises CannotCapture: the collector was named and did not capture
    """
    name, result = captured.collector.name, captured.result
    if name in chosen.named and result.status != OK:
        by_option = chosen.beside.get(name)
        omit = f"omit {by_option}" if by_option else f"leave {name} out of --with"
        where = by_option or f"--with {name}"
        raise CannotCapture(f"{where}: {result.reason}; {result.remedy or omit}")


def check_options(options: Options) -> None:
    """Reject ``--set`` for an unknown collector or an unknown option.

    :param options: values by name of the option, by name of the collector
    :raises RecordError: there is one
    """
    available = all_collectors()
    for name, values in options.items():
        if name not in available:
            raise RecordError(
                f"--set: unknown collector {name!r} (expected one of {', '.join(available)})"
            )
        known = available[name].options
        for unknown in sorted(values.keys() - set(known)):
            expected = f"expected {' or '.join(known)}" if known else "it has no options"
            raise RecordError(f"--set: unknown option {unknown!r} of {name} ({expected})")


class Staging:
    """A directory of temporary directories, which exists in the ``with`` block.

    :param parent: its parent directory; None for TMPDIR
    :raises RecordError: when entering the block: it cannot be created
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self.path = Path()

    def __enter__(self) -> Staging:  # noqa: PYI034 # Self came with Python 3.11
        try:
            # The next command finds the directory of a killed recorder by this name.
            self.path = Path(tempfile.mkdtemp(prefix=temporary_prefix(), dir=self._parent))
        except OSError as error:
            is_full = error.errno in OUT_OF_SPACE
            remedy = LARGER_TMPDIR if is_full else "set TMPDIR to a writable directory"
            raise RecordError(f"temporary directory: {explain(error)}; {remedy}") from error
        return self

    def __exit__(self, *_exception: object) -> None:
        # A directory that cannot be removed stays in TMPDIR for the system to clean.
        shutil.rmtree(self.path, ignore_errors=True)

    def is_full(self) -> bool:
        """Return whether the file system has less free space than STAGING_FLOOR_BYTES."""
        status = os.statvfs(self.path)
        free_blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
        return free_blocks * status.f_frsize < STAGING_FLOOR_BYTES

    def folder(self) -> Path:
        """Return a new empty directory."""
        return Path(tempfile.mkdtemp(dir=self.path))

    def log(self) -> Path:
        """Return a new empty file for a collector's output."""
        handle, name = tempfile.mkstemp(dir=self.path, suffix=".log")
        os.close(handle)
        return Path(name)


def capture_boot(collector: Collector, staging: Staging, pid: int, options: Options) -> Captured:
    """Run one collector of scope "boot".

    :param pid: a process in the workload's cgroup and with its CPU mask
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
    """Run one collector of scope "after" on a run's captures.

    :param captured: captures of the other collectors around the run
    :param present: names of the files that it wrote earlier in this boot
    :raises Interrupted: a signal came
    """
    files = tuple(path for each in captured for _, path in each.files)
    folder = staging.folder()
    capture = AfterRun(folder, os.getpid(), options.get(collector.name, {}), files, present)
    return _capture_once(collector, capture, staging)


def _capture_once(collector: Collector, capture: Capture, staging: Staging) -> Captured:
    isolated = Isolated(collector, capture, staging.log())
    isolated.start()
    assert isolated.result is not None
    return _gather(collector, isolated.result, capture.folder)


class RunCaptures:
    """The collectors around one run; the end of the ``with`` block kills those still running.

    Entering the ``with`` block prepares them; they capture from :meth:`begin` to :meth:`stop`.

    :raises Interrupted: when entering the block: a signal came
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
        """Start capturing, ``outermost`` collectors first; return when all have begun.

        Collectors that attach to the workload do so before any but the outermost ones begin.

        :raises Interrupted: a signal came
        """
        inner = self._group(outermost=False)
        attaching = [isolated for isolated in inner if isolated.collector.attaches]
        for group in (self._group(outermost=True), attaching, inner):
            _order(group)
            for isolated in group:
                isolated.await_begun()

    def stop(self) -> list[Captured]:
        """Stop the collectors, ``outermost`` ones last.

        :return: their captures, in the order in which the collectors were given
        :raises Interrupted: a signal came
        """
        for group in (self._group(outermost=False), self._group(outermost=True)):
            _order(group)
            for isolated in group:
                isolated.await_end()
        return [
            _gather(isolated.collector, isolated.await_end(), folder)
            for isolated, folder in self._working
        ]

    def _group(self, *, outermost: bool) -> list[Isolated]:
        return [
            isolated for isolated, _ in self._working if isolated.collector.outermost == outermost
        ]

    def _kill(self) -> None:
        for isolated, _ in self._working:
            isolated.kill()


def _order(group: Sequence[Isolated]) -> None:
    # All at once, so that no collector counts the work of another.
    for isolated in group:
        isolated.order()


def try_run_collectors(
    collectors: Sequence[Collector], staging: Staging, options: Options
) -> list[Captured]:
    """Try collectors around a short test workload; return their captures in the given order.

    :raises Interrupted: a signal came
    """
    with RunCaptures(collectors, staging, options) as captures:
        trial = Capture(staging.folder(), os.getpid(), {"command": TRIAL_COMMAND})
        run_workload(trial, begin=captures.begin)
        return captures.stop()


def _gather(collector: Collector, result: Result, folder: Path) -> Captured:
    if result.status != OK:
        return Captured(collector, result, ())
    files = tuple((str(path.relative_to(folder)), path) for path in sorted(_regular_files(folder)))
    # A collector that reads a run's captures may have nothing new to store.
    if not files and collector.scope != "after":
        result = replace(result, status=FAILED, reason="wrote no file")
    return Captured(collector, result, files)


def _regular_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path
