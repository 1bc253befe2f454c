# SPDX-License-Identifier: GPL-2.0-or-later
"""What strangers wrote stays text: in each text field of the record, in each format."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from schedperf.model.comparison import Comparison
from schedperf_reports.formats import Options, all_formats

Make = Callable[..., Comparison]
Replace = Callable[[Comparison, str], Comparison]

HOSTILE = [
    "<script>window.pwned = 1</script>",
    "</script></title></style><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    '"\' onmouseover="window.pwned = 1" x=\'',
    "javascript:window.pwned=1",
    "{{7*7}} {% raw %} ${7*7}",
    "<!-- ]]> --> &lt;b&gt;",
    "n" * 10_000,
]


class Elements(HTMLParser):
    """The elements and attribute names of a page, without their values."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(tag, name) for name, _ in attrs} | {(tag, "")}


def draw(comparison: Comparison) -> str:
    return all_formats()["html"].render(comparison, Options(width=78, colour=False))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:24])
def test_no_text_becomes_an_element_or_an_attribute(
    make_comparison: Make, replace_texts: Replace, text: str
) -> None:
    # A long text adds what shortens it, whatever it says.
    harmless = replace_texts(make_comparison(), "harmless " * 9)
    expected = Elements(draw(make_comparison())).found | Elements(draw(harmless)).found
    found = Elements(draw(replace_texts(make_comparison(), text))).found
    assert found <= expected


@pytest.mark.parametrize("text", HOSTILE[:1] + HOSTILE[-2:], ids=lambda text: text[:24])
def test_the_text_itself_is_shown(make_comparison: Make, replace_texts: Replace, text: str) -> None:
    shown: list[str] = []

    class Texts(HTMLParser):
        def handle_data(self, data: str) -> None:
            shown.append(data)

    Texts().feed(draw(replace_texts(make_comparison(), text)))
    assert any(text[:80] in one for one in shown)


def test_templates_in_texts_are_not_evaluated(
    make_comparison: Make, replace_texts: Replace
) -> None:
    page = draw(replace_texts(make_comparison(), "{{7*7}}"))
    assert "{{7*7}}" in page
    assert ">49<" not in page


@pytest.mark.parametrize("name", sorted(all_formats().keys() - {"json"}))
@pytest.mark.parametrize("letter", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u200b", "\ud800"])
def test_control_and_bidi_characters_are_stripped(
    make_comparison: Make, replace_texts: Replace, name: str, letter: str
) -> None:
    hostile = replace_texts(make_comparison(), f"swap{letter}per")
    text = all_formats()[name].render(hostile, Options(width=78, colour=False))
    visible = text.partition("<script")[0] if name == "html" else text
    assert letter not in text
    assert "swapper" in visible
    text.encode()


def test_long_texts_in_every_field_leave_a_small_page(
    make_comparison: Make, replace_texts: Replace
) -> None:
    # The record has 13 MB.
    page = draw(replace_texts(make_comparison(), "m" * 100_000))
    assert len(page) < 1_000_000
