# SPDX-License-Identifier: GPL-2.0-or-later
"""The hook kexec: what is found without loading a kernel into the machine of the tests."""

from pathlib import Path

import pytest

from tests.collectors.boots.machines import NEW, OLD, Machine, need

pytestmark = pytest.mark.system


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    need()
    if not Path("/sys/kernel/kexec_loaded").exists():
        pytest.skip("needs a kernel with CONFIG_KEXEC=y")
    machine = Machine(tmp_path)
    machine.install(OLD)
    machine.install(NEW)
    return machine


def test_a_kernel_without_kexec_is_refused(tmp_path: Path) -> None:
    need()
    if Path("/sys/kernel/kexec_loaded").exists():
        pytest.skip("needs a kernel without CONFIG_KEXEC")
    machine = Machine(tmp_path)
    machine.install(OLD)
    for verb in (["check", OLD], ["arm", OLD]):
        done = machine.hook("kexec", *verb)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == (
            "the running kernel has no kexec (expected /sys/kernel/kexec_loaded); "
            "boot a kernel with CONFIG_KEXEC=y"
        )


def test_kernels_are_found_by_their_files(machine: Machine) -> None:
    need("kexec")
    done = machine.hook("kexec", "check", OLD)
    assert f"kernel /boot/vmlinuz-{OLD}\n" in done.stdout
    assert f"initrd /boot/initrd.img-{OLD}\n" in done.stdout
    (machine.boot / f"vmlinuz-{OLD}").unlink()
    assert f"/boot has no kernel {OLD}" in machine.hook("kexec", "check", OLD).stderr
    assert machine.hook("kexec", "default").stdout == ""
