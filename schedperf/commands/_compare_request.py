"""What ``schedperf compare`` was asked for, compared once for each side that may be base."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import click

from schedperf.bundle import Bundle, open_bundle
from schedperf.comparability import unknown_fields
from schedperf.compare import CompareOptions, compare, df_past_runs
from schedperf.compare_tables import compare_tables
from schedperf.errors import InputError, SchedperfError
from schedperf.model import Comparison
from schedperf.tables import Table, open_table
from schedperf.text import clean_line
from schedperf.verdicts import MARGIN

Swapped = Callable[[], Sequence[Comparison]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompareRequest:
    """What is compared with what.

    :param paths: base first
    :param base: which side of the only table is base; None: its first
    :param are_tables: of numbers, no bundles
    """

    paths: tuple[Path, ...]
    history: tuple[Path, ...]
    margin: float
    allowed: tuple[str, ...]
    base: str | None
    are_tables: bool

    def compare(self) -> Comparison:
        """Read the files and compare them.

        :raises InputError: a file cannot be read or compared
        """
        options = CompareOptions(margin=self.margin, allowed=self.allowed)
        found = self._compare_tables(options) if self.are_tables else self._compare_bundles(options)
        return replace(found, command=self.command())

    def command(self) -> tuple[str, ...]:
        """Return the command line that asks for this, without what it writes."""
        margin = () if self.margin == MARGIN else ("--margin", f"{self.margin:.6g}")
        return (
            "schedperf",
            "compare",
            *map(str, self.paths),
            *margin,
            *(word for field in self.allowed for word in ("--allow", field)),
            *(word for path in self.history for word in ("--history", str(path))),
            *(() if self.base is None else ("--base", self.base)),
        )

    def swapped(self) -> "list[CompareRequest]":
        """Return the same with each other side as base; the rest keep their order."""
        if self.are_tables and len(self.paths) == 1:
            sides = open_table(self.paths[0]).sides
            base = sides[:1] if self.base is None else (self.base,)
            return [replace(self, base=side) for side in sides if side not in base]
        return [
            replace(self, paths=(path, *self.paths[:place], *self.paths[place + 1 :]))
            for place, path in enumerate(self.paths)
            if place
        ]

    def _compare_bundles(self, options: CompareOptions) -> Comparison:
        bundles = [open_bundle(path) for path in self.paths]
        earlier = [open_bundle(path) for path in self.history]
        _refuse_known([*bundles, *earlier], len(bundles))
        past = tuple(df_past_runs(bundle, bundles[0], options) for bundle in earlier)
        return compare(bundles, replace(options, history=past))

    def _compare_tables(self, options: CompareOptions) -> Comparison:
        tables = [open_table(path) for path in self.paths]
        earlier = [open_table(path) for path in self.history]
        _refuse_known([*tables, *earlier], len(tables))
        past = tuple(
            one.runs if one.sides else one.runs.assign(side=one.path.name) for one in earlier
        )
        return compare_tables(tables, replace(options, history=past), base=self.base)

    def warn_of_unknown(self) -> None:
        """Tell of a field that no bundle has.

        A slip of the pen must not pass for a permission; a script for many kernels may go on.
        """
        if not self.allowed:
            return
        for path in unknown_fields([open_bundle(path) for path in self.paths], self.allowed):
            click.echo(
                f"schedperf: warning: --allow {clean_line(path)}: no bundle has such a field; "
                "`schedperf show --cat boots/0/host.json` prints them",
                err=True,
            )


def _refuse_known(files: Sequence[Bundle | Table], compared: int) -> None:
    # Data that are given twice would count as two recordings.
    seen = {file.digest: file.path for file in files[:compared]}
    for past in files[compared:]:
        if past.digest in seen:
            same = f"holds the same data as {seen[past.digest]}"
            raise InputError(f"{past.path}: {same}; leave it out of --history")
        seen[past.digest] = past.path


@contextmanager
def compare_swapped(request: CompareRequest, *, is_wanted: bool) -> Iterator[Swapped]:
    """Compare with each other side as base, beside what the block does; give what returns them.

    :param is_wanted: a report will show them; without it there are none
    """
    wanted = request.swapped() if is_wanted else []
    if not wanted or not _has_room():
        yield lambda: _compare_in_turn(wanted)
        return
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_compare_beside, args=(wanted, ours, theirs), daemon=True
    )
    try:
        with _interrupts_put_off(), warnings.catch_warnings():
            # What waits in the threads of linear algebra libraries is made anew by a child.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        yield lambda: _receive(ours, wanted)
    finally:
        if process.pid is not None:
            process.terminate()
            process.join()
        ours.close()


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    # What Python calls around a fork cannot raise, so a Ctrl-C that arrives there would be lost.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    for number in arrived[:1]:
        signal.raise_signal(number)


def _has_room() -> bool:
    return (os.cpu_count() or 1) > 1 and "fork" in multiprocessing.get_all_start_methods()


def _compare_beside(
    wanted: Sequence[CompareRequest], theirs: Connection, connection: Connection
) -> None:
    # A terminal interrupts both processes; the one that asked ends this one. Without its end of the
    # pipe here, a result that nobody waits for any more is no reason to wait either.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    theirs.close()
    # Whatever goes wrong here is said by the process that asked: it then does the work itself.
    with suppress(SchedperfError, BrokenPipeError):
        connection.send([one.compare() for one in wanted])


def _receive(connection: Connection, wanted: Sequence[CompareRequest]) -> Sequence[Comparison]:
    try:
        made: list[Comparison] = connection.recv()
    except EOFError:
        return _compare_in_turn(wanted)
    return made


def _compare_in_turn(wanted: Sequence[CompareRequest]) -> Sequence[Comparison]:
    # The report that was asked for is worth more than its control.
    try:
        return [one.compare() for one in wanted]
    except SchedperfError as error:
        click.echo(f"schedperf: warning: the report cannot swap its sides: {error}", err=True)
        return []
