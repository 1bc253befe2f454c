"""The pages of the examples, as a reader opens them: with the network off, by everyone."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
NAMES = ("deep-cgroup", "deep-cgroup-arm64", "cluster-percpu")
# What must not be found: the rest of axe-core's rules are matters of taste.
GRAVE = ("serious", "critical")

BLESSED = Path(__file__).parents[1] / "data" / "screenshots"
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


@dataclass(kw_only=True)
class Visit:
    """One opened page, what it complained of and what it asked for."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the path of an example's page, written once."""
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            # Commands on the page quote these, so they are the same wherever the checkout is.
            sides = [f"examples/{name}/{side}.tar.xz" for side in ("base", "new")]
            command = [sys.executable, "-m", "schedperf", "compare", *sides, "--html", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            assert done.returncode in (0, 1), done.stderr
        return path

    return write


@pytest.fixture
def visit(open_tab: Callable[..., Any], written: Callable[[str], Path]) -> Callable[..., Visit]:
    def open_page(name: str, **settings: Any) -> Visit:
        opened = Visit(page=open_tab(offline=True, **settings))
        opened.page.on("console", lambda message: opened.console.append(message.text))
        opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(written(name).as_uri())
        if settings.get("java_script_enabled", True):
            wait_for_flames(opened.page)
        return opened

    return open_page


def wait_for_flames(page: Any) -> None:
    """Wait until no flame graph waits for its data; they come a while after the page."""
    waiting = page.locator("figure.flames:not([data-drawn])").first
    waiting.wait_for(state="detached", timeout=60_000)


def draw_everything(page: Any) -> None:
    """Open what is folded and look at each chart until it is drawn."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for plot in page.locator(".plot:visible").all():
        plot.scroll_into_view_if_needed()
        plot.locator("css=.main-svg").first.wait_for(timeout=60_000)
    page.evaluate(TO_THE_TOP)


@pytest.mark.parametrize("name", NAMES)
def test_it_complains_of_nothing_and_asks_for_nothing(
    visit: Callable[..., Visit], name: str
) -> None:
    opened = visit(name)
    draw_everything(opened.page)
    assert opened.console == []
    assert [one for one in opened.requests if not one.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 360])
@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_shut_out(
    visit: Callable[..., Visit], name: str, width: int, scheme: str
) -> None:
    opened = visit(name, width=width, color_scheme=scheme)
    draw_everything(opened.page)
    found = Axe().run(opened.page).response["violations"]
    grave = [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in GRAVE
    ]
    assert grave == []


@pytest.mark.parametrize("width", [1400, 768, 360])
@pytest.mark.parametrize("name", NAMES)
def test_it_never_scrolls_sideways(visit: Callable[..., Visit], name: str, width: int) -> None:
    opened = visit(name, width=width)
    draw_everything(opened.page)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", NAMES)
def test_without_scripting_verdict_tables_and_drawings_are_all_there(
    visit: Callable[..., Visit], name: str
) -> None:
    with_scripts, without = visit(name), visit(name, java_script_enabled=False)
    assert without.page.locator("#verdict .headline").is_visible()
    for what in ("table", "figure"):
        scripted = with_scripts.page.locator(f"main {what}").count()
        assert without.page.locator(f"main {what}").count() == scripted > 0
    # A drawing is more than its caption.
    for figure in without.page.locator("main figure:visible:not(.chart)").all():
        caption = figure.locator("figcaption").first.inner_text()
        assert len(figure.inner_text()) > len(caption) + LEAST_DRAWN, caption
    assert without.console == []


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
            ("cluster-percpu", width, scheme)
            for width in (1400, 768, 360)
            for scheme in ("light", "dark")
        ),
        ("deep-cgroup", 1400, "light"),
        ("deep-cgroup-arm64", 1400, "light"),
    ],
)
def test_golden_screenshots_look_as_they_were_blessed(
    visit: Callable[..., Visit], tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    opened = visit(name, width=width, color_scheme=scheme, reduced_motion="reduce")
    opened.page.add_style_tag(content=FACE)
    for plot in opened.page.locator(".plot:visible").all():
        plot.scroll_into_view_if_needed()
        plot.locator("css=.main-svg").first.wait_for(timeout=60_000)
    opened.page.evaluate(TO_THE_TOP)
    picture = take_picture(opened.page)
    blessed = BLESSED / f"{name}-{width}-{scheme}.png"
    if os.environ.get("SCHEDPERF_BLESS") == "1":
        blessed.parent.mkdir(exist_ok=True)
        picture.quantize(64).save(blessed, optimize=True)
    taken = tmp_path / blessed.name
    picture.save(taken)
    apart = share_apart(picture, Image.open(blessed))
    assert apart < MOST_APART, f"{apart:.1%} of {taken} differ from {blessed}"
