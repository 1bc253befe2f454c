"""The self-contained HTML page: blocks become views, the template draws them.

Whatever the page shows was written by strangers: the template escapes by
default, each expression is cleaned on its way out, and a Content-Security-Policy
allows our two scripts by their hashes and no network at all.
"""

import base64
import gzip
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from schedperf.model import Comparison
from schedperf_reports._clean import clean
from schedperf_reports._words import side_letter
from schedperf_reports.blocks import (
    Block,
    Figure,
    Items,
    Table,
    is_note,
    is_spanning,
    words_of_rule,
)

TEMPLATES = "schedperf_templates"

# Longer than any symbol or command line; a megabyte of text in a name must not become the page.
LONGEST_TEXT = 2000

# An id of this length is still a fragment that a mail client keeps whole.
LONGEST_ANCHOR = 120

# Level 6 costs a tenth of a second and level 9 saves no further per cent.
COMPRESSION_LEVEL = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A drawing with a script of its own, above the blocks of its section.

    :param markup: with its data
    :param style: name of its style sheet among the templates, once a page however many drawings
    :param scripts: names of its scripts in their order, likewise
    """

    markup: Markup
    style: str
    scripts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """One section of the page.

    :param name: its anchor: ``#layout``
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    drawn: tuple[Drawn, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One block as the template draws it.

    :param kind: the macro that draws it: "table"
    :param ids: the element ids of a table's rows, "" where a row has none
    :param links: for each item of a list, its evidence as (href or "", text)
    :param island: a figure's JSON
    """

    kind: str
    block: Block
    number: int
    ids: tuple[str, ...] = ()
    links: tuple[tuple[tuple[str, str], ...], ...] = ()
    island: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadSide:
    """One of what a page compares.

    :param name: "base", "new": its letter is drawn beside its label
    :param digest: of the file, ``created`` when it was recorded; "" where there is none
    """

    name: str
    label: str
    path: str
    digest: str = ""
    created: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What stands above and below the sections.

    :param title: of the browser's window
    :param sides: base first
    :param schema: of the data that the page shows
    """

    title: str
    sides: tuple[HeadSide, ...]
    tool_version: str
    schema: str


def render_page(comparison: Comparison, sections: Sequence[Described]) -> str:
    """Return the page of a whole comparison as HTML text, to be written as UTF-8."""
    sides = tuple(
        HeadSide(
            name=side.name,
            label=side.label,
            path=side.path,
            digest=side.digest,
            created=side.created or "",
        )
        for side in comparison.sides
    )
    against = f"{', '.join(side.label for side in sides[1:])}, against {sides[0].label}"
    head = Head(
        title=f"{comparison.overall.verdict}: {against}",
        sides=sides,
        tool_version=comparison.tool_version,
        schema=comparison.schema,
    )
    return render_sections(head, sections)


def render_sections(head: Head, sections: Sequence[Described]) -> str:
    """Return a page of any sections as HTML text, to be written as UTF-8."""
    anchors = _Anchors(sections)
    views = [(section, _view_blocks(section, anchors)) for section in sections]
    has_figures = any(view.kind == "figure" for _, shown in views for view in shown)
    drawn = [drawing for section in sections for drawing in section.drawn]
    styles = dict.fromkeys(("report.css", *(drawing.style for drawing in drawn)))
    scripts = dict.fromkeys(("report.js", *(name for drawing in drawn for name in drawing.scripts)))
    texts = [_read_template(name) for name in scripts]
    plotly = _load_plotly() if has_figures else None
    hashes = [*map(_hash, texts), *([plotly.digest] if plotly else [])]
    # The file says what it is without a charset of the network: browsers then read it as UTF-8.
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            head=head,
            sections=views,
            policy=_policy(hashes),
            style=Markup("".join(map(_read_template, styles))),  # noqa: S704 # our own files
            scripts=[Markup(text) for text in texts],  # noqa: S704 # our own files
            plotly=plotly,
            letter=side_letter,
        )
    )


@cache
def environment() -> Environment:
    """Return the templates; each of their expressions is cleaned and escaped."""
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
    # Every expression of the template passes here before it is escaped; what is Markup was made
    # by a macro or by this module.
    return value if isinstance(value, Markup) else clean(str(value), limit=LONGEST_TEXT)


def _read_template(name: str) -> str:
    return files(TEMPLATES).joinpath(name).read_text(encoding="utf-8")


class _Anchors:
    """Which element ids the page has, so that no link leads nowhere and no id is used twice."""

    def __init__(self, sections: Iterable[Described]) -> None:
        self._sections = {section.name: section.title for section in sections}
        self._rows = {
            anchor_id(section.name, anchor)
            for section in sections
            for block in section.blocks
            if isinstance(block, Table)
            for anchor in block.anchors
        }
        self._unused = set(self._rows)

    def take(self, section: str, anchor: str) -> str:
        """Return the id for a row; "" when an earlier row has it."""
        wanted = anchor_id(section, anchor)
        if not anchor or wanted not in self._unused:
            return ""
        self._unused.remove(wanted)
        return wanted

    def link(self, evidence: str) -> tuple[str, str]:
        """Return (href, text) for evidence: to its row, else to its section, else nowhere."""
        section, _, row = evidence.partition("#")
        if section not in self._sections:
            return "", evidence
        wanted = anchor_id(section, row)
        target = wanted if row and wanted in self._rows else section
        title = self._sections[section]
        return f"#{quote(target)}", f"{title}: {row}" if row else title


def anchor_id(section: str, row: str) -> str:
    """Return the element id of a row; where a text cannot be one, a hash makes it its own.

    >>> anchor_id("layout", "sd_llc_id")
    'layout-sd_llc_id'
    """
    plain = "".join(letter if letter.isalnum() or letter in "_.+-" else "-" for letter in row)
    if plain != row or len(row) > LONGEST_ANCHOR:
        digest = hashlib.sha256(row.encode(errors="surrogatepass")).hexdigest()
        plain = f"{plain[:LONGEST_ANCHOR]}-{digest[:8]}"
    return f"{section}-{plain}"


def _view_blocks(section: Described, anchors: _Anchors) -> list[View]:
    return [
        _view(block, section.name, number, anchors) for number, block in enumerate(section.blocks)
    ]


def _view(block: Block, section: str, number: int, anchors: _Anchors) -> View:
    kind = type(block).__name__.lower()
    match block:
        case Table():
            ids = block.anchors or ("",) * len(block.rows)
            taken = tuple(anchors.take(section, anchor) for anchor in ids)
            return View(kind=kind, block=block, number=number, ids=taken)
        case Items():
            links = tuple(tuple(map(anchors.link, item.evidence)) for item in block.items)
            return View(kind=kind, block=block, number=number, links=links)
        case Figure():
            island = htmlsafe_json_dumps(make_safe(block.figure), allow_nan=False)
            return View(kind=kind, block=block, number=number, island=island)
        case _:
            return View(kind=kind, block=block, number=number)


def make_safe(value: object) -> object:
    """Return a figure's JSON value with clean texts, in which Plotly finds no markup of its own.

    Plotly reads a little HTML in labels; an escaped ``<`` it shows as it stands.
    """
    if isinstance(value, str):
        return clean(value, limit=LONGEST_TEXT).replace("<", "&lt;")
    if isinstance(value, Mapping):
        return {str(key): make_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [make_safe(item) for item in value]
    # JSON has no NaN; Plotly leaves a gap for null.
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Plotly:
    """The chart library as the page carries it.

    :param island: its source, gzip in base64
    :param digest: of the source, for the policy
    """

    island: Markup
    digest: str


@cache
def _load_plotly() -> Plotly:
    # Imported here: a page without charts does not need it.
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    source: str = get_plotlyjs()
    packed = gzip.compress(source.encode(), COMPRESSION_LEVEL, mtime=0)
    island = Markup(base64.b64encode(packed).decode())  # noqa: S704 # base64 has no markup
    return Plotly(island=island, digest=_hash(source))


def _hash(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _policy(hashes: Iterable[str]) -> str:
    scripts = " ".join(f"'sha256-{digest}'" for digest in hashes)
    # Plotly writes style rules while it runs, and shows heat maps as images of data.
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
