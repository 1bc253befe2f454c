# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines with the file of their lab."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedperf.lab.night.machines import Lab, Laboratory, ProcessMachine


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a machine with the file of its lab."""
    (tmp_path / "machine").mkdir()
    machine = ProcessMachine(tmp_path / "machine")
    yield Lab(tmp_path, machine)
    machine.process.kill()
    machine.process.communicate()


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    """Yield two machines with the file of their lab."""
    machines = []
    for name in Laboratory.names:
        (tmp_path / f"machine-{name}").mkdir()
        machines.append(ProcessMachine(tmp_path / f"machine-{name}"))
    yield Laboratory(tmp_path, machines)
    for machine in machines:
        machine.process.kill()
        machine.process.communicate()
