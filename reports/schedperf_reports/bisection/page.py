# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the page of ``schedperf bisect``: the answer first, then what it rests on."""

from collections.abc import Iterable, Mapping, Sequence

from schedperf.lab.bisect.document import BisectDocument, Status
from schedperf_reports.bisection.levels import draw_levels
from schedperf_reports.bisection.tables import (
    list_candidates,
    list_named,
    list_tested,
    list_untestable,
)
from schedperf_reports.blocks import Block, Headline, Item, Items, Tone
from schedperf_reports.page.head import Head, PageSource
from schedperf_reports.page.page import Described, render_sections

_TONES: Mapping[Status, Tone] = {"named": "bad", "withheld": "warning"}


def draw_bisect_page(
    document: BisectDocument, facts: Iterable[tuple[str, str]], *, path: str, tool_version: str
) -> str:
    """Return one self-contained HTML page.

    :param facts: what is known, each with its label; the first one is the answer
    :param path: file of the boots
    """
    (word, answer), *others = facts
    headline = Headline(word=word, text=answer, tone=_TONES.get(document.status, "plain"))
    tested = document.tested
    sections = {
        "Result": (headline, _list_facts(others)),
        "Levels": (*draw_levels(document, tested), *list_tested(document, tested)),
        **{
            f"Merged branch {branch.bad.short}": (
                *draw_levels(document, branch.tested),
                *list_tested(document, branch.tested),
            )
            for branch in document.branches
        },
        "Named commits": tuple(list_named(document)),
        "Probabilities": tuple(list_candidates(document.candidates)),
        "Untestable commits": tuple(list_untestable(document)),
    }
    return render_sections(_head(document, path, tool_version), [*_describe(sections)])


def _list_facts(facts: Iterable[tuple[str, str]]) -> Items:
    return Items(
        items=tuple(Item(text=": ".join(filter(None, (label, text)))) for label, text in facts)
    )


def _describe(sections: Mapping[str, Sequence[Block]]) -> Iterable[Described]:
    return (
        Described(name=title.lower().replace(" ", "-"), title=title, blocks=tuple(blocks))
        for title, blocks in sections.items()
        if blocks
    )


def _head(document: BisectDocument, path: str, tool_version: str) -> Head:
    good, bad = (each.short for each in (document.good, document.bad))
    return Head(
        title=f"bisection of {good}..{bad}",
        sides=(PageSource(name="", label=f"{good}..{bad}", path=path),),
        tool_version=tool_version,
        schema=document.schema,
    )
