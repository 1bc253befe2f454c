# SPDX-License-Identifier: GPL-2.0-or-later
"""Register output formats: each public module renders the record, and is named like its format.

::

    @output_format("html")
    def html(comparison: Comparison, options: Options) -> str:
        ...
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.errors import describe
from schedperf_collectors.registry import Origin, Registry


class Options(Struct, frozen=True, kw_only=True):
    """How to render.

    :param width: maximum length of a line of text, in columns
    :param colour: whether colour codes may be written
    :param see: option that shows the rows that a terminal leaves out
    :param everything: whether to render all sections instead of the first screen
    :param other_bases: for each side except base, the command that makes it base; empty if a page
        must not contain such commands
    """

    width: int
    colour: bool
    see: str = "--html or --json"
    everything: bool = False
    other_bases: Sequence[str] = ()


Render = Callable[[Comparison, Options], str]
# When a format uses the sections that only drawings use; "everything" means with --all.
DrawingUse = Literal["always", "everything", "never"]


class OutputFormat(Struct, frozen=True, kw_only=True):
    """One registered format.

    :param drawings: when the format uses the sections that only drawings use: "always", "never", or
        "everything" for only with ``--all``
    :param appends: by environment variable, the function that renders the text to append to the
        file that the variable names, if it is set
    """

    name: str
    render: Render
    drawings: DrawingUse
    appends: Mapping[str, Render] = {}

    def uses_drawings(self, *, everything: bool) -> bool:
        """Return whether the record must have the sections that only drawings use."""
        return self.drawings == "always" or (everything and self.drawings == "everything")


def _guard(plugin: OutputFormat, origin: Origin) -> OutputFormat:
    """Return a wrapper for another package's format whose errors name the package."""

    def render(comparison: Comparison, options: Options) -> str:
        try:
            text: object = plugin.render(comparison, options)
        except Exception as error:  # noqa: BLE001 # whatever it raises
            raise origin.error(f"render fails ({describe(error)})") from None
        if not isinstance(text, str):
            raise origin.error(f"render returns {text!r} (expected a text)")
        return text

    return replace(plugin, render=render)


registry: Registry[OutputFormat] = Registry(
    "schedperf_reports.formats", kind="output format", guard=_guard
)


def output_format(
    name: str, *, drawings: DrawingUse = "always", appends: Mapping[str, Render] | None = None
) -> Callable[[Render], Render]:
    """Register the decorated function, which renders the record, as an output format.

    :param drawings: as :attr:`OutputFormat.drawings`
    :param appends: as :attr:`OutputFormat.appends`; None for {}
    :raises DuplicatePlugin: another format has the name
    """

    def register(render: Render) -> Render:
        plugin = OutputFormat(name=name, render=render, drawings=drawings, appends=appends or {})
        registry.add(name, plugin)
        return render

    return register


def format_names() -> list[str]:
    """Return the names of all output formats, without importing them."""
    return registry.names()


def find_format(name: str) -> OutputFormat:
    """Return one output format without importing the others and their page templates.

    :param name: one of :func:`format_names`
    :raises PluginError: the format of another package cannot be used
    """
    return registry.find(name)


def all_formats() -> Mapping[str, OutputFormat]:
    """Import all output formats and return them by name.

    :raises PluginError: a format of another package cannot be used
    """
    return registry.all()
