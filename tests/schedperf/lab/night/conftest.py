# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with the job file of its nights."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedperf.lab.night.machines import Lab, ProcessMachine


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a machine with a job file."""
    (tmp_path / "machine").mkdir()
    machine = ProcessMachine(tmp_path / "machine")
    yield Lab(tmp_path, machine)
    machine.process.kill()
    machine.process.communicate()
