# SPDX-License-Identifier: GPL-2.0-or-later
"""Define collectors: each one is a function in a public module of this package.

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
later ones and the workload's setup. A collector that takes time to get ready, or counts events,
therefore yields twice; it begins after the setup, right before the workload runs::

    def perf_stat(capture: Capture) -> Iterator[str]:
        with perf_running(command) as recording:
            yield PREPARED
            recording.begin()
            yield BEGUN

A collector that ``attaches`` to the workload's process takes a step between: after the setup, and
before any of the other collectors begins, so that none counts its work. It yields
:data:`PREPARED`, :data:`ATTACHED` and :data:`BEGUN`.

A collector of scope "after" is called after an instrumented run, with the captures of the other
collectors. Its files belong to the boot, together with those that it wrote after earlier runs::

    @collector(scope="after", needs=(), cost="0.1 MB")
    def symbols(capture: AfterRun) -> None:
        for path in capture.files:
            (capture.folder / ...).write_bytes(...)

A collector may also watch runs, whether or not it is selected: it determines when the service of a
side (``ab --service``) is ready, and which runs did not measure what they should. Its *watch* is
created before each run, in the recorder's process::

    @collector(scope="run", cost="...", watch=SchedulerWatch)
    def sched_ext(capture: Capture) -> Iterator[None]:
        ...

A collector of scope "run" with ``outermost`` provides a condition of the run, e.g. a second
workload: it begins before the other collectors and ends after them. If the condition did not hold
during the whole run, it raises :class:`InvalidRun`, and the run is discarded.

A collector that cannot capture anything here raises :class:`Skipped`. Any exception other than
:class:`Skipped` and :class:`InvalidRun` is a failure, which loses only this capture. Each of these
collectors runs in a separate process, so a crash or a hang is a failure too. A recording does not
start if a collector that the user named (``--with``) is skipped or fails when it is first tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Protocol, TypeVar

from schedperf_collectors.registry import Registry


class Skipped(Exception):
    """A collector cannot run on this machine, or with these options.

    :param reason: why, one line, lower case, no full stop
    :param remedy: a command or setting that fixes it, or what to do; "" if nothing helps
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class InvalidRun(Exception):
    """The run did not meet the requested conditions, so it is discarded.

    :param reason: why, one line, lower case, no full stop
    :param remedy: what to do; "" if nothing helps
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Capture:
    """Arguments of a collector: output directory, process to observe, and options.

    :param folder: an empty directory on a local file system; every regular file in it enters the
        bundle, except if the collector is skipped or fails
    :param workload_pid: a process in the workload's cgroup and with its CPU mask; for scope "run"
        the recorder, whose child the workload becomes
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
    """Watches one run by reading a few files of /sys; its methods neither block nor raise.

    Its constructor reads the machine's state before the service of the side starts. It raises
    :class:`RecordError` if an option is invalid, or if the service cannot work here.

    :ivar awaits: condition that the service must reach, for messages: "sched_ext to be enabled";
        None without a service, or if this watch does not wait for it
    """

    awaits: str | None

    def is_ready(self) -> bool:
        """Return whether the service is ready; called repeatedly until it is.

        Return True if this watch does not wait for the service.
        """
        ...

    def begin(self) -> None:
        """Read the machine's state after the setup, right before the workload runs."""
        ...

    def end(self) -> None:
        """Read the machine's state after the workload has ended, before the service is stopped."""
        ...

    def is_over(self) -> bool:
        """Return whether nothing of the stopped service remains; called repeatedly until then.

        Return True if this watch does not wait for the service.
        """
        ...

    def why_discard(self, output: str) -> str | None:
        """Return why the run must not be used, as a clause; None if it may be used.

        :param output: output of the service, shortened; "" without a service
        """
        ...


# Yielded by run collectors that take time to get ready.
PREPARED, ATTACHED, BEGUN = "prepared", "attached", "begun"

BootFunction = Callable[[Capture], None]
AfterFunction = Callable[[AfterRun], None]
RunFunction = Callable[[Capture], Iterator[object]]
# Called with the words of the service's command (() without one) and the collector's settings.
MakeWatch = Callable[[Sequence[str], Mapping[str, str]], Watch]
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Collector:
    """One registered collector.

    :param scope: "boot" (captured once per boot), "run" (captured around each run), "after" (made
        from the captures of an instrumented run) or "workload" (the command itself; there is one,
        and it runs in the recorder's process)
    :param intrusive: whether it disturbs the measurement, so that it runs only in instrumented runs
    :param outermost: whether it begins before the other collectors of a run, and ends after them
    :param attaches: whether it attaches to the workload's process before the others begin
    :param default: whether it is used if ``--with`` is not given; for scope "boot" and "after" also
        with any ``--with`` but "none"
    :param instead_of: name of a collector with more exact data: if that one works on the machine,
        this one is only used if the user names it; "" for none
    :param addresses: whether its files contain kernel addresses, so that ``--shareable`` leaves it
        out
    :param options: names for ``--set COLLECTOR.NAME=VALUE``
    :param needs: programs that must be on PATH, by name
    :param package: the Debian package that contains them; "" if none is needed
    :param cost: overhead and size, as text
    :param place: directory of its files below that of the boot or run; "" for the directory of the
        boot or run itself
    :param summary: first line of the function's docstring
    :param watch: function that creates a watch for each run; None if it does not watch runs
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
    addresses: bool = False
    instead_of: str = ""
    attaches: bool = False


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
    attaches: bool = False,
    default: bool = True,
    instead_of: str = "",
    addresses: bool = False,
    place: str | None = None,
    watch: MakeWatch | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as a collector, under its own name.

    The first line of its docstring is its summary. For the parameters, see :class:`Collector`.

    :param place: None for the function's name
    :raises DuplicatePlugin: the name is taken
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
                attaches=attaches,
                default=default,
                options=options,
                needs=needs,
                package=package,
                cost=cost,
                place=name if place is None else place,
                summary=(function.__doc__ or "").strip().partition("\n")[0],
                function=function,  # type: ignore[arg-type] # scope says which of them it is
                watch=watch,
                addresses=addresses,
                instead_of=instead_of,
            ),
        )
        return function

    return register


def all_collectors() -> dict[str, Collector]:
    """Return every collector by name, including those of other installed packages.

    :raises PluginError: a collector of another package cannot be used
    """
    return registry.all()
