# SPDX-License-Identifier: GPL-2.0-or-later
"""All extension points: what other packages can add, and how schedperf calls it.

Each class is the signature of one kind of plugin. :data:`GROUPS` lists them by the group of entry
points of their modules. ``docs/extending.md`` has complete examples; an entry point is declared in
``pyproject.toml``::

    [project.entry-points."schedperf.inputs.benchmarks"]
    mybench = "mybench_schedperf.parser"
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from schedperf.evidence import caveat_rule, finding, joined_finding, section
from schedperf.inputs.benchmarks import Execution, Item, parser
from schedperf.inputs.importers import Imported, importer
from schedperf.inputs.importers.tree import Tree
from schedperf.inputs.side import Side
from schedperf.model.caveats import Caveat
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sections import Finding, Section, SectionData
from schedperf_collectors.plugin import AfterRun, Capture, collector
from schedperf_reports.blocks import Block
from schedperf_reports.formats import Options, output_format
from schedperf_reports.sections import report_section


class CollectOncePerBoot(Protocol):
    """Write files into ``capture.folder``: ``@collector(scope="boot")``.

    A collector must run on Python 3.9 with only its standard library. Guests and ``collect.pyz``
    have the collectors of schedperf only, not those of other packages.
    """

    def __call__(self, capture: Capture, /) -> None: ...


class CollectAroundRun(Protocol):
    """Write files before and after the workload, which runs during a ``yield``.

    The decorator is ``@collector(scope="run")``.
    """

    def __call__(self, capture: Capture, /) -> Iterator[object]: ...


class CollectAfterRun(Protocol):
    """Write files about what the other collectors captured: ``@collector(scope="after")``."""

    def __call__(self, capture: AfterRun, /) -> None: ...


class Parse(Protocol):
    """Yield the results in lines that the plugin claims: ``@parser``.

    The third parameter, the command and the wall time of the run, may be left out.
    """

    def __call__(
        self, lines: Iterable[str], label: str, execution: Execution, /
    ) -> Iterator[Item]: ...


class Import(Protocol):
    """Read the results of another tool from a directory: ``@importer``."""

    def __call__(self, tree: Tree, /) -> Imported: ...


class Analyse(Protocol):
    """Compare what was captured of all sides, base first: ``@section``.

    The plugin raises ``Absent`` if nothing was captured.
    """

    def __call__(self, sides: Sequence[Side], /) -> SectionData: ...


class Find(Protocol):
    """Yield an explanation for each significant change in a section: ``@finding``."""

    def __call__(self, data: SectionData, /) -> Iterator[Finding]: ...


class FindJoined(Protocol):
    """Yield explanations from several sections and the results: ``@joined_finding``."""

    def __call__(
        self, sections: Mapping[str, Section], rows: Sequence[Row], /
    ) -> Iterator[Finding]: ...


class FindCaveats(Protocol):
    """Yield weaknesses of the whole result that a section shows: ``@caveat_rule``."""

    def __call__(self, data: SectionData, /) -> Iterator[Caveat]: ...


class Describe(Protocol):
    """Yield the tables, texts and drawings of a section of the report: ``@report_section``."""

    def __call__(self, comparison: Comparison, /) -> Iterator[Block]: ...


class Render(Protocol):
    """Return the comparison in a format: ``@output_format``.

    The entry point has the name of the format.
    """

    def __call__(self, comparison: Comparison, options: Options, /) -> str: ...


GROUPS: Mapping[str, tuple[type, ...]] = {
    "schedperf_collectors": (CollectOncePerBoot, CollectAroundRun, CollectAfterRun),
    "schedperf.inputs.benchmarks": (Parse,),
    "schedperf.inputs.importers": (Import,),
    "schedperf.evidence": (Analyse, Find, FindJoined, FindCaveats),
    "schedperf_reports.evidence": (Describe,),
    "schedperf_reports.formats": (Render,),
}

if TYPE_CHECKING:

    def _take(
        *,
        boot: CollectOncePerBoot,
        run: CollectAroundRun,
        after: CollectAfterRun,
        parse: Parse,
        read: Import,
        analyse: Analyse,
        find: Find,
        join: FindJoined,
        weaken: FindCaveats,
        describe: Describe,
        render: Render,
    ) -> None:
        """Pass each signature to its decorator, which mypy checks."""
        collector(scope="boot", cost="")(boot)
        collector(scope="run", cost="")(run)
        collector(scope="after", cost="")(after)
        parser("", claims=bool)(parse)
        importer("", summary="")(read)
        section(SectionData)(analyse)
        finding("", SectionData)(find)
        joined_finding("")(join)
        caveat_rule("", SectionData)(weaken)
        report_section("", title="", chapter="", order=0)(describe)
        output_format("")(render)
