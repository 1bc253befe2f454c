# SPDX-License-Identifier: GPL-2.0-or-later
"""Import results of other tools as bundles: each importer reads one format.

An importer is a module of this package; for a format of a single kind of evidence, it is the module
``importer`` of that evidence's package in ``schedperf.evidence``.

::

    @importer("mmtests", summary="results directory of mmtests, e.g. work/log/NAME")
    def import_mmtests(tree: Tree) -> Imported: ...

An importer sorts files into boots and runs and copies what a benchmark printed, unchanged, as the
output of a run; the numbers are parsed when bundles are compared. A format that has only numbers
gets an output in the format of :mod:`schedperf.inputs.benchmarks.imported_values`. What a format
does not record is left out, never invented, and files that no parser reads are listed in ``notes``.
docs/import.md describes the layouts.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from schedperf.inputs.importers._outside import guard_importer
from schedperf.inputs.importers.tree import Tree
from schedperf.model.rows import Better
from schedperf_collectors.registry import Registry

__all__ = ["Imported", "ImportedBoot", "ImportedRun", "Importer", "all_importers", "importer"]


class ImportedRun(Struct, frozen=True, kw_only=True):
    """One run of a benchmark.

    :param command: the command if the format records it, else the name of the benchmark
    :param point: values of the parameters by name
    :param text: what the benchmark printed, unchanged; or values in the format of
        :mod:`schedperf.inputs.benchmarks.imported_values`
    :param more: additional values in that format; None if there are none
    :param captures: files for evidence parsers, by COLLECTOR/NAME, e.g. "perf_stat/perf_stat.csv"
    :param source: where the results are, e.g. "old.txt:3"; None if notes need not name it
    :param start: start time in UTC; None if the format does not record it
    :param exit_status: None if the format does not record it
    :param failure: why the numbers of this run must not be used; None if they may
    :param wall_s: duration from its start to its end in s; None if the format does not record it
    :param period_s: recorded time in s, if it may be another than that of the run; None if not
    :param usage: resource usage, as in run.json: "cpu_s", "nvcsw" …; None if not recorded
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
    wall_s: float | None = None
    period_s: float | None = None
    usage: Mapping[str, float] | None = None


class ImportedBoot(Struct, frozen=True, kw_only=True):
    """One boot, and its runs in recorded order.

    :param host: the fields of host.json that the format records, by group
    :param config: the kernel configuration; None if it is not recorded
    """

    host: Mapping[str, Mapping[str, object]]
    runs: tuple[ImportedRun, ...]
    config: bytes | None = None


class Imported(Struct, frozen=True, kw_only=True):
    """The result of an importer.

    :param label: name of the side
    :param originals: the files that were read, relative to the directory
    :param notes: what was not read or is unknown, one sentence each
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

    :param name: name of the format: "mmtests"
    :param summary: what the directory is, for --help
    :param read: reads a tree of files
    """

    name: str
    summary: str
    read: Read


registry: Registry[Importer] = Registry(
    "schedperf.inputs.importers",
    "schedperf.evidence",
    kind="importer",
    module="importer",
    guard=guard_importer,
)


def importer(name: str, *, summary: str) -> Callable[[Read], Read]:
    """Return a decorator that registers the importer of a format.

    :param name: name of the format, before the colon of ``FORMAT:PATH``
    :param summary: what the directory is, for --help
    """

    def register(read: Read) -> Read:
        registry.add(name, Importer(name=name, summary=summary, read=read))
        return read

    return register


def all_importers() -> Mapping[str, Importer]:
    """Return every importer by name, including those of other installed packages.

    :raises PluginError: an importer of another package cannot be used
    """
    return registry.all()
