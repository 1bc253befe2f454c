# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the tests of the generators: the installed perf judges what they write."""

import shutil

import pytest


@pytest.fixture(autouse=True)
def _perf() -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf not installed; apt-get install linux-perf")
