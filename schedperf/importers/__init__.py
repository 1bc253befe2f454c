# SPDX-License-Identifier: GPL-2.0-or-later
"""Import results of other tools as bundles: each public module reads one format.

::

    @importer("mmtests", summary="results directory of mmtests, e.g. work/log/NAME")
    def import_mmtests(tree: Tree) -> Imported: ...

An importer sorts files into boots and runs and copies what a benchmark printed, unchanged, as the
output of a run; the numbers are parsed when bundles are compared. What a format does not record is
left out, never invented, and files that no parser reads are listed in ``notes``. docs/import.md
describes the layouts.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from schedperf.importers._outside import guard_importer
from schedperf.importers._tree import Tree
from schedperf.model.comparison import Better
from schedperf.model.outside_plugins import all_with_outside
from schedperf_collectors.registry import Registry

__all__ = ["Imported", "ImportedBoot", "ImportedRun", "Importer", "all_importers", "importer"]


class ImportedRun(Struct, frozen=True, kw_only=True):
    """One run of a benchmark.

    :param command: the command if the format records it, else the name of the benchmark
    :param text: what the benchmark printed, unchanged
    :param more: values in the form of :mod:`schedperf.benchmarks.imported_values`, beside the text
    :param captures: files that the evidence reads, by COLLECTOR/NAME: "perf_stat/perf_stat.csv"
    :param source: where the results are, e.g. "old.txt:3"; None if notes need not name it
    :param start: start time in UTC; None if the format does not record it
    :param exit_status: None if the format does not record it
    :param failure: why the numbers of this run must not be used; None if they may
    """

    workload: str
    command: tuple[str, ...]
    point: Mapping[str, str]
    text: bytes
    source: str | None = None
    start: str | None = None
    more: bytes | None = None
    captures: Mapping[str, bytes] = field(default_factory=dict)
    exit_status: int | None = None
    failure: str | None = None


class ImportedBoot(Struct, frozen=True, kw_only=True):
    """One boot, and its runs in the order in which they were made.

    :param host: the fields of host.json that the format records
    :param config: the kernel configuration; None if it is not recorded
    """

    host: Mapping[str, Mapping[str, object]]
    runs: tuple[ImportedRun, ...]
    config: bytes | None = None


class Imported(Struct, frozen=True, kw_only=True):
    """What an importer read.

    :param label: name of the side
    :param originals: the files that were read, below the directory
    :param notes: what was not read or is not known, one sentence each
    :param incomplete: why the recording ended early; None if it is complete
    :param better: direction of metrics that the format states or the user gave, by name
    """

    label: str
    boots: tuple[ImportedBoot, ...]
    originals: tuple[str, ...]
    notes: tuple[str, ...] = ()
    incomplete: str | None = None
    better: Mapping[str, Better] = field(default_factory=dict)


Read = Callable[[Tree], Imported]


class Importer(Struct, frozen=True, kw_only=True):
    """One registered importer.

    :param summary: what the directory is, for --help
    """

    name: str
    summary: str
    read: Read


registry: Registry[Importer] = Registry("schedperf.importers", kind="importer")


def importer(name: str, *, summary: str) -> Callable[[Read], Read]:
    """Return a decorator that registers the importer of a format."""

    def register(read: Read) -> Read:
        registry.add(name, Importer(name=name, summary=summary, read=read))
        return read

    return register


def all_importers() -> Mapping[str, Importer]:
    """Return every importer, by name, those of other installed packages too.

    :raises PluginError: an importer of another package cannot be used
    """
    return all_with_outside(registry, guard_importer)
