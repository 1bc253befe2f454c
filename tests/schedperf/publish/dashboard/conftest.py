# SPDX-License-Identifier: GPL-2.0-or-later
"""Tabs of a browser for pages of a lab."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.chromium import Tab, Tabs


@pytest.fixture(scope="session")
def tabs(browser: Any) -> Tabs:
    """Return the tabs of the browser."""
    return Tabs(browser)


@pytest.fixture
def lend_tab(tabs: Tabs) -> Iterator[Callable[..., Tab]]:
    """Lend tabs, which are closed after the test."""
    opened: list[Tab] = []

    def lend(**settings: Any) -> Tab:
        opened.append(tabs.open(**settings))
        return opened[-1]

    yield lend
    for tab in opened:
        tab.page.context.close()
