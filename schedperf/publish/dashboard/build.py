# SPDX-License-Identifier: GPL-2.0-or-later
"""Publish the pages of a lab: draw what has changed, write it, remove what is not there any more.

Pages follow from the store alone: a site that is written anew is equal, byte by byte, to one that
was written night by night. Pages of series change every night; those of earlier nights are drawn
again only if their rows have changed.
"""

import gc
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, ValidationError, json

from schedperf.compare.workers import do_all
from schedperf.history.questions.history import open_history
from schedperf.history.questions.recent import NightOfSeries, Recent, read_nights
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
# Parts of the pages of one kind: enough that all processes end at about the same time.
_PARTS = 8

# Name, content, and the content that its file has, None if it was not read.
_Page = tuple[str, bytes, bytes | None]
_Part = Callable[[], Iterator[_Page]]
_Item = TypeVar("_Item")


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
        results = read_nights(history, drawn)
        classes = [each.machine_class for each in history.series()]
        series = SeriesPages(lab, shown, frame)
        parts: list[_Part] = [
            partial(_draw_others, lab, shown, frame),
            partial(_draw_machines, lab, shown, frame, classes),
            *(
                partial(_draw_nights, lab, shown, frame, [(each, results[each]) for each in part])
                for part in _divide(drawn)
            ),
            *(
                partial(_draw_series, series, part, writer.read if is_next else None)
                for part in _divide(lab.series)
            ),
        ]
        tasks = [
            partial(_write_part, part, writer.of_part(number), shown)
            for number, part in enumerate(parts)
        ]
        for of_part, left_out in do_all(tasks, count_workers()):
            writer.take(of_part)
            shown.left_out |= left_out
        for name, content in list_records(site, base_url).items():
            writer.write(name, content)
        written = writer.finish({f"n/{each}.html" for each in kept})
        _write_state(site, _State(version=version, nights=marks))
    return Built(written=written, left_out=len(shown.left_out))


def _divide(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    size = max(1, math.ceil(len(items) / _PARTS))
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _write_part(draw: _Part, writer: Writer, shown: Shown) -> tuple[Writer, set[str]]:
    """Draw and write some pages, in this or another process.

    :return: the writer, and the texts in which something was replaced
    """
    for name, content, before in draw():
        writer.write(name, content, before)
    return writer, shown.left_out


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


def _draw_series(
    pages: SeriesPages, series: Sequence[Recent], read: Callable[[str], bytes] | None
) -> Iterator[_Page]:
    """Draw the pages of some series.

    :param read: reads a page whose rows of earlier nights stay; None if none stay
    """
    for recent in series:
        name = f"s/{recent.series.key}.html"
        before = b"" if read is None else read(name)
        yield name, pages.draw(recent, before), before or None


def _draw_machines(lab: Lab, shown: Shown, frame: Frame, classes: Iterable[str]) -> Iterator[_Page]:
    """Draw the page of each machine.

    :param classes: of the machines, whole
    """
    by_machine: dict[str, list[Recent]] = {}
    for recent in lab.series:
        by_machine.setdefault(lab.machine(recent.series).id, []).append(recent)
    known = {machine_id(each): shown.text(each) for each in {*classes}}
    for name, of_machine in by_machine.items():
        machine = lab.machine(of_machine[0].series)
        yield f"m/{name}.html", draw_machine(lab, machine, of_machine, known[name], frame), None


def _draw_nights(
    lab: Lab,
    shown: Shown,
    frame: Frame,
    results: Sequence[tuple[str, Sequence[NightOfSeries]]],
) -> Iterator[_Page]:
    """Draw the pages of some nights.

    :param results: date and results of each
    """
    for night, of_night in results:
        of_shown = [each for each in of_night if each.key in lab.shown_series]
        yield f"n/{night}.html", draw_night(night, of_shown, lab, shown, frame), None


def _draw_others(lab: Lab, shown: Shown, frame: Frame) -> Iterator[_Page]:
    """Draw the pages that there is one of, and the assets."""
    yield from ((asset.path, asset.content, None) for asset in read_assets().values())
    yield "decisions.html", draw_decisions(lab, frame), None
    yield "index.html", draw_index(lab, shown, frame), None
    yield from ((name, content, None) for name, content in write_search(lab).items())


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
