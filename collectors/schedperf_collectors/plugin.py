# SPDX-License-Identifier: GPL-2.0-or-later
"""Define collectors: one function in one public module of this package.

A collector of scope "boot" is called once and writes files into its folder::

    @collector(scope="boot", needs=(), cost="3 MB, 50 ms")
    def layout(capture: Capture) -> None:
        (capture.folder / "kallsyms").write_bytes(Path("/proc/kallsyms").read_bytes())

A collector of scope "run" is a generator: the code before its one ``yield`` runs before the
workload starts, the code after it when the workload has ended::

    @collector(scope="run", needs=(), cost="two reads of 24 kB")
    def schedstat(capture: Capture) -> Iterator[None]:
        (capture.folder / "before").write_bytes(...)
        yield
        (capture.folder / "after").write_bytes(...)

Such a generator returns None or a hint for ``doctor``: one line about what it cannot capture on
this machine, and why.

The collectors of a run start one after the other, so an early one would count the start of the
later ones and the setup of ``ab``. A collector that takes time to get ready, or counts events,
therefore yields twice; it begins after the setup, right before the workload runs::

    def perf_stat(capture: Capture) -> Iterator[str]:
        with perf_running(command) as recording:
            yield PREPARED
            recording.begin()
            yield BEGUN

A collector of scope "after" is called after an instrumented run, with the captures of the other
collectors. Its files belong to the boot, together with those that it wrote after earlier runs::

    @collector(scope="after", needs=(), cost="0.1 MB")
    def symbols(capture: AfterRun) -> None:
        for path in capture.files:
            (capture.folder / ...).write_bytes(...)

A collector may also watch runs, whether or not it is chosen: it says when the service of a side
(``ab --service``) is ready, and which runs did not measure what they should. Its *watch* is made
before each run, in the recorder's process::

    @collector(scope="run", cost="...", watch=SchedulerWatch)
    def sched_ext(capture: Capture) -> Iterator[None]:
        ...

A collector of scope "run" with ``outermost`` makes a condition of the run, e.g. a second workload:
it begins before the other collectors, and ends after them. If the condition did not hold during
the whole run, it raises :class:`InvalidRun`, and the run is discarded.

A collector that cannot capture anything here raises :class:`Skipped`. Any other exception is a
failure, which loses only this capture. Each collector runs in a separate process, so a crash or a
hang is a failure too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Protocol, TypeVar

from schedperf_collectors.registry import Registry


class Skipped(Exception):
    """A collector cannot run on this machine.

    :param reason: why, one line, lower case, no full stop
    :param remedy: a command or setting that fixes it, or what to do; "" if nothing helps
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class InvalidRun(Exception):
    """The run was not made under the conditions that the user asked for, so it is discarded.

    :param reason: why, one line, lower case, no full stop
    :param remedy: what to do; "" if nothing helps
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Capture:
    """Arguments of a collector: the output directory, and the process to observe.

    :param folder: an empty directory on a local file system; every file in it enters the bundle
    :param workload_pid: a process in the workload's cgroup and with its CPU mask
    :param options: the collector's settings, as text, from ``--set COLLECTOR.NAME=VALUE``
    """

    folder: Path
    workload_pid: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class AfterRun(Capture):
    """Arguments of a collector of scope "after".

    :param files: captures of the other collectors around the run, in their current location
    :param present: names of the files that this collector wrote earlier in this boot
    """

    files: tuple[Path, ...]
    present: frozenset[str]


class Watch(Protocol):
    """Watches one run: a file of /sys or two are read, which neither blocks nor raises.

    It looks at the machine when it is made, before the service of the side starts. Making it raises
    :class:`RecordError` if an option is invalid, or if the service cannot work here.

    :ivar awaits: what the service has to reach, for messages: "sched_ext to be enabled"; None
        without a service, or if this watch does not wait for it
    """

    awaits: str | None

    def is_ready(self) -> bool:
        """Return whether the service is ready; asked until it is."""
        ...

    def begin(self) -> None:
        """Look at the machine: the setup has ended, and the workload is about to run."""
        ...

    def end(self) -> None:
        """Look at the machine again: the workload has ended, and the service was not stopped."""
        ...

    def is_over(self) -> bool:
        """Return whether nothing of the stopped service remains; asked until it is so."""
        ...

    def why_discard(self, output: str) -> str | None:
        """Return why the run must not be used, as a clause; None if it may be used.

        :param output: what the service printed, shortened; "" without one
        """
        ...


# Yielded by run collectors that take time to get ready.
PREPARED, BEGUN = "prepared", "begun"

BootFunction = Callable[[Capture], None]
AfterFunction = Callable[[AfterRun], None]
RunFunction = Callable[[Capture], Iterator[object]]
# Of the words of the service's command, () without one, and the collector's settings.
MakeWatch = Callable[[Sequence[str], Mapping[str, str]], Watch]
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Collector:
    """One registered collector.

    :param scope: "boot" (captured once per boot), "run" (captured around each run), "after" (made
        from the captures of an instrumented run) or "workload" (the command itself; there is one,
        and it runs in the recorder's process)
    :param intrusive: it disturbs the measurement, so it runs only in instrumented runs
    :param outermost: it begins before the other collectors of a run, and ends after them
    :param default: used if ``--with`` is not given
    :param options: names that ``--set COLLECTOR.NAME=VALUE`` takes
    :param needs: programs that must be on PATH, by name
    :param package: the Debian package that contains them; "" if none is needed
    :param cost: overhead and size, as text
    :param place: directory of its files below that of the boot or run; its own name by default
    :param watch: makes a watch for each run; None if it watches none
    """

    name: str
    scope: str
    intrusive: bool
    outermost: bool
    default: bool
    options: tuple[str, ...]
    needs: tuple[str, ...]
    package: str
    cost: str
    place: str
    summary: str
    function: BootFunction | RunFunction | AfterFunction
    watch: MakeWatch | None = None


registry: Registry[Collector] = Registry("schedperf_collectors", kind="collector")


def collector(
    *,
    scope: str,
    cost: str,
    options: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    package: str = "",
    intrusive: bool = False,
    outermost: bool = False,
    default: bool = True,
    place: str | None = None,
    watch: MakeWatch | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as a collector, under its own name.

    The first line of its docstring is its summary.
    """

    def register(function: Function) -> Function:
        name = function.__name__
        registry.add(
            name,
            Collector(
                name=name,
                scope=scope,
                intrusive=intrusive,
                outermost=outermost,
                default=default,
                options=options,
                needs=needs,
                package=package,
                cost=cost,
                place=name if place is None else place,
                summary=(function.__doc__ or "").strip().partition("\n")[0],
                function=function,  # type: ignore[arg-type] # scope says which of them it is
                watch=watch,
            ),
        )
        return function

    return register


def all_collectors() -> dict[str, Collector]:
    """Return every collector, by name."""
    return registry.all()
