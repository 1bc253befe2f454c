# SPDX-License-Identifier: GPL-2.0-or-later
"""The pages of examples and of four kernels, as a reader opens them: offline, by everyone."""

import functools
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from tests.chromium import Tab, Tabs
from tests.reports.visits import Visit

pytestmark = pytest.mark.browser

NAMES = ("deep-cgroup", "deep-cgroup-arm64", "cluster-percpu", "four-kernels")
# What must not be found: the rest of axe-core's rules are matters of taste.
GRAVE = ("serious", "critical")
AXE_OPTIONS: dict[str, Any] = {"resultTypes": ["violations"], "selectors": False}
# Only colours differ between light and dark.
COLOUR_RULES = ("color-contrast", "link-in-text-block")
# The widths at which colours are examined, which takes four fifths of the time. They are the same
# at all widths; only a page of several kernels has further rules below 1400 pixels.
COLOUR_WIDTHS = {"deep-cgroup": (1400, 360), "four-kernels": (1400, 768, 360)}
LOCAL = ("file:", "data:", "blob:")

BLESSED = Path(__file__).parents[2] / "data" / "screenshots"
# A picture is kept at a third of its size: letters become grey bars, shapes and colours stay.
REDUCTION = 3
TALLEST_PIXELS = 6000
# Another build of the fonts or of the browser moves edges; another layout moves whole areas.
FAR_APART = 48
MOST_APART = 0.02
# Letters of the names and numbers in the smallest drawing.
LEAST_DRAWN = 20
# The one face that is on each machine where these tests run.
FACE = ":root { font-family: 'DejaVu Sans' !important; --mono: 'DejaVu Sans Mono' !important; }"
# The page scrolls smoothly unless it is told not to, and a script need not wait for it.
TO_THE_TOP = "scrollTo({ top: 0, behavior: 'instant' })"


# What a test may change in a page that it shares.
STATE = """() => JSON.stringify([
  location.hash,
  document.documentElement.dataset.theme ?? "",
  document.activeElement.tagName,
  scrollX, scrollY,
  [...document.querySelectorAll("details")].map((one) => one.open),
  [...document.querySelectorAll("main [hidden]:not(.flame-graphs *)")].length,
  [...document.querySelectorAll("body *:not(.flame-graphs *)")].length,
  [...document.querySelectorAll(".flame-graph")].map((one) => one.dataset.view),
])"""
FOLD = "() => document.querySelectorAll('details').forEach((one) => { one.open = first.has(one); })"
REMEMBER = "() => { window.first = new Set(document.querySelectorAll('details[open]')); }"
UNFOLD = """() => {
  page.later.fillAll();
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
}"""
FLAMES_ARE_DRAWN = "document.querySelector('figure.flames:not([data-drawn])') === null"


class ExamplePage(Visit):
    """The page of an example, opened once; tests resize it, and leave it as it was."""

    def open(self, path: Path) -> None:
        self.go_to(path.as_uri())
        self.page.add_style_tag(content=FACE)
        self.ask(REMEMBER)
        self.draw_everything()
        self.reset()
        self.first = self.ask(STATE)

    def show_as(self, **look: Any) -> None:
        """Resize the window or change the colours."""
        self.tab.show_as(**look)

    def draw_everything(self) -> None:
        """Unfold everything, and draw the flame graphs."""
        self.ask(UNFOLD)
        self.wait_for(FLAMES_ARE_DRAWN)
        self.ask(TO_THE_TOP)

    def reset(self) -> None:
        """Fold what was folded at first, and go to the top."""
        self.ask(FOLD)
        self.ask(TO_THE_TOP)
        self.tab.show_as()

    def check(self) -> None:
        """Fail if the page is not as it was when it was opened, or complained meanwhile."""
        self.reset()
        self.tab.check_storage()
        assert self.ask(STATE) == self.first, "the page keeps what the test changed in it"
        assert self.complaints == []
        assert [one for one in self.requests if not one.startswith(LOCAL)] == []


@pytest.fixture(scope="session")
def example_pages(tabs: Tabs, write_page: Callable[[str], Path]) -> Callable[[str], ExamplePage]:
    """Give the open page of an example; it is opened once per process."""

    @functools.cache
    def open_page(name: str) -> ExamplePage:
        path = write_page(name)
        opened = ExamplePage(tabs.open(offline=True))
        try:
            opened.open(path)
        except BaseException:
            opened.page.context.close()
            raise
        return opened

    return open_page


@pytest.fixture
def show(example_pages: Callable[[str], ExamplePage]) -> Iterator[Callable[..., ExamplePage]]:
    """Show an example's page: ``show("deep-cgroup", width=360, color_scheme="dark")``."""
    with ExitStack() as shown:

        def show_page(name: str, **look: Any) -> ExamplePage:
            opened = example_pages(name)
            shown.callback(opened.check)
            opened.show_as(**look)
            return opened

        yield show_page


def in_group(name: str, *others: Any) -> Any:
    """Make a case of a test; all cases of an example share its page, and so a process."""
    return pytest.param(name, *others, marks=pytest.mark.xdist_group(name))


each_example = pytest.mark.parametrize("name", [in_group(name) for name in NAMES])


@each_example
def test_it_complains_of_nothing_and_asks_for_nothing(
    show: Callable[..., ExamplePage], name: str
) -> None:
    opened = show(name)
    opened.draw_everything()
    assert opened.complaints == []
    assert [one for one in opened.requests if not one.startswith(LOCAL)] == []


def colour_widths(name: str) -> tuple[int, ...]:
    return COLOUR_WIDTHS.get(name, (1400,))


LOOKS = [
    in_group(name, width, scheme)
    for name in NAMES
    for scheme, widths in (("light", (1400, 768, 360)), ("dark", colour_widths(name)))
    for width in widths
]


def choose_rules(name: str, width: int, scheme: str) -> dict[str, Any]:
    """Return options of axe: all rules, or in the dark those of colours."""
    if scheme == "dark":
        return {"runOnly": [*COLOUR_RULES]}
    is_examined = width in colour_widths(name)
    return {} if is_examined else {"rules": {rule: {"enabled": False} for rule in COLOUR_RULES}}


@pytest.mark.parametrize(("name", "width", "scheme"), LOOKS)
def test_nobody_is_shut_out(
    show: Callable[..., ExamplePage], name: str, width: int, scheme: str
) -> None:
    opened = show(name, width=width, color_scheme=scheme)
    opened.draw_everything()
    options = AXE_OPTIONS | choose_rules(name, width, scheme)
    found = Axe().run(opened.page, options=options).response["violations"]
    grave = [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in GRAVE
    ]
    assert grave == []


@pytest.mark.parametrize("width", [1400, 768, 360])
@each_example
def test_it_never_scrolls_sideways(show: Callable[..., ExamplePage], name: str, width: int) -> None:
    opened = show(name, width=width)
    opened.draw_everything()
    assert opened.ask("document.documentElement.scrollWidth") <= width


@each_example
def test_without_scripting_verdict_tables_and_drawings_are_all_there(
    show: Callable[..., ExamplePage],
    lend_tab: Callable[..., Tab],
    write_page: Callable[[str], Path],
    name: str,
) -> None:
    with_scripts, without = show(name), Visit(lend_tab(java_script_enabled=False))
    without.go_to(write_page(name).as_uri())
    assert without.page.locator("#verdict .big").is_visible()
    for what in ("table", "figure"):
        scripted = with_scripts.page.locator(f"main {what}").count()
        assert without.page.locator(f"main {what}").count() == scripted > 0
    # A drawing is more than its caption.
    for summary in without.page.locator("main > section > details > summary").all():
        summary.click()
    for figure in without.page.locator("main figure:visible").all():
        caption = figure.locator("figcaption").first.inner_text()
        assert len(figure.inner_text()) > len(caption) + LEAST_DRAWN, caption
    assert without.complaints == []


def take_picture(page: Any) -> Image.Image:
    """Return the page from its top on, reduced."""
    width, height = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    # All of a page may be some forty thousand pixels tall, which a busy machine paints too slowly.
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, TALLEST_PIXELS)}
    shot = page.screenshot(full_page=True, animations="disabled", clip=clip)
    taken = Image.open(io.BytesIO(shot)).convert("RGB")
    size = taken.width // REDUCTION, taken.height // REDUCTION
    return taken.resize(size, Image.Resampling.BOX)


def share_apart(one: Image.Image, other: Image.Image) -> float:
    """Return the share of pixels that differ much; 1 where the sizes do."""
    if abs(one.height - other.height) > REDUCTION * 4 or one.width != other.width:
        return 1.0
    height = min(one.height, other.height)
    pixels = [np.asarray(image.convert("RGB"), dtype=int)[:height] for image in (one, other)]
    apart = np.abs(pixels[0] - pixels[1]).max(axis=2) > FAR_APART
    return float(apart.mean())


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *(
            in_group("cluster-percpu", width, scheme)
            for width in (1400, 768, 360)
            for scheme in ("light", "dark")
        ),
        in_group("deep-cgroup", 1400, "light"),
        in_group("deep-cgroup-arm64", 1400, "light"),
    ],
)
def test_golden_screenshots_look_as_they_were_blessed(
    show: Callable[..., ExamplePage], tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    opened = show(name, width=width, color_scheme=scheme, reduced_motion="reduce")
    picture = take_picture(opened.page)
    blessed = BLESSED / f"{name}-{width}-{scheme}.png"
    if os.environ.get("SCHEDPERF_BLESS") == "1":
        blessed.parent.mkdir(exist_ok=True)
        picture.quantize(64).save(blessed, optimize=True)
    taken = tmp_path / blessed.name
    picture.save(taken)
    apart = share_apart(picture, Image.open(blessed))
    assert apart < MOST_APART, f"{apart:.1%} of {taken} differ from {blessed}"
