# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the self-contained HTML page: head, sections, scripts and a Content-Security-Policy.

The content is untrusted: the templates escape by default, each expression is cleaned when it is
printed, and the policy allows only our own scripts, by their hashes, and no network access.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block
from schedperf_reports.page.first_screen.labels import name_sides
from schedperf_reports.page.first_screen.screen import title_of
from schedperf_reports.page.head import Head, PageSource
from schedperf_reports.page.views import (
    Anchors,
    Within,
    all_blocks,
    draw_blocks,
    environment,
    hash_of,
    kind_of,
    own_files,
    read_template,
    shorten,
)
from schedperf_reports.sections import CHAPTERS
from schedperf_reports.words.rows import side_place

# Scripts of every page, in dependency order.
FRAME_SCRIPTS = (
    "page.js",
    "page_later.js",
    "page_elements.js",
    "page_keys.js",
    "page_copy.js",
    "page_head.js",
    "page_find.js",
)


class Described(Struct, frozen=True, kw_only=True):
    """One section of the page.

    :param name: its name, and the id of its element: "layout"
    :param chapter: one of ``CHAPTERS``, under which the section is listed; "" without chapters
    :param is_absent: whether it only lists what this page lacks
    :param line: text after the title if the section is folded; None if it is open
    :param is_evidence: whether its tables without a change are folded
    """

    name: str
    title: str
    blocks: tuple[Block, ...]
    chapter: str = ""
    is_absent: bool = False
    line: str | None = None
    is_evidence: bool = False


class Chapter(Struct, frozen=True, kw_only=True):
    """One entry of the list of sections.

    :param keys: keys that jump to it, typed in sequence: "gb"; "" for none
    :param is_absent: whether its only section lists what the page lacks
    """

    title: str
    keys: str
    is_absent: bool
    sections: tuple[Described, ...]

    @property
    def nested(self) -> tuple[Described, ...]:
        """Return the sections that are listed below it.

        Sections that only list what the page lacks, and one with the chapter's title, are not.
        """
        return tuple(
            section
            for section in self.sections
            if not section.is_absent and section.title != self.title
        )


def describe_head(comparison: Comparison, other_bases: Sequence[str] = ()) -> Head:
    """Return the text above and below a comparison.

    :param other_bases: for each side except base, the command that makes it base; () for none
    """
    commands = ("", *(other_bases or [""] * len(comparison.sides[1:])))
    labels = name_sides(comparison)
    sides = tuple(
        PageSource(
            name=side.name,
            label=label,
            path=side.path,
            digest=side.digest,
            created=side.created or "",
            as_base=as_base,
        )
        for side, label, as_base in zip(comparison.sides, labels, commands, strict=True)
    )
    return Head(
        title=title_of(comparison),
        sides=sides,
        tool_version=comparison.tool_version,
        schema=comparison.schema,
    )


def render_sections(head: Head, sections: Sequence[Described]) -> str:
    """Return a page of any sections as HTML text, to be written as UTF-8."""
    used = [block for section in sections for block in all_blocks(section.blocks)]
    kinds = set(map(kind_of, used))
    names = (*FRAME_SCRIPTS, *own_files(kinds, ".js"), "start.js")
    scripts = [shorten(read_template(name)) for name in names]
    style = "".join(
        shorten(read_template(name)) for name in ("page.css", *own_files(kinds, ".css"))
    )
    # The file declares its charset itself, because it may be opened without HTTP headers.
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            head=head,
            chapters=_chapters(sections),
            sections=_drawn(sections),
            place=side_place,
            policy=_policy(scripts),
            style=Markup(style),  # noqa: S704 # our own files
            scripts=[Markup(text) for text in scripts],  # noqa: S704 # our own files
        )
    )


def _drawn(sections: Sequence[Described]) -> list[tuple[Described, tuple[Markup, ...]]]:
    blocks = {section.name: section.blocks for section in sections}
    titles = {section.name: section.title for section in sections}
    anchors = Anchors(titles, blocks)
    drawn = []
    for section in sections:
        within = Within(
            section=section.name,
            anchors=anchors,
            is_folded=section.line is not None,
            folds=section.is_evidence and section.line is None,
        )
        drawn.append((section, draw_blocks(section.blocks, within)))
    return drawn


def _chapters(sections: Sequence[Described]) -> list[Chapter]:
    chapters = []
    for name, grouped in groupby(sections, key=lambda section: section.chapter):
        inner = tuple(grouped)
        if name:
            absent = all(section.is_absent for section in inner)
            title, keys = CHAPTERS[name], f"g{name[0]}"
            chapters.append(Chapter(title=title, keys=keys, is_absent=absent, sections=inner))
        else:
            chapters += [
                Chapter(title=section.title, keys="", is_absent=False, sections=(section,))
                for section in inner
            ]
    return chapters


def _policy(scripts: Iterable[str]) -> str:
    allowed = " ".join(f"'{hash_of(text)}'" for text in scripts)
    # Scripts set styles, and offer downloads by data URLs.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
