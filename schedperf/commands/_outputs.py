# SPDX-License-Identifier: GPL-2.0-or-later
"""Print a command's result and write its files.

Files are opened before the work starts, so that a wrong path is reported early; their contents are
replaced when the result is written. If writing fails, the file is removed, so that no part of a
file remains.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from schedperf.model.errors import InputError
from schedperf_collectors.machine.new_files import open_unplanted

if TYPE_CHECKING:
    from schedperf.model.sections import SectionData
    from schedperf_reports.blocks import Block

# The file name that stands for standard output.
STDOUT = "-"

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def limit_option(usual: int, what: str) -> Option:
    """Return the option ``--limit``.

    :param usual: default
    :param what: what is counted, e.g. "rows"
    """
    return click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(min=1),
        default=usual,
        show_default=True,
        help=f"Show at most N {what} in the text output.",
    )


def json_option(what: str) -> Option:
    """Return the option ``--json``.

    :param what: what is written, e.g. "all rows"
    """
    return click.option("--json", metavar="FILE", help=f"Write {what} as JSON; - is stdout.")


def printed_format(files: Mapping[str, str | None]) -> str | None:
    """Return the format that goes to stdout; None for the text report.

    :param files: output file per format, None if not requested
    :raises UsageError: more than one goes to stdout
    """
    printed = [name for name, file in files.items() if file == STDOUT]
    if len(printed) > 1:
        raise click.UsageError(
            f"stdout: {len(printed)} formats requested (expected one of {', '.join(printed)}); "
            "write the others to files"
        )
    return printed[0] if printed else None


def dump_json(data: object) -> str:
    """Return a record, or plain data, as a JSON text that ends with a newline."""
    # Imported here so that --help of all commands stays fast; so are the imports below.
    from schedperf.model.json_text import to_json  # noqa: PLC0415

    return to_json(data)


def dump_section(data: "SectionData") -> str:
    """Return the JSON of one section, identical to its part of ``schedperf compare --json``."""
    from schedperf.model.sections import Section  # noqa: PLC0415 # as above

    return dump_json(Section.of(data))


def draw_for_stdout(title: str, blocks: "Iterable[Block]", *, see: str) -> str:
    """Return a section as text, formatted for the terminal or pipe on stdout.

    :param see: option that shows the rows left out, e.g. "--json"
    """
    from schedperf.model.text import make_console  # noqa: PLC0415
    from schedperf_reports.formats import Options  # noqa: PLC0415
    from schedperf_reports.standalone import draw_text  # noqa: PLC0415

    console = make_console()
    has_colour = console.color_system is not None and not console.no_color
    return draw_text(title, blocks, Options(width=console.width, colour=has_colour, see=see))


@contextmanager
def open_outputs(
    files: Mapping[str, str | None], inputs: Sequence[Path]
) -> Iterator[dict[str, IO[str]]]:
    """Open the output files; :func:`write_output` replaces their contents.

    Files created here are removed if the block raises an error.

    :param files: output file by option; None and ``-`` are skipped
    :param inputs: files that must not be overwritten
    :return: the open files, by option
    :raises InputError: a file cannot be written, is an input, or was given twice
    """
    with ExitStack() as stack:
        opened: dict[str, IO[str]] = {}
        for name, file in files.items():
            if file is None or file == STDOUT:
                continue
            path = Path(file)
            if path.is_file() and any(
                path.samefile(opened_file.name) for opened_file in opened.values()
            ):
                raise InputError(f"{path}: given for two outputs; write to two files")
            opened[name] = stack.enter_context(_open_output(path, inputs))
        yield opened


@contextmanager
def _open_output(path: Path, inputs: Sequence[Path]) -> Iterator[IO[str]]:
    existed = path.exists()
    if existed and any(input_path.exists() and path.samefile(input_path) for input_path in inputs):
        raise InputError(f"{path}: also an input; write to another file")
    try:
        with _open_to_append(path) as stream:
            yield stream
    except BaseException:
        # An interrupt may arrive as soon as the file exists.
        if not existed and path.exists():
            path.unlink()
        raise


def _open_to_append(path: Path) -> IO[str]:
    try:
        # A surrogate in a captured name must not make the report fail.
        return open(path, "a", encoding="utf-8", errors="backslashreplace", opener=open_unplanted)
    except OSError as error:
        raise cannot_be_written(path, error) from None


def cannot_be_written(path: Path, error: OSError) -> InputError:
    """Return the error for an output file that cannot be written."""
    problem = (error.strerror or str(error)).lower()
    return InputError(f"{path}: cannot be written ({problem}); choose another path")


def write_output(stream: IO[str], pieces: Iterable[str]) -> None:
    """Replace the contents of a file; devices and pipes are only written to.

    After an error, the file is removed.

    :param pieces: parts of the new text, in order
    :raises InputError: the disk is full, or writing fails for another reason
    :raises BrokenPipeError: the reader of a pipe has closed it
    """
    path = Path(stream.name)
    is_file = path.is_file()
    try:
        if is_file:
            os.truncate(stream.fileno(), 0)
        for piece in pieces:
            with _naming(stream):
                stream.write(piece)
        with _naming(stream):
            stream.flush()
    except BaseException:
        # A partial report would look complete.
        if is_file:
            path.unlink()
        raise


def append_file(file: str, text: str, *, where: str) -> None:
    """Append a text to a file that other programs write to as well.

    :param where: what named the file, e.g. an environment variable
    :raises InputError: the file cannot be written
    """
    try:
        with Path(file).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(
            f"{where}: {file} cannot be written ({problem}); set it to a file, or unset it"
        ) from None


@contextmanager
def _naming(stream: IO[str]) -> Iterator[None]:
    """Turn a write error into InputError with the file's name; BrokenPipeError is unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # Closing flushes the rest, which fails again and would hide this error.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        raise cannot_be_written(Path(stream.name), error) from None
