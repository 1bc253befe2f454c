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

    def watch_printing(self) -> None:
        """Let ``window.printed`` say whether all charts for paper were drawn, instead of printing.

        The script is a function in a function: the browser driver calls what a script results in.
        """
        charts = "[...document.querySelectorAll('figure.chart > .plot')].filter(page.isForPaper)"
        self.ask(
            f"() => {{ window.print = () => {{ const some = {charts}; window.printed ="
            " some.length > 0 && some.every((one) => one.dataset.drawn === 'done'); }; }"
        )

    def unfold(self) -> None:
        """Open the sections and tables without a change, and put all that is folded on the page."""
        self.ask("page.later.fillAll()")
        opening = "(one) => { one.open = true; }"
        self.ask(f"document.querySelectorAll('details.unchanged').forEach({opening})")

    def draw_all(self) -> int:
        """Scroll to each chart that is not folded away until it is drawn; return how many."""
        charts = "[...document.querySelectorAll('figure.chart > .plot')]"
        shown = f"{charts}.filter((one) => one.checkVisibility())"
        count = int(self.ask(f"{shown}.length"))
        for number in range(count):
            plot = f"{shown}[{number}]"
            self.ask(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
            self.wait_for(f"['done', 'failed'].includes({plot}.dataset.drawn)")
            assert self.ask(f"{plot}.dataset.drawn") == "done"
        return count
