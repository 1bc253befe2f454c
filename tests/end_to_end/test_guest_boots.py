# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels that a real boot loader boots alternately under QEMU, with a kill in between."""

import os
from pathlib import Path
from typing import Any

import pytest

from bench.boots.recording import Added, ByItself, BySsh, Recording, Size, finish
from schedperf_generators.disk.build import Disk, get_disk
from schedperf_generators.disk.machine import Machine
from schedperf_generators.disk.tree import CannotBuild

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200), pytest.mark.xdist_group("guests-2")]


def _get_disk(loader: str) -> Disk:
    if os.geteuid() != 0:
        pytest.skip("a disk has files of root; run as root")
    try:
        return get_disk(loader)
    except CannotBuild as error:
        pytest.skip(f"no disk: {error}")


def _is_recording(state: Any) -> bool:
    return bool(state["phase"] == "record")


def _record(recording: Recording) -> None:
    recording.start()
    recording.wait_for("a recording", _is_recording)


def test_controller_that_is_killed_goes_on(tmp_path: Path) -> None:
    disk = _get_disk("grub")
    with Machine(disk, tmp_path / "machine") as machine:
        machine.start()
        recording = BySsh(machine, disk.kernels, Size(1, 1), tmp_path, print)
        _record(recording)
        assert recording.kill_controller()
        finish(recording)
        recording.check(kills=1)


def test_boots_are_added_to_the_bundle_of_one_kernel(tmp_path: Path) -> None:
    disk = _get_disk("grub")
    with Machine(disk, tmp_path / "machine") as machine:
        machine.start()
        recording = Added(machine, disk.kernels, Size(1, 1), tmp_path, print)
        _record(recording)
        finish(recording)
        _record(recording)
        assert recording.kill_controller()
        finish(recording)
        recording.check(kills=1)


def test_machine_that_loses_power_goes_on(tmp_path: Path) -> None:
    disk = _get_disk("systemd-boot")
    with Machine(disk, tmp_path / "machine") as machine:
        machine.start()
        recording = ByItself(machine, disk.kernels, Size(1, 1), tmp_path, print)
        _record(recording)
        recording.cut_power()
        finish(recording)
        recording.check(kills=1)
