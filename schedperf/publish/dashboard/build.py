# SPDX-License-Identifier: GPL-2.0-or-later
"""Publish the pages of a lab: draw what has changed, write it, remove what is not there any more.

Pages follow from the store alone: a site that is written anew is equal, byte by byte, to one that
was written night by night. Pages of series change every night; those of earlier nights are drawn
again only if their rows have changed.
"""

import gc
import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

from msgspec import Struct, ValidationError, json

from schedperf.compare.workers import do_all
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.recent import Recent, read_nights
from schedperf.history.questions.records import Series
from schedperf.history.store.directory import is_url, open_directory
from schedperf.model.workers import count_workers
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
from schedperf.publish.dashboard.writer import Writer
from schedperf.publish.pages.publish import list_records
from schedperf.publish.pages.site import Site, open_site

STATE = ".dashboard.json"
# Tasks of several processes: enough that all end at about the same time.
_PARTS = 8


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
        temporary = str(site.new_temporary())
        writer = Writer(str(site.path), temporary)
        writer.make_folders()
        drawn = [each for each in marks if each not in kept]
        # Rows of pages are kept only if no earlier night has changed.
        is_next = bool(kept) and min(drawn, default="~") > max(kept) and state.nights.keys() <= kept
        pages = SeriesPages(lab, shown, frame)
        tasks = [
            partial(_write_series, pages, part, writer.of_part(number), is_next=is_next)
            for number, part in enumerate(_divide(lab.series))
        ]
        for of_part, left_out in do_all(tasks, count_workers()):
            writer.take(of_part)
            shown.left_out |= left_out
        for name, content in _draw(history, lab, shown, frame, drawn):
            writer.write(name, content)
        for name, content in list_records(site, base_url).items():
            writer.write(name, content)
        written = writer.finish({f"n/{each}.html" for each in kept})
        _write_state(site, _State(version=version, nights=marks))
    return Built(written=written, left_out=len(shown.left_out))


def _divide(series: Sequence[Recent]) -> Iterator[Sequence[Recent]]:
    size = max(1, math.ceil(len(series) / _PARTS))
    for start in range(0, len(series), size):
        yield series[start : start + size]


def _write_series(
    pages: SeriesPages, series: Sequence[Recent], writer: Writer, *, is_next: bool
) -> tuple[Writer, set[str]]:
    """Draw and write the pages of some series, in this or another process.

    :param is_next: whether the rows of their earlier nights stay
    :return: the writer, and the texts in which something was replaced
    """
    for recent in series:
        name = f"s/{recent.series.key}.html"
        before = writer.read(name) if is_next else b""
        writer.write(name, pages.draw(recent, before), before or None)
    return writer, pages.shown.left_out


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
        page = draw_night(night, of_night, lab, shown, frame)
        yield f"n/{night}.html", page
    yield "decisions.html", draw_decisions(lab, frame)
    yield "index.html", draw_index(lab, shown, frame)
    yield from write_search(lab).items()


def _classes(series: Sequence[Series], shown: Shown) -> Mapping[str, tuple[str, ...]]:
    """Return the redacted class of each machine, by its identity."""
    return {machine_id(each.machine_class): (shown.text(each.machine_class),) for each in series}


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
