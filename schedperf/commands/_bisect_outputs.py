# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of commands that print the result of a search, and its formats."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._outputs import (
    dump_json,
    json_option,
    open_outputs,
    printed_format,
    write_output,
)

if TYPE_CHECKING:
    from schedperf.lab.bisect.document import BisectDocument

_OPTIONS = (
    click.option("--html", metavar="FILE",
                 help="Write the result, with the levels of the tested commits, as one HTML file; "
                      "- is stdout."),
    click.option("--git-log", metavar="FILE",
                 help="Write a log for `git bisect replay`; - is stdout."),
    json_option("the result"),
)  # fmt: skip


def result_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


class Outputs:
    """The files that the result is written to.

    :param given: values of the options
    :param source: file or directory of the boots, for the page
    """

    def __init__(self, given: Mapping[str, Any], source: Path) -> None:
        self._files = {"json": given["json"], "html": given["html"], "git-log": given["git_log"]}
        self._source = source
        self.printed = printed_format(self._files)

    @contextmanager
    def opened(self) -> "Iterator[Callable[[BisectDocument], None]]":
        """Open the files; yield a function that writes a result to them.

        :raises InputError: a file cannot be written, or is the source
        """
        with open_outputs(self._files, [self._source]) as files:

            def write(document: "BisectDocument") -> None:
                for name, file in files.items():
                    write_output(file, [self._render(document, name)])

            yield write

    def print(self, document: "BisectDocument") -> None:
        """Print a result on stdout, in the format of an option that names stdout, else as text."""
        click.echo(self._render(document, self.printed), nl=False)

    def _render(self, document: "BisectDocument", name: str | None) -> str:
        from schedperf.commands._bisect_text import describe_document, format_document  # noqa: PLC0415 # --help stays fast

        if name == "json":
            return dump_json(document)
        if name == "git-log":
            from schedperf.lab.bisect.git_log import write_git_log  # noqa: PLC0415 # as above

            return write_git_log(document)
        if name == "html":
            from schedperf import __version__  # noqa: PLC0415 # as above
            from schedperf_reports.bisection.page import draw_bisect_page  # noqa: PLC0415

            facts = describe_document(document)
            return draw_bisect_page(
                document, facts, path=str(self._source), tool_version=__version__
            )
        return format_document(document)
