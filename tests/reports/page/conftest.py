# SPDX-License-Identifier: GPL-2.0-or-later
"""The reports as files that the command writes: of the examples, and of four kernels."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import EXAMPLE_SIDES
from tests.golden_inputs import four_kernels

ROOT = Path(__file__).parents[3]
FOUR_KERNELS = "four-kernels"


@pytest.fixture(scope="session")
def write_page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the path of a report's page; one process writes it for all."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def write(name: str) -> Path:
        path = folder / f"{name}.html"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                written = path.with_suffix(".part")
                _compare(name, written)
                written.rename(path)
        return path

    return write


def _compare(name: str, written: Path) -> None:
    # Commands on the page quote the bundles, so they are the same wherever the checkout is.
    if name == FOUR_KERNELS:
        folder = written.with_suffix(".bundles")
        folder.mkdir()
        four_kernels(folder)
        sides = [f"{kernel}.tar" for kernel in ("tip", "cluster", "repair", "v2")]
    else:
        folder = ROOT
        names = EXAMPLE_SIDES.get(name, ("base", "new"))
        sides = [f"examples/{name}/{side}.tar.xz" for side in names]
    command = [sys.executable, "-m", "schedperf", "compare", *sides, "--html", str(written)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
