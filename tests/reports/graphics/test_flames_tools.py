# SPDX-License-Identifier: GPL-2.0-or-later
"""What a reader does with a flame graph: parts, smaller trees, callers, addresses, keys."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.flame import Flame
from schedperf.evidence.profile.flame_data import describe_flame
from schedperf.evidence.profile.flame_record import FlameChanges, FlameTree
from schedperf.model.place import Place

pytestmark = pytest.mark.browser

# Of all graphs of one figure, as the script has it.
MOST_ELEMENTS = 2_400
# A tenth of it is usual.
LONGEST_MS = 3_000

# What conftest.py opens.
Visit = Any
MakeTrees = Callable[..., tuple[FlameTree, ...]]
MakeFlame = Callable[..., Flame]


def test_parts_of_the_samples_have_their_own_numbers(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    (tree,) = make_trees()
    opened = visit_flames([tree])
    opened.page.get_by_label("Samples of").select_option("node:0")
    base: Any = tree.parts[0].measures[0].self_.base
    assert f"base {sum(base):.2f}%, new" in opened.detail()
    assert "node 0" in opened.detail()
    assert re.search(r"95% CI \[[+\u2212]\d", opened.detail())
    assert "\u25b2 update_cfs_group" in opened.frames(".more")
    opened.page.get_by_label("Samples of").select_option("")
    assert "base 100.00%, new 100.00%" in opened.detail()
    assert opened.complaints == []


def test_the_kernel_alone_is_a_smaller_tree(
    visit_flames: Callable[..., Visit], make_flame: MakeFlame
) -> None:
    flame = make_flame((4, 4))
    user = [Place("main", "bench"), Place("write", "libc.so"), *flame.places[2:]]
    tree = describe_flame(make_flame((4, 4), user), None)
    opened = visit_flames([tree])
    opened.page.get_by_role("button", name="Kernel only").click()
    names = opened.frames()
    assert not any(name in ("main", "write") for name in names)
    # Of 100% main alone has 10 and write alone 20, of base.
    assert re.search(
        r"cycles, all samples\s+n = 4 \+ 4 runs\s+selected\s+base [56]\d\.", opened.detail()
    )
    box = opened.page.get_by_role("treeitem", name="read,").bounding_box()
    root = opened.page.locator("[data-frame='0']").bounding_box()
    assert box["y"] == root["y"] + root["height"] + 1
    # What is left whole keeps its interval, the root has lost some of its time.
    assert "no CI" in opened.detail()
    opened.page.get_by_role("treeitem", name="update_cfs_group,").hover()
    assert "95% CI" in opened.detail()


def test_one_side_alone_has_parts_and_smaller_trees_without_a_comparison(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    (tree,) = make_trees(runs=(3,))
    opened = visit_flames([tree])
    assert not opened.frames(".more")
    opened.page.get_by_role("treeitem", name="read,").hover()
    assert "base" not in opened.detail()
    opened.page.get_by_label("Samples of").select_option("node:0")
    # Chromium tells a pointer that rests what lies below it now, but not at once.
    opened.page.get_by_role("treeitem", name="read,").hover()
    own: Any = tree.parts[0].measures[0].self_.base
    assert f"self: {own[4]:.2f}%" in opened.detail()
    opened.page.get_by_role("button", name="Kernel only").click()
    assert "base" not in opened.detail()
    assert opened.complaints == []


def test_idle_time_is_hidden_with_what_it_calls(
    visit_flames: Callable[..., Visit], make_flame: MakeFlame
) -> None:
    flame = make_flame((4, 4))
    places = (*flame.places[:3], Place("cpu_idle_poll", "[kernel]"), flame.places[4])
    tree = describe_flame(make_flame((4, 4), places), None)
    assert tree.names[3].class_ == "idle"
    opened = visit_flames([tree])
    opened.page.get_by_role("button", name="Hide idle").click()
    assert not any("cpu_idle_poll" in name or "old_lock" in name for name in opened.frames())
    assert "base 4" in opened.detail()
    opened.page.get_by_role("button", name="Hide idle").click()
    assert "base 100.00" in opened.detail()


def test_callers_below_turn_the_graph_over_and_the_arrows_with_it(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.get_by_role("button", name="Callers below").click()
    root = opened.page.locator("[data-frame='0']").bounding_box()
    leaf = opened.page.get_by_role("treeitem", name="update_cfs_group,").bounding_box()
    assert root["y"] > leaf["y"]
    opened.page.locator(".flame-graph").focus()
    opened.page.keyboard.press("ArrowUp")
    assert opened.detail().startswith("main [kernel]")


def test_who_calls_and_what_is_called_stands_below_a_zoomed_graph(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    assert not opened.page.locator(".flame-around").is_visible()
    opened.page.get_by_role("treeitem", name="write,").click()
    tables = opened.page.locator(".flame-around table")
    callers, callees = (tables.nth(number).inner_text() for number in (0, 1))
    assert "Callers of write: %, summed over all call paths, no CIs" in callers
    assert re.search(r"main\s+3\d\.\d+\s+[345]\d\.\d+\s+\+1\d\.\d+", callers)
    assert re.search(r"update_cfs_group\s+\d+\.\d+\s+2\d\.\d+\s+\+1\d\.\d+", callees)
    tables.nth(1).get_by_role("button", name="update_cfs_group").click()
    path = opened.page.locator(".flame-path button").all_inner_texts()
    assert path == ["all", "main", "write", "update_cfs_group"]
    opened.page.locator(".flame-path button").nth(1).click()
    assert opened.page.locator(".flame-path button[aria-current]").inner_text() == "main"


def test_the_address_says_what_is_shown_and_shows_it_again(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees(events=("cycles", "page-faults")))
    page = opened.page
    page.locator(".flame-controls label:has-text('Event') select").select_option("1")
    page.get_by_role("button", name="New", exact=True).click()
    page.get_by_label("Measure").select_option("1")
    page.get_by_label("Samples of").select_option("comm:bench")
    page.get_by_role("button", name="Callers below").click()
    page.get_by_role("treeitem", name="write,").click()
    page.get_by_label("Find", exact=True).fill("update*")
    page.mouse.move(0, 0)
    address = page.evaluate("location.href")
    before = page.locator(".flame-graphs").inner_html()
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("figure.flames[data-drawn]")
    assert page.locator(".flame-graphs").inner_html() == before
    assert page.locator(".flame-controls label:has-text('Event') select").input_value() == "1"
    assert page.get_by_label("Measure").input_value() == "1"
    assert page.get_by_label("Samples of").input_value() == "comm:bench"
    assert page.get_by_label("Find", exact=True).input_value() == "update*"
    assert page.locator(".flame-path button[aria-current]").inner_text() == "write"
    assert page.get_by_role("button", name="Callers below").get_attribute("aria-pressed") == "true"
    assert opened.complaints == []


def test_an_address_of_another_report_shows_what_there_is(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.evaluate(
        "location.hash = '#stacks?f.stacks-0=e7*vnever*nnode%3A9*m5*pmain*pgone*%25'"
    )
    opened.page.wait_for_selector(".flame-path button[aria-current]")
    assert opened.page.locator(".flame-path button[aria-current]").inner_text() == "main"
    assert opened.complaints == []


def test_keys_of_the_page_reach_the_graph(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    keyboard = opened.page.keyboard
    keyboard.press("f")
    assert opened.page.evaluate("document.activeElement.className") == "flame-graph"
    keyboard.press("4")
    assert opened.page.locator(".flame-graph").count() == 3
    keyboard.press("2")
    assert opened.page.locator(".flame-graph").get_attribute("data-view") == "base"
    keyboard.press("f")
    keyboard.press("/")
    assert opened.page.evaluate("document.activeElement.placeholder") == "a | b, exact: =a"
    # A letter that is written is no key.
    keyboard.press("1")
    assert opened.page.locator(".flame-graph").get_attribute("data-view") == "base"


@pytest.mark.parametrize("width", [1400, 360])
def test_a_view_is_chosen_right_after_going_to_the_graph_and_the_focus_stays(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees, width: int
) -> None:
    opened = visit_flames(make_trees(), width=width)
    # The page is still scrolling there when the next key comes.
    opened.page.evaluate("document.querySelector('main').style.paddingTop = '4000px'")
    opened.page.keyboard.press("f")
    views = "[...document.querySelectorAll('.flame-graph')].map((one) => one.dataset.view)"
    seen = []
    for key in "2341":
        opened.page.keyboard.press(key)
        seen.append(opened.page.evaluate(views))
        assert opened.page.evaluate("document.activeElement.className") == "flame-graph"
    assert seen == [["base"], ["new"], ["base", "diff", "new"], ["diff"]]


def test_five_thousand_frames_are_drawn_in_a_bounded_number_of_elements(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees, computing_ms: Callable[..., float]
) -> None:
    (tree,) = make_trees()
    frames = 5_000
    values = (100.0, *[100.0 / frames] * frames)
    nothing = (None,) * (frames + 1)
    alike = FlameChanges(base=values, new=values, low=nothing, high=nothing, q=nothing, changed=())
    tree = replace(
        tree,
        parent=(-1, *[0] * frames),
        name=(-1, *[1] * frames),
        hidden=(0,) * (frames + 1),
        parts=(),
        measures=tuple(replace(one, inclusive=alike, self_=alike) for one in tree.measures),
        lists=None,
    )
    opened = visit_flames([tree])
    opened.page.get_by_role("button", name="All three").click()
    # All are found, and then drawn although they are narrow.
    milliseconds = computing_ms(
        opened.page,
        """() => {
          const search = document.querySelector(".flame-controls textarea");
          search.value = "write";
          search.dispatchEvent(new Event("input"));
          document.body.getBoundingClientRect();
        }""",
    )
    assert opened.page.locator(".frame").count() <= MOST_ELEMENTS
    assert milliseconds < LONGEST_MS


def test_find_takes_several_names(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.get_by_label("Find", exact=True).fill("update_cfs_group | OLD_lock")
    found = opened.frames(".found")
    assert {name.strip("\u25b2\u25bc ") for name in found} == {"update_cfs_group", "old_lock"}


def test_next_and_previous_change_go_round_the_coloured_frames(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    output = opened.page.locator(".flame-controls output")
    coloured = opened.page.locator(".frame:is(.more, .less)").count()
    seen = []
    for number in range(1, coloured + 1):
        opened.page.get_by_role("button", name="Next change").click()
        assert output.inner_text().startswith(f"change {number} of {coloured}: ")
        current = opened.page.locator(".frame.current")
        assert re.search("more|less", current.get_attribute("class"))
        seen.append(current.get_attribute("data-frame"))
    assert len(set(seen)) == coloured > 1
    opened.page.get_by_role("button", name="Next change").click()
    assert opened.page.locator(".frame.current").get_attribute("data-frame") == seen[0]
    opened.page.get_by_role("button", name="Previous change").click()
    assert opened.page.locator(".frame.current").get_attribute("data-frame") == seen[-1]


def test_changed_paths_alone_are_shown_and_in_the_address(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    (tree,) = make_trees()
    measure = tree.measures[0]
    (lock,) = (
        frame
        for frame, name in enumerate(tree.name)
        if name >= 0 and tree.names[name].symbol == "old_lock"
    )
    measure = replace(
        measure,
        inclusive=replace(measure.inclusive, changed=(lock,)),
        changed=(lock,),
    )
    opened = visit_flames([replace(tree, measures=(measure, *tree.measures[1:]))])
    assert len(opened.frames()) > 4
    opened.page.get_by_role("button", name="Changed paths").click()
    assert [name.strip("\u25bc ") for name in opened.frames()] == [
        "cycles", "main", "read", "old_lock",
    ]  # fmt: skip
    address = opened.page.evaluate("location.href")
    opened.page.goto("about:blank")
    opened.go_to(address)
    opened.page.wait_for_selector("figure.flames[data-drawn]")
    assert len(opened.frames()) == 4
    pressed = opened.page.get_by_role("button", name="Changed paths")
    assert pressed.get_attribute("aria-pressed") == "true"
