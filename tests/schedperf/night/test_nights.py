# SPDX-License-Identifier: GPL-2.0-or-later
"""Nights of a machine made of processes: recorded, compared, retested, killed and gone on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedperf.night.machines import Lab, ProcessMachine, kill

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a machine with a job file."""
    (tmp_path / "machine").mkdir()
    machine = ProcessMachine(tmp_path / "machine")
    yield Lab(tmp_path, machine)
    machine.process.kill()
    machine.process.communicate()


def test_planted_regression_is_retested(lab: Lab) -> None:
    status, errors = lab.run()
    print(errors)
    print(lab.status().stdout)
    for log in lab.out.glob("2*/*.log"):
        print(log, log.read_text())
    assert 0
