# SPDX-License-Identifier: GPL-2.0-or-later
"""Chromium for tests: one browser per process, and tabs that tests use one after another."""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

# The first one has no window and no desktop's services, and takes three quarters of the CPU time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
HEIGHT = 900
BLANK = "about:blank"

# A page waits for a processor where other tests run beside it.
LONGEST_WAIT_MS = 180_000
# Messages that a page removes after some seconds stay: on a busy machine a test looks later than
# a reader does.
KEEP_MESSAGES = """{
  const { setTimeout } = window;
  window.setTimeout = (act, delay, ...others) =>
    (delay > 1000 ? 0 : setTimeout(act, delay, ...others));
}"""

# What a page can leave behind for the next page in its tab.
STORED = "[localStorage.length, sessionStorage.length, document.cookie.length]"


@contextmanager
def start_chromium() -> Iterator[Any]:
    """Start Chromium, or skip where it cannot be driven.

    Playwright starts it without its sandbox, which works for root and in containers too; the
    tests open nothing but their own pages.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("Chromium is not installed; apt-get install chromium-headless-shell")
    arguments = ["--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(kw_only=True)
class Tab:
    """A page, and what it complained about and asked for since it was lent."""

    page: Any
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    has_scripts: bool = True
    kind: object = None

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def show_as(
        self,
        *,
        width: int = 1400,
        color_scheme: str = "light",
        reduced_motion: str = "no-preference",
        forced_colors: str = "none",
    ) -> None:
        """Set the width of the window and the emulated colours, motion and contrast."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(
            media="null",
            color_scheme=color_scheme,
            reduced_motion=reduced_motion,
            forced_colors=forced_colors,
        )

    def check_storage(self) -> None:
        """Fail if the page stored something or opened another one."""
        assert self.page.context.pages == [self.page], "the test left other pages open"
        if self.page.url.startswith("file:"):
            stored = self.page.evaluate(STORED)
            assert stored == [0, 0, 0], f"the page left local, session storage, cookies: {stored}"

    def clear(self) -> None:
        """Leave the page, and forget keys, pointer, clipboard and messages."""
        self.check_storage()
        if self.page.url.startswith("file:"):
            self.page.evaluate("navigator.clipboard?.writeText('').catch(() => {})")
        self.page.goto(BLANK)
        for key in ("Shift", "Control", "Alt", "Meta"):
            self.page.keyboard.up(key)
        self.page.mouse.move(0, 0)
        for messages in (self.console, self.errors, self.requests):
            messages.clear()


class Tabs:
    """Tabs of one browser that tests share; each has a context, and so a window, of its own."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._idle: dict[object, list[Tab]] = defaultdict(list)

    def open(self, *, width: int = 1400, **settings: Any) -> Tab:
        """Open a tab that is not shared, with settings of the browser's context."""
        viewport = {"width": width, "height": HEIGHT}
        context = self._browser.new_context(viewport=viewport, **settings)
        context.set_default_timeout(LONGEST_WAIT_MS)
        context.add_init_script(KEEP_MESSAGES)
        return Tab(page=context.new_page(), has_scripts=settings.get("java_script_enabled", True))

    def lend(
        self, *, java_script_enabled: bool = True, permissions: Sequence[str] = (), **look: Any
    ) -> Tab:
        """Lend a cleared tab; scripting and permissions stay what they are in a tab."""
        kind = (java_script_enabled, *permissions)
        if self._idle[kind]:
            tab = self._idle[kind].pop()
        else:
            tab = self.open(java_script_enabled=java_script_enabled, permissions=[*permissions])
            tab.kind = kind
            tab.page.add_init_script = _refuse_init_script
        tab.show_as(**look)
        return tab

    def take_back(self, tab: Tab) -> None:
        """Clear a lent tab for the next test; close it and fail if that is not possible."""
        try:
            tab.clear()
        except BaseException:
            tab.page.context.close()
            raise
        self._idle[tab.kind].append(tab)


def _refuse_init_script(*_: object, **__: object) -> None:
    pytest.fail("the next test would find this script in its tab; ask for open_tab()")
