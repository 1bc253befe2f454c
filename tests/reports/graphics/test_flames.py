# SPDX-License-Identifier: GPL-2.0-or-later
"""Flame graphs on a page: what is coloured and said, by mouse and keyboard, and hostile names."""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.flame_record import FlameTree
from schedperf_reports.blocks import Table, Text
from schedperf_reports.graphics.flames import LEAST_PCT, describe_flames, place_frames
from schedperf_reports.page.flame_page import draw_flame_page
from schedperf_reports.standalone import Head
from tests.reports.graphics.conftest import with_measure, with_number

HOSTILE = "</script><img src=x onerror='window.pwned = 1'>\u202e\x1b[31m{{7*7}}" + "n" * 5_000

# What conftest.py opens.
Visit = Any
MakeTrees = Callable[..., tuple[FlameTree, ...]]


def text_of(trees: Sequence[FlameTree]) -> str:
    parts = []
    for block in describe_flames(trees):
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Table):
            parts += [block.caption, *(" ".join(c.text for c in row) for row in block.rows)]
    return "\n".join(parts)


def test_the_tables_say_what_the_colours_say(make_trees: MakeTrees) -> None:
    said = text_of(make_trees())
    changed = re.search(r"^update_cfs_group (.*)$", said, re.MULTILINE)
    assert changed
    assert changed[1].endswith("write < main [kernel]")
    assert "1 call path only in base (in 0 of 4 runs of new)" in said
    assert re.search(r"^old_lock 8\.\d\d 4 of 4 read < main", said, re.MULTILINE)
    assert "(rest)" not in said


def test_single_runs_are_said_to_have_no_interval(make_trees: MakeTrees) -> None:
    said = text_of(make_trees(runs=(1, 1)))
    assert "no CI with n = 1 + 1 runs; record several runs" in said
    assert "significant" not in said


def test_one_side_alone_lists_its_hottest_frames(make_trees: MakeTrees) -> None:
    lines = text_of(make_trees(runs=(3,))).splitlines()
    assert lines[1].startswith("read ")
    assert "new" not in lines[0]


def test_the_page_asks_for_nothing_and_allows_its_own_scripts_alone(
    make_trees: MakeTrees, page_of: Callable[[Sequence[FlameTree]], str]
) -> None:
    page = page_of(make_trees())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1].replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    assert hashes
    assert sorted(re.findall(r"sha256-([^']+)'", policy[1].replace("&#39;", "'"))) == sorted(hashes)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)


@pytest.mark.browser
def test_only_frames_beyond_noise_are_coloured(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    assert "\u25b2 update_cfs_group" in opened.frames(".more")
    assert "\u25bc old_lock" in opened.frames(".less")
    assert opened.page.get_by_role("treeitem", name="(17 smaller frames)").count() == 1
    assert opened.complaints == []


@pytest.mark.browser
def test_more_and_less_are_told_apart_where_the_system_forces_its_colours(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    page = visit_flames(make_trees(), forced_colors="active").page
    edges = (
        "(selector) => [...document.querySelectorAll(selector)].map((one) => {"
        " const { borderTopWidth: top, borderBottomWidth: bottom } = getComputedStyle(one);"
        " return Math.sign(parseFloat(top) - parseFloat(bottom)); })"
    )
    for place in (".frame", ".flame-key "):
        assert set(page.evaluate(edges, f"{place}.more")) == {1}
        assert set(page.evaluate(edges, f"{place}.less")) == {-1}


@pytest.mark.browser
def test_without_intervals_colour_is_what_the_reader_asks_for(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees(runs=(1, 1)))
    assert opened.frames(".more") == opened.frames(".less") == []
    assert "no CI" in opened.detail()
    opened.page.get_by_label("Colour differences that have no CI").check()
    assert "\u25b2 update_cfs_group" in opened.frames(".more")


@pytest.mark.browser
def test_a_click_zooms_and_escape_shows_all(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.get_by_role("treeitem", name="write,").click()
    assert not any("read" in name for name in opened.frames())
    width = opened.page.get_by_role("treeitem", name="write,").bounding_box()["width"]
    assert width == pytest.approx(
        opened.page.locator(".flame-graph").bounding_box()["width"], abs=2
    )
    opened.page.keyboard.press("Escape")
    assert any("read" in name for name in opened.frames())


@pytest.mark.browser
def test_what_slides_under_a_resting_pointer_is_not_pointed_at(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.evaluate(
        "document.querySelector('.flame-graph').addEventListener('click',"
        " ({ clientX, clientY }) => { window.at = { clientX, clientY } })"
    )
    opened.page.get_by_role("treeitem", name="write,").click()
    slide = (
        "(frame, by) => frame.dispatchEvent(new PointerEvent('pointerover', {"
        " bubbles: true, clientX: at.clientX + by, clientY: at.clientY }))"
    )
    for by, said in ((0, "write [kernel]"), (1, "main [kernel]")):
        main = opened.page.get_by_role("treeitem", name="main,")
        main.evaluate(f"(frame) => ({slide})(frame, {by})")
        assert opened.detail().startswith(said)


@pytest.mark.browser
def test_the_keyboard_walks_and_zooms(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.locator(".flame-graph").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        opened.page.keyboard.press(key)
    assert re.match(r"update_cfs_group \[kernel\]", opened.detail())
    assert re.search(r"change \+1\d\.\d+ pp \(95% CI \[\+.*, \+.*\], q < 0\.001\)", opened.detail())
    assert "n = 4 + 4 runs" in opened.detail()
    opened.page.keyboard.press("Enter")
    assert (
        opened.page.get_by_role("treeitem", name="update_cfs_group,").evaluate(
            "(one) => one.style.width"
        )
        == "100%"
    )


@pytest.mark.browser
def test_views_keep_the_zoom(visit_flames: Callable[..., Visit], make_trees: MakeTrees) -> None:
    opened = visit_flames(make_trees())
    opened.page.get_by_role("treeitem", name="read,").click()
    opened.page.get_by_role("button", name="All three").click()
    assert opened.page.locator(".flame-graph").count() == 3
    assert not any("write" in name for name in opened.frames())
    of_new = opened.page.locator("[data-view=new] .frame")
    assert not any("old_lock" in name for name in of_new.all_inner_texts())


@pytest.mark.browser
def test_search_adds_up_the_outermost_matches(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    # main has read and everything else in it, so the sum is that of main alone.
    opened = visit_flames(make_trees())
    opened.page.get_by_label("Find", exact=True).fill("A")
    first, second = found_lines(opened)
    assert first.startswith("3 frames of 3 functions; self, on all call paths: base 6")
    assert second == (
        "with callees, in these frames (smaller ones are merged): "
        "base 100.00%, new 100.00%, change 0 pp"
    )
    opened.page.get_by_label("Find", exact=True).fill("nothing of the kind")
    assert found_lines(opened) == ["0 frames"]


def found_lines(opened: Visit) -> list[str]:
    """Return what stands below the controls about the frames that were found."""
    return list(opened.page.locator(".flame-controls output span").all_inner_texts())


def with_narrow_frame(tree: FlameTree, share: float) -> FlameTree:
    """Return the tree with an unchanged frame that has this share on both sides."""
    measure = tree.measures[0]
    narrow = (
        replace(
            extent, base=with_number(extent.base, 5, share), new=with_number(extent.new, 5, share)
        )
        for extent in (measure.inclusive, measure.self_)
    )
    changed = tuple(frame for frame in measure.changed if frame != 5)
    replaced = dict(zip(("inclusive", "self_"), narrow, strict=True))
    return with_measure(tree, changed=changed, **replaced)


@pytest.mark.browser
def test_a_frame_that_is_found_is_seen_however_narrow_it_is(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    (tree,) = make_trees()
    # 0.01% of 1100 pixels are not drawn until somebody asks.
    tree = with_narrow_frame(tree, 0.01)
    opened = visit_flames([tree])
    name = tree.names[tree.name[5]].symbol
    assert opened.page.get_by_role("treeitem", name=f"{name},").count() == 0
    opened.page.get_by_label("Find", exact=True).fill(name)
    found = opened.page.locator(".frame.found")
    assert found.count() == 1
    assert found.bounding_box()["width"] >= 4


@pytest.mark.browser
def test_a_frame_is_coloured_where_its_function_changed_on_all_paths(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    (tree,) = make_trees()
    measure = tree.measures[0]
    (frame,) = (
        place
        for place, name in enumerate(tree.name)
        if name >= 0 and tree.names[name].symbol == "update_cfs_group"
    )
    without = tuple(other for other in measure.inclusive.changed if other != frame)
    tree = with_measure(tree, inclusive=replace(measure.inclusive, changed=without))
    opened = visit_flames([tree])
    assert "\u25b2 update_cfs_group" in opened.frames(".more")
    opened.page.get_by_role("treeitem", name="update_cfs_group,").hover()
    assert "self, on all call paths: base" in opened.detail()
    # The report counts it or not; the page does not decide again.
    plain = with_measure(tree, changed=tuple(set(measure.changed) - {frame}))
    assert not any("update_cfs_group" in name for name in visit_flames([plain]).frames(".more"))


@pytest.mark.browser
@pytest.mark.parametrize(("width", "most"), [(1400, 400), (400, 560)])
def test_the_graph_is_on_the_first_screen_with_its_root_on_top(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees, width: int, most: int
) -> None:
    opened = visit_flames(make_trees(), width=width)
    graph = opened.page.locator(".flame-graph").bounding_box()
    assert graph["y"] < most
    assert opened.page.locator("[data-frame='0']").bounding_box()["y"] == pytest.approx(graph["y"])
    assert opened.page.locator("#samples").bounding_box()["y"] > graph["y"]


def test_a_warning_about_the_samples_is_one_line_above_the_graph(make_trees: MakeTrees) -> None:
    head = Head(title="profile", sides=(), tool_version="1", schema="s")
    basis = [Text(text="plain"), Text(text="cannot see most of it", tone="warning")]
    page = draw_flame_page(basis, make_trees(), head)
    limits = re.findall(r'<a class="flame-limit" href="#samples"[^>]*>(.*?)</a>', page)
    assert limits == ["cannot see most of it"]


@pytest.mark.browser
def test_costs_per_operation_are_a_measure_of_their_own(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    opened = visit_flames(make_trees())
    opened.page.get_by_label("Measure").select_option("1")
    opened.page.locator(".flame-graph").focus()
    opened.page.keyboard.press("ArrowDown")
    assert "cycles per message" in opened.detail()


@pytest.mark.browser
def test_events_are_chosen_from(visit_flames: Callable[..., Visit], make_trees: MakeTrees) -> None:
    opened = visit_flames(make_trees(events=("cycles", "page-faults")))
    opened.page.locator(".flame-controls label:has-text('Event') select").select_option("1")
    assert "page-faults" in opened.frames()


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_hostile_names_run_nothing_and_fit(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees, width: int, scheme: str
) -> None:
    data = make_trees(names=[f"{HOSTILE}{number}" for number in range(5)], events=[HOSTILE])
    opened = visit_flames(data, width=width, color_scheme=scheme, reduced_motion="reduce")
    opened.page.get_by_role("treeitem").nth(1).click()
    assert opened.page.evaluate("typeof window.pwned") == "undefined"
    assert opened.page.evaluate("document.images.length") == 0
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.complaints == []


@pytest.mark.browser
def test_without_scripting_the_largest_frames_and_what_changed_are_drawn(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    with_scripts = visit_flames(make_trees())
    opened = visit_flames(make_trees(), java_script_enabled=False)
    labels = opened.frames()
    assert labels[0] == "cycles"
    assert "\u25b2 update_cfs_group" in opened.frames(".more")
    assert "\u25bc old_lock" in opened.frames(".less")
    assert sorted(labels) == sorted(with_scripts.frames())
    title = str(opened.page.locator(".frame.more").first.get_attribute("title"))
    assert re.search(r"base \d+\.\d\d%, new \d+\.\d\d%; change \+\d+", title)
    assert not opened.page.locator(".flame-detail").is_visible()
    assert not opened.page.locator(".flame-controls").is_visible()


@pytest.mark.browser
def test_frames_stand_in_the_same_place_with_and_without_scripting(
    visit_flames: Callable[..., Visit], make_trees: MakeTrees
) -> None:
    boxes = []
    for has_scripts in (True, False):
        opened = visit_flames(make_trees(), java_script_enabled=has_scripts)
        graph = opened.page.locator(".flame-graph").bounding_box()
        frames = opened.page.locator(".frame")
        found = {}
        for number in range(frames.count()):
            box = frames.nth(number).bounding_box()
            found[frames.nth(number).inner_text()] = (
                round(box["x"] - graph["x"]),
                round(box["y"] - graph["y"]),
                round(box["width"]),
            )
        boxes.append(found)
    assert boxes[0] == boxes[1]


def test_a_still_frame_that_changed_is_there_however_narrow_it_is(make_trees: MakeTrees) -> None:
    (tree,) = make_trees()
    tree = with_narrow_frame(tree, LEAST_PCT / 10)
    drawn = place_frames(tree)
    assert [frame for frame in drawn if frame.title.startswith("old_lock: ")] == []
    inclusive = tree.measures[0].inclusive
    inclusive = replace(inclusive, changed=(5,), new=with_number(inclusive.new, 5, 0))
    tree = with_measure(tree, inclusive=inclusive, changed=(5,))
    (narrow,) = (frame for frame in place_frames(tree) if frame.title.startswith("old_lock: "))
    assert (narrow.kind, narrow.label) == ("less kernel", "\u25bc")
