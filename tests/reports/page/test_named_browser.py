# SPDX-License-Identifier: GPL-2.0-or-later
"""What a report names can be seen: functions as rows and frames, findings as drawings."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from schedperf.evidence.profile.flame_data import MOST_LISTED
from schedperf.evidence.profile.flame_record import FlameTrees
from schedperf.evidence.profile.record import Profile
from schedperf.model.comparison import Comparison
from schedperf.model.place import name_frame
from schedperf.model.sections import data_of
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

Example = Callable[[str], Comparison]

EXAMPLES = ["deep-cgroup", "deep-cgroup-arm64", "cluster-percpu"]
each_example = pytest.mark.parametrize("name", EXAMPLES)
WORD = re.compile(r"[\w.+:-]+")
FLAMES_ARE_DRAWN = """document.querySelector('figure.flames') !== null
  && document.querySelector('figure.flames:not([data-drawn])') === null"""
# What the field in the head finds: the number of rows as it says it, and whether a row of the name
# is among those that are listed.
SEARCH = """async (names) => {
  const field = document.getElementById("find");
  const pause = () => new Promise((resolve) => { setTimeout(resolve, 200); });
  const found = {};
  for (const name of names) {
    field.value = name;
    field.dispatchEvent(new Event("input"));
    await pause();
    const rows = [...document.querySelectorAll("#found button b")].map((one) => one.textContent);
    const isRow = rows.some((row) => row === name || row.startsWith(`${name} (`));
    found[name] = [document.querySelector("#found [role=status]").textContent, isRow];
  }
  return found;
}"""
# The frames that Find of a flame graph finds, by name.
FIND = """(names) => {
  const figure = document.querySelector("figure.flames");
  const field = figure.querySelector(".flame-controls textarea");
  return Object.fromEntries(names.map((name) => {
    field.value = name;
    field.dispatchEvent(new Event("input"));
    const frames = [...figure.querySelectorAll(".frame.found")];
    const drawn = frames.filter((one) => one.getAttribute("aria-label").startsWith(`${name}, `));
    return [name, drawn.filter((one) => one.getBoundingClientRect().width >= 1).length];
  }));
}"""


@pytest.fixture
def open_example(visit_file: Any, write_page: Any) -> Callable[..., Any]:
    """Open the page of an example: ``open_example("deep-cgroup", width=400)``."""
    return lambda name, **settings: visit_file(write_page(name), is_folded=True, **settings)


def functions_of_findings(comparison: Comparison) -> set[str]:
    """Return the sampled functions whose names stand in a finding."""
    data = data_of(comparison.sections, FlameTrees)
    assert data is not None
    trees = [tree for compared in data.comparisons for tree in compared.events]
    sampled = {name.symbol for tree in trees for name in tree.names if name.kernel}
    texts = [f"{finding.claim} {finding.attribution}" for finding in comparison.findings]
    return sampled & {word for text in texts for word in WORD.findall(text)}


def functions_of_classes(comparison: Comparison, number: int = 0) -> set[str]:
    """Return how the functions that the class table of a point names are called as frames."""
    data = data_of(comparison.sections, Profile)
    assert data is not None
    points = [point for event in data.comparisons[0].events for point in event.points]
    functions = [function for row in points[number].classes for function in row.functions]
    return {name_frame(function.symbol, function.name) for function in functions}


def names_of_classes(comparison: Comparison) -> set[str]:
    """Return the names that the class table of the first point prints."""
    data = data_of(comparison.sections, Profile)
    assert data is not None
    points = [point for event in data.comparisons[0].events for point in event.points]
    return {function.name for row in points[0].classes for function in row.functions}


@each_example
def test_each_named_function_is_a_row_that_search_finds(
    open_example: Any, compared_example: Example, name: str
) -> None:
    comparison = compared_example(name)
    named = names_of_classes(comparison) | functions_of_findings(comparison)
    assert len(named) > 20
    opened = open_example(name)
    for function, (count, is_row) in opened.ask(SEARCH, sorted(named)).items():
        assert re.match(r"\d+ rows?\b", count), (function, count)
        assert is_row, (function, count)


@each_example
def test_each_named_function_is_a_frame_that_find_finds(
    open_example: Any, compared_example: Example, name: str
) -> None:
    comparison = compared_example(name)
    named = functions_of_classes(comparison) | functions_of_findings(comparison)
    opened = open_example(name)
    opened.ask("page.go('profile')")
    opened.wait_for(FLAMES_ARE_DRAWN)
    found = opened.ask(FIND, sorted(named))
    assert [function for function, frames in found.items() if not frames] == []


def test_coloured_frames_are_counted_in_the_caption_and_listed(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.wait_for(FLAMES_ARE_DRAWN)
    coloured = opened.page.locator(".flame-graph .frame:is(.more, .less)").count()
    assert coloured > 5
    caption = opened.page.locator("figure.flames > figcaption").inner_text()
    assert caption.endswith(f"; {coloured} frames changed significantly (coloured)")
    table = opened.page.locator(".table", has_text=f"{coloured} frames changed significantly")
    assert table.locator("tbody > tr[data-row]").count() == min(coloured, MOST_LISTED)
    opened.page.get_by_role("button", name="Next change").click()
    steps = opened.page.locator(".flame-controls output").inner_text()
    assert steps.startswith(f"change 1 of {coloured}: ")
    assert opened.complaints == []


def test_other_commands_have_no_frames(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.wait_for(FLAMES_ARE_DRAWN)
    opened.page.locator("figure.flames .flame-controls textarea").fill("=perf|=python3")
    commands = '.frame:is([aria-label^="perf,"], [aria-label^="python3,"])'
    assert opened.page.locator(commands).count() == 0
    # All of them are one frame.
    opened.page.locator("figure.flames .flame-controls textarea").fill("=other load")
    other = opened.page.locator('.frame[aria-label^="other load,"]')
    assert other.count() == 1
    assert opened.page.locator(".frame.found:is(.more, .less)").count() == 0
    key = opened.page.locator(".flame-key").inner_text()
    assert "not coloured: commands other than the workload (other load)" in key
    other.hover()
    assert (
        "part of a command other than the workload"
        in opened.page.locator(".flame-detail").inner_text()
    )


def test_a_larger_change_has_a_stronger_colour(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.wait_for(FLAMES_ARE_DRAWN)
    script = """[...document.querySelectorAll(".flame-graph .frame:is(.more, .less)")].map(
      (one) => parseFloat(one.style.getPropertyValue("--heat")),
    )"""
    heats = opened.ask(script)
    assert max(heats) == pytest.approx(48.0)
    assert min(heats) < 0.75 * max(heats)


# Which elements are on top in the box above the graph, on a grid of points.
ON_TOP = """() => {
  const box = document.querySelector(".flame-detail");
  const { left, right, top, bottom } = box.getBoundingClientRect();
  const points = [];
  for (let x = left + 2; x < right - 2; x += 3) {
    for (let y = top + 2; y < bottom - 2; y += 5) {
      points.push(document.elementFromPoint(x, y));
    }
  }
  const others = points.filter((one) => one && !box.contains(one));
  return [points.length, [...new Set(others.map((one) => one.className))]];
}"""


@pytest.mark.parametrize("width", [1400, 400])
def test_no_frame_is_painted_over_the_box_above_the_graph(open_example: Any, width: int) -> None:
    opened = open_example("deep-cgroup-arm64", width=width)
    opened.ask("page.go('profile')")
    opened.wait_for(FLAMES_ARE_DRAWN)
    # Found and changed frames are those that are above other frames.
    opened.page.locator("figure.flames .flame-controls textarea").fill("e")
    for part in (0.2, 0.4, 0.6, 0.8):
        opened.ask(
            "(part) => { const graphs = document.querySelector('.flame-graphs');"
            " const { top, height } = graphs.getBoundingClientRect();"
            " scrollBy({ top: top + part * height - 200, behavior: 'instant' }); }",
            part,
        )
        count, others = opened.ask(ON_TOP)
        assert count > 100
        assert others == []


def row_of(function: str) -> str:
    return f"#profile tr[data-row]:has(> th > span.clip:text-is('{function}'))"


def test_an_opened_row_shows_callers_and_callees(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.press("s")
    opened.page.keyboard.type("update_load_avg")
    opened.page.locator("#found [role=status]").wait_for()
    opened.press("Enter", "Enter")
    line = opened.page.locator(row_of("update_load_avg")).first
    calls = line.locator("+ tr.opened .calls")
    calls.locator("table").first.wait_for()
    callers, callees = (calls.locator("table").nth(number).inner_text() for number in (0, 1))
    assert "Callers of update_load_avg" in callers
    assert re.search(r"enqueue_task_fair\s+0\.01\s+0\.55\s+\+0\.54", callers)
    assert re.search(r"__update_load_avg_se\s+0\.\d+\s+0\.\d+\s+\+0\.\d+", callees)
    # The address opens it again.
    opened.wait_for("location.hash.includes('t.profile')")
    address = opened.ask("location.href")
    opened.page.goto("about:blank")
    opened.go_to(address)
    calls.locator("table").first.wait_for()
    # A caller leads to its own row, by keyboard as well.
    calls.get_by_role("button", name="enqueue_task_fair", exact=True).focus()
    opened.press("Enter")
    other = opened.page.locator(row_of("enqueue_task_fair")).first
    other.locator("+ tr.opened .calls table").first.wait_for()
    assert opened.ask("document.activeElement.textContent.includes('enqueue_task_fair')")
    assert opened.complaints == []


def test_an_opened_row_leads_to_its_function_in_the_flame_graph(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.press("s")
    opened.page.keyboard.type("cpuacct_charge")
    opened.page.locator("#found [role=status]").wait_for()
    opened.press("Enter", "Enter")
    row = opened.page.locator(row_of("cpuacct_charge")).first
    row.locator("+ tr.opened").get_by_role(
        "button", name="Find this function in the flame graph"
    ).click()
    assert (
        opened.page.locator("figure.flames .flame-controls textarea").input_value()
        == "=cpuacct_charge"
    )
    assert "cpuacct_charge" in opened.page.locator(".flame-detail").inner_text()
    assert opened.ask(IN_WINDOW, ".frame.current")
    assert "q%253Dcpuacct_charge*z" in opened.ask("location.hash")


# Whether an element is in the window, and below the sticky head.
IN_WINDOW = """(selector) => {
  const { top, bottom, height } = document.querySelector(selector).getBoundingClientRect();
  const middle = height > innerHeight ? top + 10 : (top + bottom) / 2;
  return 48 <= middle && middle <= innerHeight;
}"""


def links_of(opened: Visit) -> Iterator[str]:
    """Yield the addresses of the reasons on the first screen and of all findings."""
    opened.ask("page.later.fillAll()")
    links = opened.page.locator(".why .reason a, #findings .evidence a")
    yield from dict.fromkeys(link.get_attribute("href") for link in links.all())


# The names of found frames that can be read: whole, in the window, below the box that sticks there;
# where a reader scrolls, outside of it as well.
READABLE = """(scrolls) => {
  const top = document.querySelector(".flame-detail").getBoundingClientRect().bottom;
  const { left, right } = document.querySelector(".flame-graphs").getBoundingClientRect();
  const isBetween = (box) => box.left >= left - 1 && box.right <= right + 1;
  const isIn = (box) =>
    scrolls || (box.top >= top && box.bottom <= innerHeight && isBetween(box));
  const frames = [...document.querySelectorAll(".frame.found:not(.bare)")]
    .filter((one) => one.scrollWidth <= one.clientWidth && isIn(one.getBoundingClientRect()));
  return frames.map((one) => one.textContent.replace(/^[\u25b2\u25bc] /, ""));
}"""


def shown_functions(words: str) -> set[str]:
    """Return the functions that a link to the flame graph says it shows."""
    return set(words.partition("flame graph: ")[2].split(", "))


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("number", [0, 1])
def test_one_click_on_a_finding_shows_all_of_its_functions(
    open_example: Any,
    compared_example: Example,
    open_tab: Callable[..., Any],
    number: int,
    width: int,
) -> None:
    opened = open_example("deep-cgroup-arm64", width=width)
    finding = compared_example("deep-cgroup-arm64").findings[number]
    # The first screen lists one beside the picture of the tasks' time, the section lists all.
    if number == 0:
        link = opened.page.locator(".why .reason a").first
        assert finding.clause in link.inner_text()
        named = shown_functions(link.locator(".shows").inner_text())
    else:
        opened.ask("page.go('findings')")
        link = opened.page.locator("#findings a.evidence").nth(number)
        named = shown_functions(link.inner_text())
    assert len(named) == 4
    assert all(f"{function} +" in finding.claim for function in named)
    link.click()
    opened.wait_for("document.querySelector('.frame.found.current') !== null")
    # The graph scrolls to what a narrow window has no room for.
    scrolls = width < 1000
    assert set(opened.ask(READABLE, scrolls)) == named
    # The address shows the same.
    visited = Visit(open_tab(width=width))
    visited.go_to(opened.ask("location.href"))
    visited.wait_for("document.querySelector('.frame.found.current') !== null")
    assert set(visited.ask(READABLE, scrolls)) == named
    assert [*opened.complaints, *visited.complaints] == []


def test_matches_are_readable_one_after_the_other(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.page.locator(".why .reason a").first.click()
    opened.wait_for("document.querySelector('.frame.found.current') !== null")
    opened.page.get_by_role("button", name="Whole graph").click()
    seen = set()
    total = opened.page.locator(".frame.found").count()
    for number in range(1, total + 1):
        opened.page.get_by_role("button", name="Next match").click()
        (said, *_) = opened.page.locator(".flame-controls output span").all_inner_texts()
        match = re.fullmatch(rf"match (\d+) of {total}: (\w+)", said)
        assert match
        assert int(match[1]) == number
        assert match[2] in opened.ask(READABLE)
        assert opened.page.locator(".frame.found.current").count() == 1
        seen.add(match[2])
    link = opened.page.locator(".why .reason a").first
    assert seen == shown_functions(link.locator(".shows").text_content() or "")


def test_the_numbers_beside_find_are_those_of_the_finding(
    open_example: Any, compared_example: Example
) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.page.locator(".why .reason a").first.click()
    opened.wait_for("document.querySelector('.frame.found.current') !== null")
    own, whole = opened.page.locator(".flame-controls output span").all_inner_texts()
    comparison = compared_example("deep-cgroup-arm64")
    assert f"change +{comparison.findings[0].value:.3g} pp" in whole
    assert "all functions of the class PELT and group shares" in whole
    data = data_of(comparison.sections, Profile)
    assert data is not None
    point = data.comparisons[0].events[0].points[0]
    (row,) = (row for row in point.classes if row.class_ == "PELT and group shares")
    named = sum(function.change for function in row.functions)
    change = re.search(r"change \+([\d.]+) pp", own)
    assert change
    assert float(change[1]) == pytest.approx(named, abs=0.01)
    assert re.match(r"\d+ frames of 4 functions; self, on all call paths: ", own)


@pytest.mark.parametrize("width", [1400, 400])
def test_the_field_of_find_shows_all_of_its_text(open_example: Any, width: int) -> None:
    opened = open_example("deep-cgroup-arm64", width=width)
    opened.page.locator(".why .reason a").first.click()
    opened.wait_for("document.querySelector('.frame.found.current') !== null")
    field = opened.page.locator(".flame-controls textarea")
    assert len(field.input_value()) > 70
    assert field.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert field.evaluate("(one) => one.scrollHeight <= one.clientHeight")
    right = field.evaluate("(one) => one.getBoundingClientRect().right")
    assert right <= width
    lines = field.evaluate(
        "(one) => Math.round(one.clientHeight / parseFloat(getComputedStyle(one).fontSize) / 1.5)"
    )
    assert lines == (1 if width > 1000 else 2)


def test_find_takes_whole_names_and_lists_of_lines(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.ask("page.go('profile')")
    opened.wait_for(FLAMES_ARE_DRAWN)
    field = opened.page.locator(".flame-controls textarea")
    found = opened.page.locator(".frame.found")
    names = "(some) => [...new Set(some.map((one) => one.ariaLabel.split(',')[0]))]"
    field.fill("update_load_avg")
    functions = {"update_load_avg", "__update_load_avg_cfs_rq", "__update_load_avg_se"}
    in_interrupts = {f"{function} (interrupts)" for function in functions}
    assert set(found.evaluate_all(names)) == functions | in_interrupts
    field.fill("=update_load_avg")
    assert found.evaluate_all(names) == ["update_load_avg"]
    # Find ignores the suffix that the compiler gives a copy.
    field.fill("=el0_svc_common")
    assert found.evaluate_all(names) == ["el0_svc_common.constprop.0"]
    field.fill("=reweight_entity\n=update_tg_load_avg")
    assert set(found.evaluate_all(names)) == {"reweight_entity", "update_tg_load_avg"}
    assert field.input_value() == "=reweight_entity|=update_tg_load_avg"
    field.press("Enter")
    assert opened.page.locator(".frame.found.current").count() == 1
    assert set(opened.ask(READABLE)) >= {"reweight_entity"}
    field.press("Escape")
    assert found.count() == 0
    assert field.input_value() == ""


@pytest.mark.parametrize("width", [1400, 400])
def test_a_zoomed_frame_and_its_callees_are_in_the_window(open_example: Any, width: int) -> None:
    opened = open_example("deep-cgroup-arm64", width=width)
    opened.ask("page.go('profile')")
    opened.wait_for(FLAMES_ARE_DRAWN)
    opened.page.locator(".flame-graph").focus()
    opened.page.locator(".flame-controls textarea").fill("=enqueue_task_fair")
    opened.page.get_by_role("button", name="Next match").click()
    opened.page.locator(".frame.found.current").click()
    path = opened.page.locator(".flame-path")
    assert path.locator("[aria-current]").inner_text() == "enqueue_task_fair"
    boxes = opened.ask("""() => {
      const boxOf = (element) => element.getBoundingClientRect();
      const boxes = [...document.querySelectorAll(".frame")].map(boxOf);
      const { top } = boxOf(document.querySelector(".frame.current"));
      const { bottom } = boxOf(document.querySelector(".flame-detail"));
      const below = boxes.filter((box) => box.top > top).map((box) => box.bottom);
      return [top - bottom, innerHeight - Math.max(...below), below.length];
    }""")
    assert boxes[0] >= 0
    assert boxes[1] >= 0
    assert boxes[2] > 3
    # 26 callers share a row, but for the last two; a button shows all of them.
    assert opened.page.locator(".frame.caller").count() == 3
    assert opened.page.locator(".frame.caller.several").inner_text().startswith("\u2026 ")
    assert path.locator("button").count() == 7
    path.get_by_role("button", name="callers").click()
    assert path.locator("button").count() == 27


def test_the_selected_frame_differs_from_the_one_below_the_pointer(open_example: Any) -> None:
    opened = open_example("deep-cgroup-arm64")
    opened.page.locator(".why .reason a").first.click()
    opened.wait_for("document.querySelector('.frame.found.current') !== null")
    which = opened.page.locator(".flame-detail .flame-name i")
    assert which.inner_text() == "selected"
    opened.page.locator(".frame[aria-label^='update_tg_load_avg,']").hover()
    assert which.inner_text() == "below the pointer"
    assert opened.page.locator(".frame.pointed").inner_text().endswith("update_tg_load_avg")
    outline = "(one) => [getComputedStyle(one).outlineStyle, getComputedStyle(one).outlineColor]"
    pointed, current = (
        opened.page.locator(f".frame.{name}").evaluate(outline) for name in ("pointed", "current")
    )
    assert (pointed[0], current[0]) == ("dashed", "solid")
    assert pointed[1] != current[1]
    # The read-out says it in the same way.
    assert which.evaluate(outline) == pointed
    opened.page.mouse.move(0, 0)
    assert which.inner_text() == "selected"
    assert which.evaluate(outline) == current


def test_a_finding_on_a_whole_profile_leads_to_the_drawing(open_example: Any) -> None:
    opened = open_example("deep-cgroup")
    opened.ask("page.go('findings')")
    link = opened.page.locator("#findings a.evidence", has_text="flame graph").first
    named = shown_functions(link.inner_text())
    assert named == {
        "_raw_spin_unlock_irq", "_raw_spin_unlock_irqrestore",
        "_raw_spin_unlock_irqrestore (interrupts)", "finish_task_switch.isra.0",
        "finish_task_switch.isra.0 (interrupts)",
    }  # fmt: skip
    link.click()
    opened.wait_for("document.querySelector('.frame.found.current') !== null")
    assert set(opened.ask(READABLE)) == named
    other = open_example("cluster-percpu")
    other.ask("page.go('findings')")
    other.page.locator("#findings a.evidence", has_text="flame graph").first.click()
    other.wait_for("document.querySelector('figure.flames[data-target][data-drawn]') !== null")
    other.wait_for(f"({IN_WINDOW})('figure.flames[data-target] .frame')")


def test_a_finding_on_a_layout_leads_to_its_line(
    open_example: Any, open_tab: Callable[..., Any]
) -> None:
    opened = open_example("cluster-percpu")
    link = opened.page.locator(".why .reason a").first
    assert "sd_llc_id" in link.inner_text()
    link.click()
    line = ".line-group[data-target]"
    opened.wait_for(f"document.querySelector('{line}') !== null && ({IN_WINDOW})('{line}')")
    assert "sd_llc_id" in opened.page.locator(line).inner_html()
    visited = Visit(open_tab())
    visited.go_to(opened.ask("location.href"))
    visited.wait_for(f"document.querySelector('{line}') !== null && ({IN_WINDOW})('{line}')")
    assert visited.complaints == []


@each_example
def test_each_link_of_a_finding_lands_in_the_window_of_a_new_tab(
    open_example: Any, open_tab: Callable[..., Any], name: str
) -> None:
    opened = open_example(name)
    place = opened.ask("location.href.split('#')[0]")
    targets = list(links_of(opened))
    assert targets
    tab = Visit(open_tab())
    for href in targets:
        tab.page.goto("about:blank")
        tab.go_to(f"{place}{href}")
        tab.wait_for(f"document.querySelector('[data-target]') && ({IN_WINDOW})('[data-target]')")
    assert tab.complaints == []
