"""The page in a real browser with another side as base: all that is said, and back."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.model import Comparison, Overall

pytestmark = pytest.mark.browser

Make = Callable[..., Comparison]
Visit = Callable[..., Any]

# What is said with one side as base: every text of the main part, in order.
TEXTS = "document.querySelector('main').innerText"
BANNER = "document.querySelector('.swapped').checkVisibility()"
TITLE = "document.title"
TABLE = "Tables.of(document.querySelector('.table[data-state]'))"


def test_the_button_swaps_all_that_is_said_and_back(swappable: Any) -> None:
    opened = swappable()
    before, title = opened.ask(TEXTS), opened.ask(TITLE)
    assert title == "regression: patched, against tip - schedperf"
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for(BANNER)
    assert opened.ask(TITLE) == "improvement: tip, against patched - schedperf"
    sides = "[...document.querySelectorAll('.top .side')].map((one) => one.innerText.trim())"
    # The letter, colour and shape are the role's; the label beside it is another one.
    assert [re.sub(r"\s+", " ", one) for one in opened.ask(sides)] == ["A patched", "B tip"]
    assert "A, the base, is now patched" in opened.page.locator(".swapped").inner_text()
    assert opened.ask(TEXTS) != before
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for(f"!({BANNER})")
    assert (opened.ask(TEXTS), opened.ask(TITLE)) == (before, title)
    assert (opened.console, opened.errors) == ([], [])


def test_the_key_swaps_and_the_address_keeps_it(swappable: Any) -> None:
    opened = swappable()
    opened.press("s")
    opened.wait_for(BANNER)
    assert opened.ask("location.hash") == "#?base=B"
    assert opened.ask("document.getElementById('swap').getAttribute('aria-pressed')") == "true"
    again = swappable(anchor="#?base=B")
    assert again.ask(BANNER)
    assert again.ask(TITLE).startswith("improvement")
    again.press("s")
    again.wait_for(f"!({BANNER})")
    assert again.ask("location.hash") == ""


def test_an_address_that_names_no_side_shows_the_pages_own(swappable: Any) -> None:
    opened = swappable(anchor="#verdict?base=Z&theme=pink")
    assert not opened.ask(BANNER)
    assert opened.ask(TITLE).startswith("regression")
    assert opened.errors == []


def test_scripts_work_on_what_was_swapped_in(swappable: Any) -> None:
    opened = swappable()
    opened.press("s")
    opened.wait_for(BANNER)
    opened.press("s")
    opened.wait_for(f"!({BANNER})")
    assert opened.draw_all() >= 1
    assert opened.ask("document.querySelectorAll('.js-plotly-plot .main-svg').length") > 0
    assert opened.errors == []


def test_what_was_done_to_a_table_a_moment_ago_is_kept(swappable: Any) -> None:
    opened = swappable()
    # The address is written some time after the last letter; here that time never comes.
    opened.ask("() => { window.setTimeout = () => 1; }")
    opened.ask(f"{TABLE}.acts.find('nothing of it')")
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for(BANNER)
    assert opened.ask(f"{TABLE}.rows.search") == "nothing of it"
    assert "=qnothing+of+it" in opened.ask("location.hash")


RESULTS = "Tables.of(document.querySelector('#benchmarks .table[data-state]'))"
ROW_NAMES = f"{RESULTS}.rows.items.map((item) => item.name)"


def test_what_is_put_away_is_never_another_row_of_the_swapped_sides(
    visit: Visit, make_comparison: Make, make_row: Callable[..., Any]
) -> None:
    def of(*metrics: str) -> Comparison:
        return make_comparison(rows=tuple(make_row(metric=one, point="") for one in metrics))

    opened = visit(of("a", "b", "c"), options={"swapped": lambda: [of("c", "b", "a")]})
    names = opened.ask(ROW_NAMES)
    opened.ask(f"{RESULTS}.hide({RESULTS}.rows.items[0])")
    opened.ask(f"{RESULTS}.open({RESULTS}.rows.items[1], true)")
    opened.ask(f"{RESULTS}.acts.find('-nothing')")
    opened.press("s")
    opened.wait_for(BANNER)
    assert opened.ask(ROW_NAMES) == names[::-1]
    assert opened.ask(f"{RESULTS}.rows.hidden.size") == 0
    assert opened.ask(f"{RESULTS}.rows.all.filter((item) => item.isOpen).length") == 0
    assert opened.ask(f"{RESULTS}.rows.search") == "-nothing"
    # Whoever opens an address means its rows, whichever side is base in it.
    opened.ask(f"{RESULTS}.hide({RESULTS}.rows.items[2])")
    again = visit(
        of("a", "b", "c"),
        options={"swapped": lambda: [of("c", "b", "a")]},
        anchor=opened.ask("new URL(page.addressHere()).hash"),
    )
    assert (
        again.ask(f"[...{RESULTS}.rows.hidden]") == opened.ask(f"[...{RESULTS}.rows.hidden]") != []
    )


def test_rows_that_are_the_same_stay_opened_after_a_swap(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison(), options={"swapped": lambda: [make_comparison()]})
    opened.ask(f"{RESULTS}.open({RESULTS}.rows.items.find((item) => item.opened), true)")
    opened.press("s")
    opened.wait_for(BANNER)
    assert opened.ask(f"{RESULTS}.rows.all.filter((item) => item.isOpen).length") == 1


def test_the_keyboard_goes_on_from_the_same_row_after_a_swap(
    visit: Visit, make_comparison: Make
) -> None:
    opened = visit(make_comparison(), options={"swapped": lambda: [make_comparison()]})
    focused = "document.activeElement.closest('[data-row]')?.dataset.row"
    opened.press("j", "j")
    row = opened.ask(focused)
    assert row is not None
    opened.press("s")
    opened.wait_for(BANNER)
    assert opened.ask("document.activeElement.tagName") == "TR"
    assert opened.ask(focused) == row
    opened.press("ArrowDown")
    assert int(opened.ask(focused)) > int(row)


def test_the_keyboard_goes_on_from_the_same_link_after_a_swap(swappable: Any) -> None:
    opened = swappable()
    opened.ask("document.querySelectorAll('nav a')[2].focus()")
    link = opened.ask("document.activeElement.hash")
    opened.press("s")
    opened.wait_for(BANNER)
    assert opened.ask("document.activeElement.matches('nav a')")
    assert opened.ask("document.activeElement.hash") == link


# Charts wait for their data until they are released.
HOLD = """() => {
  const { island } = page;
  window.held = [];
  page.island = async (element) => {
    await new Promise((resolve) => held.push(resolve));
    return island(element);
  };
  window.release = () => { page.island = island; held.forEach((go) => go()); };
}"""
PLOTS = "[...document.querySelectorAll('figure.chart > .plot')]"


def test_a_chart_that_was_being_drawn_is_forgotten(swappable: Any) -> None:
    opened = swappable()
    opened.ask(HOLD)
    opened.ask(
        f"() => {{ window.old = {PLOTS}.find((one) => one.checkVisibility());"
        " old.scrollIntoView({ behavior: 'instant' }); }"
    )
    opened.wait_for("old.dataset.drawn === 'started' && held.length > 0")
    opened.press("s")
    opened.wait_for(BANNER)
    opened.ask("release()")
    opened.wait_for("old.dataset.drawn !== 'started'")
    assert opened.ask("old.dataset.drawn") is None
    assert opened.ask("old.querySelector('.main-svg')") is None
    assert (opened.console, opened.errors) == ([], [])


def test_paper_has_the_charts_of_the_sides_that_were_swapped_meanwhile(swappable: Any) -> None:
    opened = swappable()
    opened.ask(HOLD)
    opened.watch_printing()
    opened.press("p")
    opened.wait_for("held.length > 0")
    opened.press("s")
    opened.wait_for(BANNER)
    opened.ask("release()")
    opened.wait_for("'printed' in window")
    assert opened.ask("window.printed")


def test_of_three_sides_each_can_be_base(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any], other_base: Comparison
) -> None:
    three = tuple(make_side(name, label=f"kernel {name}") for name in ("base", "new", "new2"))
    third = make_comparison(
        sides=(three[2], three[0], three[1]),
        overall=Overall(verdict="inconclusive", reason="r", exit_status=0),
    )
    options = {"swapped": lambda: [other_base, third]}
    opened = visit(make_comparison(sides=three), options=options, width=360)
    opened.page.get_by_label("Which side is base").select_option("C")
    opened.wait_for(BANNER)
    assert opened.ask(TITLE).startswith("inconclusive")
    assert "kernel new2" in opened.page.locator(".swapped").inner_text()
    assert opened.ask("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [1400, 768, 700])
def test_four_sides_have_room_for_their_names(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any], width: int
) -> None:
    names = ("base", "new", "new2", "new3")
    sides = tuple(make_side(name, label=f"kernel-{name}") for name in names)
    other = make_comparison(sides=sides)
    opened = visit(other, options={"swapped": lambda: [other] * 3}, width=width)
    labels = "[...document.querySelectorAll('.top .label')]"
    assert opened.ask(f"{labels}.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    head = "document.querySelector('.top').getBoundingClientRect()"
    controls = (
        "[...document.querySelectorAll('.tools > *')].map((one) => one.getBoundingClientRect())"
    )
    assert opened.ask(f"{controls}.every((one) => one.bottom <= {head}.bottom)")
    # What sticks below the head is not covered by it.
    opened.ask("document.getElementById('raw').scrollIntoView({ behavior: 'instant' })")
    opened.wait_for("scrollY > 0")
    assert opened.ask(
        f"document.querySelector('#raw h2').getBoundingClientRect().top >= {head}.bottom"
    )


def test_on_a_telephone_no_word_of_a_control_is_broken(
    visit: Visit, make_comparison: Make, make_side: Callable[..., Any]
) -> None:
    sides = tuple(make_side(name, label=f"kernel-{name}") for name in ("base", "new", "new2"))
    other = make_comparison(sides=sides)
    opened = visit(other, options={"swapped": lambda: [other] * 2}, width=360)
    controls = "[...document.querySelectorAll('.tools > button, .tools summary')]"
    heights = opened.ask(f"{controls}.map((one) => one.getBoundingClientRect().height)")
    assert len(heights) >= 4
    assert max(heights) < 30.0
    assert opened.ask("document.documentElement.scrollWidth") <= 360


SIGNED = re.compile(r"[+-]\d+(?:\.\d+)? %")


def numbers(record: Any) -> dict[str, Any]:
    return {row["metric"] + row["point"]: row for row in record["rows"]}


def test_the_swapped_page_says_what_the_swapped_comparison_says(
    browser: Any,
    make_bundle: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = (0.600, 0.612, 0.605, 0.609, 0.598)
    paths = {
        name: str(make_bundle(tmp_path / f"{name}.tar", label=name, runs=[
            {"time_s": factor * time} for time in times
        ]))
        for name, factor in (("tip", 1.0), ("patched", 1.3))
    }  # fmt: skip
    pages = {}
    for base, new in itertools.permutations(paths):
        page = tmp_path / f"{base}.html"
        main(["compare", paths[base], paths[new], "--html", str(page), "--json", "-"])
        pages[base] = page, json.loads(capsys.readouterr().out)
    tab = browser.new_page()
    said = {}
    for base, anchor in (("tip", ""), ("tip", "#?base=B"), ("patched", "")):
        tab.goto("about:blank")
        tab.goto(f"{pages[base][0].as_uri()}{anchor}")
        while tab.evaluate("document.documentElement.dataset.ready") != "true":
            tab.wait_for_timeout(50)
        # The only difference: the record to save is in the file once.
        tab.evaluate("document.querySelector('#raw')?.remove()")
        said[base, anchor] = tab.evaluate(f"[{TITLE}, {TEXTS}]")
    tab.close()
    assert said["tip", "#?base=B"] == said["patched", ""]
    assert SIGNED.findall(said["tip", ""][1])
    assert "regression" in said["tip", ""][0]
    assert "improvement" in said["patched", ""][0]
    mirrored, back = (numbers(pages[base][1]) for base in ("tip", "patched"))
    for name, row in mirrored.items():
        assert row["ratio"] * back[name]["ratio"] == pytest.approx(1.0)


def test_a_pressed_button_can_be_read_below_the_pointer(swappable: Callable[..., Any]) -> None:
    opened = swappable()
    opened.page.get_by_role("button", name="Swap").click()
    opened.wait_for("document.getElementById('swap').matches(':hover[aria-pressed=true]')")
    colours = "(({color, backgroundColor}) => [color, backgroundColor])"
    ink, ground = opened.ask(f"{colours}(getComputedStyle(document.getElementById('swap')))")
    assert ink != ground
