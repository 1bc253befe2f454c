# SPDX-License-Identifier: GPL-2.0-or-later
"""Render blocks for the page: each by the template of its kind, cleaned and escaped."""

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape
from msgspec import Struct
from msgspec.structs import replace

from schedperf_reports.blocks import (
    Block,
    Graphic,
    Items,
    Table,
    is_note,
    is_spanning,
    words_of_rule,
)
from schedperf_reports.graphics.download import Download
from schedperf_reports.graphics.panels import Fold
from schedperf_reports.page.folding import is_folded_table
from schedperf_reports.words.anchors import anchor_id
from schedperf_reports.words.clean import clean

TEMPLATES = "schedperf_templates"

# Longer than any symbol or command line, so that a huge name does not fill the page.
LONGEST_TEXT = 2000


# For a large record, level 9 saves 3% more than level 6.
COMPRESSION_LEVEL = 9

# A table in the details of a row is static, unless it has more rows than this.
MOST_ROWS_ONLY_READ = 7

# Smaller tables need no sorting or searching.
LEAST_COMPRESSED_BYTES = 20_000

NOTHING = Markup()


class View(Struct, frozen=True, kw_only=True):
    """The data with which a template renders one block.

    :param section: name of its section
    :param number: index of the block in its section: "3"; of the second block in the details of the
        first row of a table, "3-0-1"; inside of a graphic, "3-plain-0"
    :param ids: element ids of a table's rows; "" for a row without one
    :param links: links to evidence for each item of a list; for a drawing, all links together
    :param island: HTML element with a graphic's data for its script
    :param plain: the blocks inside of a graphic, rendered
    :param details: details of each row of a table; empty if no row has details
    :param is_live: whether a script lets the reader sort, search and copy the table
    :param is_folded: whether it is one line until it is opened
    :param is_lazy: whether the folded content is in a ``noscript`` element; false inside of other
        folded content, because ``noscript`` elements cannot be nested
    """

    block: Block
    section: str
    number: str
    ids: tuple[str, ...] = ()
    links: tuple[tuple["Link", ...], ...] = ()
    island: Markup = NOTHING
    plain: tuple[Markup, ...] = ()
    details: tuple[tuple[Markup, ...], ...] = ()
    is_live: bool = True
    is_folded: bool = False
    is_lazy: bool = True


@cache
def environment() -> Environment:
    """Return the template environment, in which every expression is cleaned and escaped."""
    made = Environment(
        loader=PackageLoader(TEMPLATES, ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["spanning"] = is_spanning
    made.tests["note"] = is_note
    made.filters["words_of_rule"] = words_of_rule
    return made


def _finalize(value: object) -> object:
    # Every expression of a template passes here before it is escaped; Markup objects come from
    # macros or from this module.
    return value if isinstance(value, Markup) else _escape(str(value))


# Thousands of pages and rows repeat the same few texts.
@lru_cache(maxsize=16_384)
def _escape(text: str) -> Markup:
    return escape(clean(text, limit=LONGEST_TEXT))


def read_template(name: str) -> str:
    """Return the text of a file of the package ``schedperf_templates``, unchanged.

    :param name: path in the package: "blocks/chart.css"
    """
    return files(TEMPLATES).joinpath(name).read_text(encoding="utf-8")


_NOT_SHIPPED = re.compile(r"^[ \t]*(?://.*|/\*.*\*/)?\n|^[ \t]+", re.MULTILINE)


def shorten(text: str) -> str:
    """Return a script or a style sheet without indentation and without comments on their own lines.

    These are a fifth of the text.
    """
    return _NOT_SHIPPED.sub("", text)


def kind_of(block: Block) -> str:
    """Return the kind of a block, after which its template is named: "sidecolumns"."""
    return type(block).__name__.lower()


def own_files(kinds: Iterable[str], suffix: str) -> list[str]:
    """Return the paths of the style sheets or scripts of some kinds of blocks, sorted.

    They are named KIND.css or KIND_PART.css.

    :param suffix: ".css" or ".js"
    """
    folder = files(TEMPLATES).joinpath("blocks")
    prefixes = set(kinds)
    file_names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(suffix))
    names = [name for name in file_names if name.removesuffix(suffix).partition("_")[0] in prefixes]
    return [f"blocks/{name}" for name in names]


def all_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks, those inside of graphics, and those in the details of table rows."""
    for block in blocks:
        yield block
        if isinstance(block, Graphic):
            yield from all_blocks(block.inner())
        elif isinstance(block, Table):
            for inner in block.details:
                yield from all_blocks(inner)


class Within(Struct, frozen=True, kw_only=True):
    """The context in which blocks are rendered.

    :param section: name of the section
    :param is_in_row: whether they are the details of a row
    :param is_folded: whether they are inside of a folded part
    :param folds: whether tables without a change are folded
    """

    section: str
    anchors: "Anchors"
    is_in_row: bool = False
    is_folded: bool = False
    folds: bool = False


def draw_blocks(blocks: Sequence[Block], within: Within) -> tuple[Markup, ...]:
    """Return each block as markup."""
    return tuple(_draw(block, str(number), within) for number, block in enumerate(blocks))


def _draw(block: Block, number: str, within: Within) -> Markup:
    view = _view(block, number, within)
    template = environment().get_template(f"blocks/{kind_of(block)}.html.j2")
    return Markup(template.render(view=view).strip())  # noqa: S704 # the template escapes


def _view(block: Block, number: str, within: Within) -> View:
    def draw_inner(inner: Sequence[Block], prefix: str, inside: Within) -> tuple[Markup, ...]:
        return tuple(
            _draw(inner_block, f"{prefix}-{index}", inside)
            for index, inner_block in enumerate(inner)
        )

    view = View(block=block, section=within.section, number=number, is_lazy=not within.is_folded)
    match block:
        case Table():
            ids = block.anchors or ("",) * len(block.rows)
            is_folded = block.limit == 0 or (within.folds and is_folded_table(block))
            is_asked_for = within.is_folded or is_folded
            inside = replace(within, is_in_row=True, is_folded=is_asked_for)
            return replace(
                view,
                # A reader who opens the details of an unchanged row wants to see the tables.
                block=replace(block, quiet=()) if is_asked_for else block,
                ids=tuple(within.anchors.take(within.section, anchor) for anchor in ids),
                details=tuple(
                    draw_inner(inner, f"{number}-{index}", inside)
                    for index, inner in enumerate(block.details)
                ),
                is_live=not within.is_in_row or len(block.rows) > MOST_ROWS_ONLY_READ,
                is_folded=is_folded,
            )
        case Items():
            links = tuple(tuple(map(within.anchors.link, item.evidence)) for item in block.items)
            return replace(view, links=links)
        case Graphic():
            inside = replace(within, is_folded=within.is_folded or isinstance(block, Fold))
            plain = draw_inner(block.inner(), f"{number}-plain", inside)
            links = (tuple(map(within.anchors.link, block.cited())),)
            return replace(view, island=draw_island(block), plain=plain, links=links)
    return view


class Link(NamedTuple):
    """A link to evidence.

    :param href: URL; "" if the evidence is not on the page
    :param shows: description of the target in a drawing; "" without a drawing
    """

    href: str
    words: str
    shows: str = ""


class Anchors:
    """The element ids on the page, which are unique and are the targets of all links to evidence.

    :param sections: title of each section, by name
    :param blocks: blocks of each section, by name
    """

    def __init__(self, sections: Mapping[str, str], blocks: Mapping[str, Sequence[Block]]) -> None:
        self._sections = dict(sections)
        self._rows = dict(_named_rows(blocks))
        self._drawn = dict(_drawn_rows(blocks))
        self._unused = set(self._rows)

    def take(self, section: str, anchor: str) -> str:
        """Return the id for a row; "" if an earlier row has it, or if the anchor is empty."""
        row_id = anchor_id(section, anchor)
        if not anchor or row_id not in self._unused:
            return ""
        self._unused.remove(row_id)
        return row_id

    def link(self, evidence: str) -> Link:
        """Return the link for evidence: to its drawing, else to its row or section.

        The link has no URL if the page lacks the section.
        """
        section, _, row = evidence.partition("#")
        if section not in self._sections:
            return Link("", evidence)
        row_id = anchor_id(section, row)
        target = row_id if row and row_id in self._rows else section
        title = self._sections[section]
        name = self._rows.get(row_id, "") if row else ""
        address, shows = self._drawn.get((section, row), (quote(target), ""))
        words = shows or (f"{title}: {name}" if name else title)
        return Link(f"#{address}", words, shows)


def _named_rows(blocks: Mapping[str, Sequence[Block]]) -> Iterator[tuple[str, str]]:
    # The possible id of a row, and the row's subject.
    for section, some in blocks.items():
        for block in all_blocks(some):
            if isinstance(block, Table):
                for anchor, row in zip(block.anchors, block.rows, strict=False):
                    yield anchor_id(section, anchor), row[0].text


def _drawn_rows(
    blocks: Mapping[str, Sequence[Block]],
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    # Section and row of a drawing, the URL of the drawing, and its description; the first drawing
    # comes last, so that it is kept.
    for section, some in blocks.items():
        numbered = list(_numbered_graphics(some, ""))
        for number, graphic in reversed(numbered):
            own = f"{section}-{number}"
            for row, spot in graphic.spots().items():
                part = "" if spot.part is None else f"-{spot.part}"
                state = f"?f.{quote(own)}={quote(spot.state, safe='')}" if spot.state else ""
                address = f"{kind_of(graphic)}-{quote(own)}{part}{state}"
                yield (section, row), (address, spot.shows)


def _numbered_graphics(blocks: Sequence[Block], prefix: str) -> Iterator[tuple[str, Graphic]]:
    # With the numbers from draw_blocks.
    for index, block in enumerate(blocks):
        if isinstance(block, Graphic):
            number = f"{prefix}{index}"
            yield number, block
            yield from _numbered_graphics(block.inner(), f"{number}-plain-")


def draw_island(graphic: Graphic) -> Markup:
    """Return an element with a graphic's data, which ``page.island`` of the scripts reads.

    Large data are compressed. Return an empty text if the graphic has no data.
    """
    if isinstance(graphic, Download):
        packed = compress(graphic.write())
        return Markup('<script type="application/gzip">{}</script>').format(packed)
    data = graphic.data()
    if data is None:
        return NOTHING
    safe = make_safe(data)
    text = json.dumps(safe, allow_nan=False, separators=(",", ":"))
    if len(text) < LEAST_COMPRESSED_BYTES:
        return Markup('<script type="application/json">{}</script>').format(
            htmlsafe_json_dumps(safe, allow_nan=False, separators=(",", ":"))
        )
    return Markup('<script type="application/gzip">{}</script>').format(compress(text))


def hash_of(text: str) -> str:
    """Return the hash of a script in the form of a Content-Security-Policy: ``sha256-…``."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def compress(text: str) -> Markup:
    """Return a text as gzip in base64, which ``page.unpack`` of the scripts reads.

    Equal texts give equal results.
    """
    packed = gzip.compress(text.encode(), COMPRESSION_LEVEL, mtime=0)
    return Markup(base64.b64encode(packed).decode())  # noqa: S704 # base64 has no markup


def make_safe(value: object) -> object:
    """Return a JSON value with cleaned texts, and None in place of NaN and infinity."""
    if isinstance(value, str):
        return clean(value, limit=LONGEST_TEXT)
    if isinstance(value, Mapping):
        return {str(key): make_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_safe(item) for item in value]
    # JSON has no NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value
