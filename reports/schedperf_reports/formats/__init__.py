# SPDX-License-Identifier: GPL-2.0-or-later
"""Output formats: each public module draws the record for one medium, and has the format's name.

::

    @output_format("html")
    def html(comparison: Comparison, options: Options) -> str:
        ...
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from schedperf.model.comparison import Comparison
from schedperf_collectors.registry import Registry, public_modules


class Options(Struct, frozen=True, kw_only=True):
    """How to draw.

    :param width: columns of the terminal or page of text
    :param colour: whether colour codes may be written
    :param see: what shows the rows that a terminal leaves out
    :param everything: all sections, instead of what a reader needs first
    :param other_bases: a command for each side but the base, which makes it base; none where a page
        shall name no such commands
    """

    width: int
    colour: bool
    see: str = "--html or --json"
    everything: bool = False
    other_bases: Sequence[str] = ()


Render = Callable[[Comparison, Options], str]
# When a format uses the sections that only drawings use: "everything" is with --all.
DrawingUse = Literal["always", "everything", "never"]


class OutputFormat(Struct, frozen=True, kw_only=True):
    """One registered format.

    :param summary: one line for ``--help``
    :param appends: by environment variable, what is appended to the file that the variable names,
        if it is set
    """

    name: str
    summary: str
    render: Render
    drawings: DrawingUse
    appends: Mapping[str, Render] = {}

    def uses_drawings(self, *, everything: bool) -> bool:
        """Return whether the record must have the sections that only drawings use."""
        return self.drawings == "always" or (everything and self.drawings == "everything")


registry: Registry[OutputFormat] = Registry("schedperf_reports.formats", kind="output format")


def output_format(
    name: str, *, drawings: DrawingUse = "always", appends: Mapping[str, Render] | None = None
) -> Callable[[Render], Render]:
    """Register the decorated function; the docstring's first line is its summary.

    :param appends: as :attr:`OutputFormat.appends`
    """

    def register(render: Render) -> Render:
        summary = (render.__doc__ or "").strip().partition("\n")[0]
        plugin = OutputFormat(
            name=name, summary=summary, render=render, drawings=drawings, appends=appends or {}
        )
        registry.add(name, plugin)
        return render

    return register


def format_names() -> list[str]:
    """Return the names of all output formats, without importing them."""
    return sorted(module.rpartition(".")[2] for module in public_modules(__name__))


def find_format(name: str) -> OutputFormat:
    """Return one output format; the others, the page's templates among them, are not imported.

    :param name: one of :func:`format_names`
    """
    return registry.find(name)


def all_formats() -> Mapping[str, OutputFormat]:
    """Return every output format, by name."""
    return registry.all()
