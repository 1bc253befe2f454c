# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the inputs of ``schedperf compare``, and reproduce its command line."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles, read_past_runs
from schedperf.compare.comparability import unknown_fields
from schedperf.compare.options import CompareOptions
from schedperf.compare.tables import compare_tables
from schedperf.history.store import is_store
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.importers.open import Opener
from schedperf.inputs.tables.read import Table, open_table
from schedperf.model.comparison import Comparison
from schedperf.model.errors import InputError
from schedperf.model.frame import Frame
from schedperf.model.rows import Better
from schedperf.model.sides import SideSummary
from schedperf.model.text import clean_line
from schedperf.model.verdict import MARGIN
from schedperf.model.workers import count_workers

# Names of bundles in a directory; `.partial` and other side files are not bundles.
_BUNDLE = re.compile(r"\.tar(\.(gz|xz|zst))?$")


class CompareRequest(Struct, frozen=True, kw_only=True):
    """The inputs and options of one comparison.

    :param paths: input files, base first
    :param history: earlier bundles or tables: files, directories of bundles, or stores of
        ``schedperf history``
    :param margin: equivalence margin as a fraction: 0.03
    :param allowed: fields of host.json that may differ
    :param boot_sd: standard deviation between boots of one kernel; None for the default of
        :class:`CompareOptions`
    :param better: metrics whose format does not state the direction, each with its direction
    :param base: label of the base side in a single table; None for the first side
    :param are_tables: the inputs are tables of numbers, not bundles
    """

    paths: tuple[Path, ...]
    history: tuple[Path, ...]
    margin: float
    allowed: tuple[str, ...]
    base: str | None
    are_tables: bool
    better: tuple[tuple[str, Better], ...] = ()
    boot_sd: float | None = None

    def compare(self, *, drawings: bool = True) -> Comparison:
        """Read the files and compare them.

        :param drawings: false to leave out the sections that only drawings use
        :raises InputError: a file cannot be read, or cannot be used in this comparison
        """
        options = CompareOptions(
            margin=self.margin,
            allowed=self.allowed,
            better=dict(self.better),
            boot_sd=self.boot_sd,
        )
        comparison = (
            self._compare_tables(options)
            if self.are_tables
            else self._compare_bundles(options, drawings=drawings)
        )
        return replace(comparison, command=self.command())

    def command(self) -> tuple[str, ...]:
        """Return the command line that repeats this comparison, without its output options."""
        margin = () if self.margin == MARGIN else ("--margin", f"{self.margin:.6g}")
        return (
            "schedperf",
            "compare",
            *map(str, self.paths),
            *margin,
            *(word for field in self.allowed for word in ("--allow", field)),
            *(word for each in self.better for word in ("--better", "=".join(each))),
            *(word for path in self.history for word in ("--history", str(path))),
            *(() if self.boot_sd is None else ("--boot-sd", f"{self.boot_sd:.6g}")),
            *(() if self.base is None else ("--base", self.base)),
        )

    def other_bases(self, sides: Sequence[SideSummary]) -> "list[CompareRequest]":
        """Return one request per new side, with that side as base; the rest keep their order.

        :param sides: the sides compared, base first
        """
        if self.are_tables and len(self.paths) == 1:
            return [replace(self, base=side.label) for side in sides[1:]]
        return [
            replace(self, paths=(path, *self.paths[:number], *self.paths[number + 1 :]))
            for number, path in enumerate(self.paths)
            if number
        ]

    def _compare_bundles(self, options: CompareOptions, *, drawings: bool) -> Comparison:
        # Decompression runs in parallel, without Python's lock. All threads end before workers are
        # forked.
        with Opener() as opener:
            files = [path for path in self.history if not path.is_dir()]
            stores = [path for path in self.history if is_store(path)]
            folders = {
                path: _bundles_in(path)
                for path in self.history
                if path.is_dir() and path not in stores
            }
            with ThreadPoolExecutor(count_workers()) as threads:
                opened = [*threads.map(opener.open, (*self.paths, *files))]
                found = {
                    folder: [*threads.map(partial(_try_to_open, opener), paths)]
                    for folder, paths in folders.items()
                }
            bundles = opened[: len(self.paths)]
            _refuse_known(opened, len(bundles))
            past = [
                read_past_runs(bundle, bundles[0], options) for bundle in opened[len(bundles) :]
            ]
            known = {bundle.digest for bundle in opened}
            for folder, each in found.items():
                past += _read_usable(folder, each, known, bundles[0], options)
            for store in stores:
                past += _read_store(store, bundles)
            return compare_bundles(
                bundles,
                replace(options, history=tuple(past)),
                workers=count_workers(),
                drawings=drawings,
            )

    def _compare_tables(self, options: CompareOptions) -> Comparison:
        # Without a column `workload` all tables are of one workload.
        workload = self.paths[0].stem
        is_only = len(self.paths) == 1
        tables = [open_table(path, workload, is_only=is_only) for path in self.paths]
        earlier = [open_table(path, workload) for path in self.history]
        _refuse_known([*tables, *earlier], len(tables))
        past = tuple(
            table.runs if table.sides else table.runs.assign(side=table.path.name)
            for table in earlier
        )
        return compare_tables(tables, replace(options, history=past), base=self.base)

    def warn_of_unknown(self) -> None:
        """Warn about ``--allow`` of a field that no bundle has.

        A misspelt field must not be accepted silently; a script for many kernels must not fail.

        :raises InputError: a bundle cannot be read
        """
        if not self.allowed:
            return
        with Opener() as opener:
            unknown = unknown_fields(map(opener.open, self.paths), self.allowed)
        for path in unknown:
            click.echo(
                f"schedperf: warning: --allow {clean_line(path)} names an unknown field of "
                "host.json; `schedperf show --cat boots/0/host.json BUNDLE` prints the fields",
                err=True,
            )


def _bundles_in(folder: Path) -> list[Path]:
    """Return the bundles in a directory in the order of their names.

    :raises InputError: the directory has no bundle
    """
    found = sorted(path for path in folder.iterdir() if _BUNDLE.search(path.name))
    if not found:
        raise InputError(f"{folder}: no bundles in this directory (expected files named *.tar*)")
    return found


def _try_to_open(opener: Opener, path: Path) -> Bundle | InputError:
    try:
        return opener.open(path)
    except InputError as error:
        return error


def _read_usable(
    folder: Path,
    found: Sequence[Bundle | InputError],
    known: set[str],
    base: Bundle,
    options: CompareOptions,
) -> Iterator[Frame]:
    """Yield the runs of each bundle in a directory; warn about bundles that cannot be used.

    :param known: digests of bundles to skip silently, e.g. those of the compared bundles; those of
        used bundles are added
    :raises InputError: a bundle cannot be used, and no other one can
    """
    refused: list[InputError] = []
    is_any = False
    for each in found:
        try:
            bundle = _opened(each)
            if bundle.digest in known:
                continue
            runs = read_past_runs(bundle, base, options)
        except InputError as error:
            refused.append(error)
            continue
        known.add(bundle.digest)
        is_any = True
        yield runs
    if not refused:
        return
    counts = f"{len(refused)} of {len(found)} recordings in {folder} not used; first: {refused[0]}"
    if not is_any:
        raise InputError(counts)
    click.echo(f"schedperf: warning: {clean_line(counts)}", err=True)


def _read_store(store: Path, bundles: Sequence[Bundle]) -> Sequence[Frame]:
    """Return the earlier runs of the machine in a store of ``schedperf history``.

    The first night of a machine has none, which must not stop a script.

    :raises InputError: the store cannot be read
    """
    # Imported here, because the database takes as long to import as the rest.
    from schedperf.history.questions.history import open_history  # noqa: PLC0415
    from schedperf.history.questions.past_runs import read_past_runs as read_stored  # noqa: PLC0415

    with open_history(store) as history:
        found = read_stored(history, bundles)
    if not found:
        click.echo(
            f"schedperf: warning: {clean_line(str(store))}: no earlier runs of this machine and "
            "workload; `schedperf history list` shows what it has",
            err=True,
        )
    return found


def _opened(each: Bundle | InputError) -> Bundle:
    if isinstance(each, InputError):
        raise each
    return each


def _refuse_known(files: "Sequence[Bundle | Table]", compared: int) -> None:
    # The same data given twice would count as two recordings.
    seen = {file.digest: file.path for file in files[:compared]}
    for past in files[compared:]:
        if past.digest in seen:
            same = f"contains the same data as {seen[past.digest]}"
            raise InputError(f"{past.path}: {same}; leave it out of --history")
        seen[past.digest] = past.path
