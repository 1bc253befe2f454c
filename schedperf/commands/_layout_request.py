# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the kernels of ``schedperf layout`` and render its result."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._outputs import draw_for_stdout, dump_section
from schedperf.evidence.layout.compare import KINDS, analyse_kernels
from schedperf.evidence.layout.maps import map_kernel
from schedperf.evidence.layout.model import Kernel
from schedperf.evidence.layout.record import Layout, LayoutMap, UnitKind
from schedperf.evidence.layout.sources import SCHEDULER_STRUCTS, load_kernel
from schedperf.model.errors import InputError
from schedperf_collectors import __version__
from schedperf_reports.evidence.layout.section import describe_layout, describe_maps
from schedperf_reports.standalone import Head, PageSource, draw_page

TITLE = "Cache lines"


class Request(Struct, frozen=True, kw_only=True):
    """The kernels to read and what to show of them.

    :param paths: the kernels, base first
    :param kinds: what to show: the per-CPU section, structs, global variables
    :param structs: names of the structs to read
    :param whole: names of the structs that a single kernel shows completely
    :param hot: variables, and fields such as ``rq.nr_running``, to place on fewer cache lines
    :param line_bytes: cache-line size; None to use the size that the kernels report
    """

    paths: tuple[Path, ...]
    kinds: tuple[UnitKind, ...]
    structs: tuple[str, ...]
    whole: tuple[str, ...]
    hot: tuple[str, ...]
    line_bytes: int | None

    def analyse(self) -> Layout | LayoutMap:
        """Read the kernels, and compare all others with the first; a single one gives its map.

        :raises InputError: a source cannot be read, or lacks a requested item
        """
        kernels = [load_kernel(path, structs=self.structs) for path in self.paths]
        labelled = _tell_apart(kernels, self.paths)
        if len(kernels) == 1:
            return map_kernel(
                labelled[0],
                line_bytes=self.line_bytes,
                kinds=self.kinds,
                whole=self.whole,
                hot=self.hot,
            )
        return analyse_kernels(labelled, line_bytes=self.line_bytes, kinds=self.kinds, hot=self.hot)

    def render(self, layout: Layout | LayoutMap, name: str | None, limit: int) -> str:
        """Return a result in a format.

        :param name: "json", "html" for a page, or None for text on stdout
        :param limit: alarms and table rows to show in the text
        """
        if name == "json":
            return dump_section(layout)
        blocks = (
            describe_layout(layout, limit)
            if isinstance(layout, Layout)
            else describe_maps(layout, limit)
        )
        if name == "html":
            return draw_page("layout", TITLE, blocks, self._head(layout))
        return draw_for_stdout(TITLE, blocks, see="--html or --json")

    def _head(self, layout: Layout | LayoutMap) -> Head:
        sides = tuple(
            PageSource(name=kernel.side, label=kernel.label, path=str(path))
            for kernel, path in zip(layout.kernels, self.paths, strict=True)
        )
        others = ", ".join(side.label for side in sides[1:])
        against = f"{others} vs {sides[0].label}" if others else sides[0].label
        return Head(
            title=f"cache lines: {against}",
            sides=sides,
            tool_version=__version__,
            schema=layout.schema_id(),
        )


def make_request(
    paths: Sequence[Path],
    kinds: Sequence[UnitKind],
    structs: Sequence[str],
    hot: Sequence[str],
    line_bytes: int | None,
) -> Request:
    """Return the request that the command's options describe.

    :param kinds: kinds of units; if empty, all kinds, and the scheduler's structs
    :param structs: names of structs
    :param hot: names, or comma-separated lists of names
    :param line_bytes: cache-line size; None to use the size that the kernels report
    :raises InputError: ``hot`` has texts, but none of them has a name
    """
    names = tuple(name.strip() for text in hot for name in text.split(",") if name.strip())
    if hot and not names:
        raise InputError(
            "--hot: empty list (expected variables and fields, e.g. sd_llc_id,rq.nr_running); "
            "name at least one"
        )
    return Request(
        paths=tuple(paths),
        kinds=tuple(kinds) or KINDS,
        structs=tuple(dict.fromkeys(structs if kinds else (*structs, *SCHEDULER_STRUCTS))),
        whole=tuple(structs),
        hot=names,
        line_bytes=line_bytes,
    )


def _tell_apart(kernels: Sequence[Kernel], paths: Sequence[Path]) -> list[Kernel]:
    # Two files called System.map get their paths as labels.
    labels = [kernel.label for kernel in kernels]
    if len(set(labels)) == len(labels):
        return list(kernels)
    return [replace(kernel, label=str(path)) for kernel, path in zip(kernels, paths, strict=True)]
