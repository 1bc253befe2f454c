# SPDX-License-Identifier: GPL-2.0-or-later
"""The chart library: in the page, compressed, or in one file that many pages share."""

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from schedperf.model.errors import InputError
from schedperf_reports.page.views import NOTHING, compress, hash_of

# Of the hash in the file's name: a change of the library always makes another name.
NAME_DIGITS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Plotly:
    """The chart library as one page has it.

    :param island: its source, gzip in base64; nothing where the page has an address instead
    :param source: the address, relative to the page; "" where the page carries it
    :param integrity: the hash of the source, as browsers check it: "sha256-…"
    :param policy: what ``script-src`` must allow for it
    """

    island: Markup
    source: str
    integrity: str
    policy: tuple[str, ...]


@cache
def load_plotly(source: str | None = None) -> Plotly:
    """Return the library for a page.

    :param source: where the shared file is, seen from the page; None: the page carries it
    """
    text = _read_source()
    integrity = hash_of(text)
    checked = f"'{integrity}'"
    if source is None:
        island = compress(text)
        return Plotly(island=island, source="", integrity=integrity, policy=(checked,))
    # Browsers check a file by its hash over http, and cannot on a page that was opened from disk:
    # there only 'self' lets it in. No script of the page but ours asks for any.
    allowed = (checked, "'self'")
    return Plotly(island=NOTHING, source=source, integrity=integrity, policy=allowed)


@cache
def _read_source() -> str:
    # Imported here: a page without charts does not need it.
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    source: str = get_plotlyjs()
    return source


def share_plotly(directory: Path, page: Path) -> str:
    """Write the library into a directory, unless it is there; return its address for a page.

    :param page: the file that will refer to it; its address is relative to that file's directory
    :raises InputError: the directory cannot be written
    """
    data = _read_source().encode()
    file = directory / f"plotly-{hashlib.sha256(data).hexdigest()[:NAME_DIGITS]}.js"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.stat().st_size != len(data):
            _write_whole(file, data)
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise InputError(
            f"{directory}: cannot write the chart library: {problem}; "
            "choose another directory with --assets"
        ) from None
    return quote(os.path.relpath(file, page.parent).replace(os.sep, "/"))


def _write_whole(file: Path, data: bytes) -> None:
    # Another report may be read, or written, at this moment: the file is whole or not there.
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
