# SPDX-License-Identifier: GPL-2.0-or-later
"""Install the other tools into an environment of their own, and run them there."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.watch.nightly import Found

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).with_name("rivals.txt")
ENVIRONMENT = ROOT / "out" / "watch-rivals"
# Of packages.py, by the name that tables print.
TOOLS = {
    "Otava 0.8": "otava",
    "PELT, 3 log n": "pelt-3",
    "PELT, 6 log n": "pelt-6",
    "jumpavg": "jumpavg",
}


def is_installed() -> bool:
    """Return whether the environment has what ``rivals.txt`` says."""
    stamp = ENVIRONMENT / "installed"
    return stamp.is_file() and stamp.read_text() == REQUIREMENTS.read_text()


def install() -> None:
    """Create the environment, unless it is there."""
    if is_installed():
        return
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
    subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            REQUIREMENTS,
        ],
        check=True,
    )
    (ENVIRONMENT / "installed").write_text(REQUIREMENTS.read_text())


def run_packaged(tool: str, series: Sequence[Sequence[float]]) -> list[list[Found]]:
    """Return what a tool of ``TOOLS`` finds in each series.

    :param series: values of each
    """
    ran = subprocess.run(
        [ENVIRONMENT / "bin" / "python", "-m", "bench.watch.packages", TOOLS[tool]],
        input=json.dumps([list(values) for values in series]),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
        check=True,
    )
    return [[Found(*each) for each in found] for found in json.loads(ran.stdout)]
