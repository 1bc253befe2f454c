"""What a command prints and the files that it writes.

Files are opened before the work starts, and are complete or not there at all.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from schedperf.model.errors import InputError

if TYPE_CHECKING:
    from schedperf.model.comparison import SectionData
    from schedperf_reports.blocks import Block

# As the name of a file.
STDOUT = "-"

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def limit_option(usual: int, what: str) -> Option:
    """Return the option ``--limit``.

    :param what: is counted: "rows"
    """
    return click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(min=1),
        default=usual,
        show_default=True,
        help=f"How many {what} the text shows.",
    )


def json_option(what: str) -> Option:
    """Return the option ``--json``.

    :param what: is written: "all of it"
    """
    return click.option("--json", metavar="FILE", help=f"Write {what} as JSON; - is stdout.")


def printed_format(files: Mapping[str, str | None]) -> str | None:
    """Return which format goes to stdout; None: the text.

    :param files: by format, None where it was not asked for
    :raises UsageError: more than one goes to stdout
    """
    printed = [name for name, file in files.items() if file == STDOUT]
    if len(printed) > 1:
        raise click.UsageError(f"stdout can hold one format, not {' and '.join(printed)}")
    return printed[0] if printed else None


def dump_json(data: object) -> str:
    """Return a record, or plain data, as a JSON text that ends with a newline."""
    # Imported here so that --help of all commands stays fast; so are those below.
    from schedperf.model.json_text import write_json  # noqa: PLC0415
    from schedperf.model.schema import to_plain  # noqa: PLC0415

    return write_json(to_plain(data))


def dump_section(data: "SectionData") -> str:
    """Return the JSON of one section, the same as ``schedperf compare --json`` has of it."""
    from schedperf.model.comparison import Section  # noqa: PLC0415 # as above

    return dump_json(Section.of(data))


def draw_for_stdout(title: str, blocks: "Iterable[Block]", *, see: str) -> str:
    """Return a section as text for the terminal or the pipe that stdout is.

    :param see: what shows the rows that the text leaves out: "--json"
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
    """Open the files to write to; what was in them stays until :func:`write_output`.

    A file that was not there before disappears again when an error ends the block.

    :param files: by the option that asks for it; None and ``-`` are no file
    :param inputs: files that must not be overwritten
    :return: by option, those that are files
    :raises InputError: one cannot be written, is one of the inputs or is asked for twice
    """
    with ExitStack() as stack:
        opened: dict[str, IO[str]] = {}
        for name, file in files.items():
            if file is None or file == STDOUT:
                continue
            path = Path(file)
            if path.is_file() and any(path.samefile(other.name) for other in opened.values()):
                raise InputError(f"{path}: is asked for twice; write to two files")
            opened[name] = stack.enter_context(_open_output(path, inputs))
        yield opened


@contextmanager
def _open_output(path: Path, inputs: Sequence[Path]) -> Iterator[IO[str]]:
    existed = path.exists()
    if existed and any(other.exists() and path.samefile(other) for other in inputs):
        raise InputError(f"{path}: is one of the inputs; write to another file")
    try:
        with _open_to_append(path) as stream:
            yield stream
    except BaseException:
        # An interrupt may arrive as soon as the file is there.
        if not existed and path.exists():
            path.unlink()
        raise


def _open_to_append(path: Path) -> IO[str]:
    try:
        # A surrogate in a captured name must not cost the report.
        return path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise _cannot_be_written(path, error) from None


def _cannot_be_written(path: Path, error: OSError) -> InputError:
    problem = (error.strerror or str(error)).lower()
    return InputError(f"{path}: cannot be written: {problem}; choose another place")


def write_output(stream: IO[str], pieces: Iterable[str]) -> None:
    """Replace what is in the file; devices and pipes have nothing to replace.

    :param pieces: of the new text
    :raises InputError: the disk is full, or something else is wrong with it
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
        # A part of a report would pass for the whole.
        if is_file:
            path.unlink()
        raise


@contextmanager
def _naming(stream: IO[str]) -> Iterator[None]:
    """Say which file cannot be written; the system names none. A pipe's end is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # Closing writes what is left, which fails again and would hide this error.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        raise _cannot_be_written(Path(stream.name), error) from None
