# SPDX-License-Identifier: GPL-2.0-or-later
"""A page that a test has opened, and what tests ask of it."""

import time
from typing import Any

from tests.chromium import Tab

# A chart takes about a second on two busy cores.
LONGEST_WAIT_SECONDS = 60.0
READY = "document.documentElement.dataset.ready === 'true'"


class Visit:
    """One opened page, and what it complained about and asked for."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.page = tab.page
        self.console, self.errors, self.requests = tab.console, tab.errors, tab.requests

    @property
    def complaints(self) -> list[str]:
        return [*self.console, *self.errors]

    def go_to(self, address: str) -> None:
        """Open an address, and wait until its scripts have run, where they may."""
        self.page.goto(address)
        if self.tab.has_scripts:
            self.wait_for(READY)

    def ask(self, script: str, argument: object = None) -> Any:
        return self.page.evaluate(script, argument)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def wait_for(self, script: str) -> None:
        """Ask until the answer is true."""
        # The policy forbids what the browser driver's own waiting would evaluate.
        end = time.monotonic() + LONGEST_WAIT_SECONDS
        while not self.ask(script):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.01)

    def unfold(self) -> None:
        """Open the sections and tables without a change, and put all that is folded on the page."""
        self.ask("page.later.fillAll()")
        opening = "(one) => { one.open = true; }"
        self.ask(f"document.querySelectorAll('details.unchanged').forEach({opening})")
