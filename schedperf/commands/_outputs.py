"""Files that a command writes: opened before the work starts, complete or not there at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from schedperf.errors import InputError


@contextmanager
def open_output(path: Path, inputs: Sequence[Path]) -> Iterator[IO[str]]:
    """Open a file to write to; what was in it stays until :func:`write_output`.

    A file that was not there before disappears again when an error ends the block.

    :param inputs: files that must not be overwritten
    :raises InputError: it cannot be written, or it is one of the inputs
    """
    existed = path.exists()
    if existed and any(other.exists() and path.samefile(other) for other in inputs):
        raise InputError(f"{path}: is one of the inputs; write to another file")
    try:
        # A surrogate in a captured name must not cost the report.
        stream = path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(f"{path}: cannot be written: {problem}; choose another place") from None
    with stream:
        try:
            yield stream
        except BaseException:
            if not existed:
                path.unlink(missing_ok=True)
            raise


def write_output(stream: IO[str], text: str) -> None:
    """Replace what is in the file; devices and pipes have nothing to replace."""
    if Path(stream.name).is_file():
        os.truncate(stream.fileno(), 0)
    stream.write(text)
    stream.flush()
