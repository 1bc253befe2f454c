# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the inputs of ``schedperf compare``, and reproduce its command line."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from schedperf.bundle.open import Bundle
from schedperf.compare.bundles import CompareOptions, compare_bundles, read_past_runs
from schedperf.compare.comparability import unknown_fields
from schedperf.importers.open import Opener
from schedperf.model.comparison import Better, Comparison, SideSummary
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.model.verdict import MARGIN
from schedperf.model.workers import count_workers

if TYPE_CHECKING:
    from schedperf.tables.read import Table


class CompareRequest(Struct, frozen=True, kw_only=True):
    """The inputs and options of one comparison.

    :param paths: base first
    :param better: metrics whose format does not state the direction, each with its direction
    :param base: label of the base side in a single table; None: the first side
    :param are_tables: the inputs are tables of numbers, not bundles
    """

    paths: tuple[Path, ...]
    history: tuple[Path, ...]
    margin: float
    allowed: tuple[str, ...]
    base: str | None
    are_tables: bool
    better: tuple[tuple[str, Better], ...] = ()

    def compare(self, *, drawings: bool = True) -> Comparison:
        """Read the files and compare them.

        :param drawings: false to leave out the sections that only drawings use
        :raises InputError: a file cannot be read or compared
        """
        options = CompareOptions(margin=self.margin, allowed=self.allowed, better=dict(self.better))
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
            *(() if self.base is None else ("--base", self.base)),
        )

    def other_bases(self, sides: Sequence[SideSummary]) -> "list[CompareRequest]":
        """Return the same request with each other side as base; the rest keep their order.

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
            with ThreadPoolExecutor(count_workers()) as threads:
                bundles = [*threads.map(opener.open, (*self.paths, *self.history))]
            return self._compare_opened(bundles, options, drawings=drawings)

    def _compare_opened(
        self, opened: Sequence[Bundle], options: CompareOptions, *, drawings: bool
    ) -> Comparison:
        bundles, earlier = [*opened[: len(self.paths)]], [*opened[len(self.paths) :]]
        _refuse_known([*bundles, *earlier], len(bundles))
        past = tuple(read_past_runs(bundle, bundles[0], options) for bundle in earlier)
        return compare_bundles(
            bundles,
            replace(options, history=past),
            workers=count_workers(),
            drawings=drawings,
        )

    def _compare_tables(self, options: CompareOptions) -> Comparison:
        # Imported here since they import pandas, which takes longer than comparing two bundles.
        from schedperf.compare.tables import compare_tables  # noqa: PLC0415
        from schedperf.tables.read import open_table  # noqa: PLC0415

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


def _refuse_known(files: "Sequence[Bundle | Table]", compared: int) -> None:
    # The same data given twice would count as two recordings.
    seen = {file.digest: file.path for file in files[:compared]}
    for past in files[compared:]:
        if past.digest in seen:
            same = f"contains the same data as {seen[past.digest]}"
            raise InputError(f"{past.path}: {same}; leave it out of --history")
        seen[past.digest] = past.path
