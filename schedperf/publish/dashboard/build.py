# SPDX-License-Identifier: GPL-2.0-or-later
"""Publish the pages of a lab: draw what has changed, write it, remove what is not there any more.

Pages follow from the store alone: a site that is written anew is equal, byte by byte, to one that
was written night by night. Pages of series change every night; those of earlier nights are drawn
again only if their rows have changed.
"""

import gc
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from msgspec import Struct, ValidationError, json

from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.recent import Recent, read_nights
from schedperf.history.questions.records import Series
from schedperf.history.store.directory import is_url, open_directory
from schedperf.publish.dashboard.decisions import draw_decisions
from schedperf.publish.dashboard.frame import Frame, read_assets, version_of_pages
from schedperf.publish.dashboard.index import draw_index
from schedperf.publish.dashboard.lab import Lab, machine_id, read_lab
from schedperf.publish.dashboard.machine import draw_machine
from schedperf.publish.dashboard.names import find_private
from schedperf.publish.dashboard.night import draw_night
from schedperf.publish.dashboard.search import write_search
from schedperf.publish.dashboard.series import SeriesPages
from schedperf.publish.dashboard.shown import Shown
from schedperf.publish.pages.publish import list_records
from schedperf.publish.pages.site import Site, open_site

STATE = ".dashboard.json"
# What the dashboard writes; everything else in the directory stays.
_FOLDERS = ("a", "m", "n", "s")


class _State(Struct, frozen=True, kw_only=True):
    """What the pages of nights were drawn from.

    :param version: of schedperf's pages, and what is left out
    :param nights: mark of the rows of each date
    """

    version: str = ""
    nights: Mapping[str, str] = {}


class Built(Struct, frozen=True, kw_only=True):
    """What was done.

    :param written: number of pages that are new or have changed
    :param left_out: texts in which something was replaced
    """

    written: int
    left_out: int


def publish_lab(
    store: Path | str,
    out: Path,
    *,
    today: date,
    public: Collection[str] = (),
    is_private: bool = False,
    without_trees: Sequence[str] = (),
    base_url: str | None = None,
) -> Built:
    """Publish the pages of a lab below a directory.

    :param store: directory of the store, or URL of its database
    :param today: date of the publication, for what is late
    :param public: names that are not private
    :param is_private: leave nothing out, and say so on each page
    :param without_trees: trees about which nothing is published
    :param base_url: URL of the site, for the links of the feed; None if unknown
    :raises InputError: the store cannot be read, the directory cannot be written, or has pages of
        the other kind
    """
    with _without_collection(), open_history(store) as history, open_site(out) as site:
        site.refuse_other_kind(is_private=is_private)
        directory = None if is_url(store) else open_directory(Path(store))
        private = None if is_private else find_private(history, directory, public)
        shown = Shown(private)
        lab = read_lab(history, shown, site.entries, today, without_trees)
        frame = Frame(is_private=is_private)
        named = "\n".join((*(private.names if private else ()), *sorted(public), *without_trees))
        version = hashlib.sha256(
            f"{version_of_pages()}\n{is_private}\n{named}".encode()
        ).hexdigest()
        state = _read_state(out / STATE)
        marks = _marks(lab)
        kept = {*marks} if state.version == version else set()
        kept = {each for each in kept if state.nights.get(each) == marks[each] and _has(out, each)}
        site.claim(is_private=is_private, lab=True)
        writer = _Writer(site)
        drawn = [each for each in marks if each not in kept]
        # Rows of pages are kept only if no earlier night has changed.
        is_next = bool(kept) and min(drawn, default="~") > max(kept) and state.nights.keys() <= kept
        pages = SeriesPages(lab, shown, frame)
        for recent in lab.series:
            name = f"s/{recent.series.key}.html"
            before = writer.read(name) if is_next else b""
            writer.write(name, pages.draw(recent, before), before or None)
        for name, content in _draw(history, lab, shown, frame, drawn):
            writer.write(name, content)
        for name, content in list_records(site, base_url).items():
            writer.write(name, content)
        written = writer.finish({f"n/{each}.html" for each in kept})
        _write_state(site, _State(version=version, nights=marks))
    return Built(written=written, left_out=shown.left_out)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Suspend the search for cycles of garbage, which takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _has(out: Path, night: str) -> bool:
    return (out / f"n/{night}.html").is_file()


def _marks(lab: Lab) -> Mapping[str, str]:
    """Return what the page of each night is drawn from, as a short text."""
    outcomes: dict[str, list[str]] = {}
    for each in lab.outcomes:
        outcomes.setdefault(each.night[:10], []).append(f"{each.machine} {each.job} {each.outcome}")
    return {
        night: hashlib.sha256(
            f"{lab.night_marks.get(night)}{lab.missing.get(night)}"
            f"{sorted(outcomes.get(night, ()))}".encode()
        ).hexdigest()[:16]
        for night in sorted({*lab.night_marks, *outcomes})
    }


def _draw(
    history: History, lab: Lab, shown: Shown, frame: Frame, nights: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file.

    :param nights: dates whose pages are drawn
    """
    yield from ((asset.path, asset.content) for asset in read_assets().values())
    by_machine: dict[str, list[Recent]] = {}
    for recent in lab.series:
        by_machine.setdefault(lab.machine(recent.series).id, []).append(recent)
    classes = _classes(history.series(), shown)
    for name, of_machine in by_machine.items():
        machine = lab.machine(of_machine[0].series)
        page = draw_machine(lab, machine, of_machine, classes.get(name, ()), frame)
        yield f"m/{name}.html", page
    results = read_nights(history, nights)
    for night in nights:
        of_night = [each for each in results[night] if each.key in lab.shown_series]
        yield (
            f"n/{night}.html",
            draw_night(night, of_night, lab, shown, frame),
        )
    yield "decisions.html", draw_decisions(lab, frame)
    yield "index.html", draw_index(lab, shown, frame)
    yield from write_search(lab).items()


def _classes(series: Sequence[Series], shown: Shown) -> Mapping[str, tuple[str, ...]]:
    """Return the redacted class of each machine, by its identity."""
    return {machine_id(each.machine_class): (shown.text(each.machine_class),) for each in series}


class _Writer:
    """Writes files below a site, each under a temporary name first; equal ones stay as they are."""

    def __init__(self, site: Site) -> None:
        # Thousands of files: paths are texts, because objects take longer than the files.
        self._root = str(site.path)
        self._names: set[str] = set()
        self._planned: list[tuple[str, str]] = []
        self._temporary = str(site.new_temporary())
        os.mkdir(self._temporary)  # noqa: PTH102
        for name in _FOLDERS:
            os.makedirs(f"{self._root}/{name}", exist_ok=True)  # noqa: PTH103

    def read(self, name: str) -> bytes:
        """Return the content of a file of the site; b"" without one."""
        try:
            with open(f"{self._root}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return b""

    def write(self, name: str, content: bytes, before: bytes | None = None) -> None:
        """Plan to write a file; do nothing if it has this content.

        :param before: its content, if it is known
        """
        self._names.add(name)
        if content == (self.read(name) if before is None else before):
            return
        temporary = f"{self._temporary}/{len(self._planned)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123
            file.write(content)
        self._planned.append((temporary, f"{self._root}/{name}"))

    def finish(self, kept: Collection[str]) -> int:
        """Rename all files, and remove pages that are neither written nor kept."""
        for temporary, path in self._planned:
            os.rename(temporary, path)  # noqa: PTH104
        os.rmdir(self._temporary)  # noqa: PTH106
        stays = self._names | {*kept}
        for folder in _FOLDERS:
            for entry in os.scandir(f"{self._root}/{folder}"):
                if f"{folder}/{entry.name}" not in stays:
                    Path(entry.path).unlink()
        return len(self._planned)


def _read_state(path: Path) -> _State:
    try:
        return json.decode(path.read_bytes(), type=_State)
    except (FileNotFoundError, ValidationError, ValueError):
        # Without it, everything is drawn.
        return _State()


def _write_state(site: Site, state: _State) -> None:
    temporary = site.new_temporary()
    temporary.write_bytes(json.encode(state))
    temporary.rename(site.path / STATE)
