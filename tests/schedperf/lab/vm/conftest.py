# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel images that only say who they are, and a virtme-ng that boots nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.lab.vm.guest import Hypervisor
from schedperf.lab.vm.machine import Machine

# What a guest does when all goes well: it tells, brings a bundle and says 0.
WELL = """\
echo '{"event": "booted"}' >$share/events
echo '{"event": "run", "done": 1, "total": 1, "said": "0.50 s"}' >>$share/events
cp $share/../../guest.tar $share/bundle.tar
echo 0 >$share/status
"""


def bz_image(release: str) -> bytes:
    """Return the first bytes of a kernel image of this release, as the boot protocol has them."""
    image = bytearray(4096)
    image[0x1FE:0x200] = b"\x55\xaa"
    image[0x202:0x206] = b"HdrS"
    image[0x20E:0x210] = (0x800 - 0x200).to_bytes(2, "little")
    text = f"{release} (builder@host) #1 SMP".encode() + b"\0"
    image[0x800 : 0x800 + len(text)] = text
    return bytes(image)


@pytest.fixture(scope="session")
def make_image() -> Callable[[str], bytes]:
    """Return the bytes of a kernel image: ``make_image(release)``."""
    return bz_image


@pytest.fixture
def make_vng(tmp_path: Path) -> Callable[[str], str]:
    """Make a program that is called as virtme-ng is: ``make_vng(shell script) -> program``.

    The script finds the shared directory in ``$share`` and in ``$boot`` how often it was called.
    """

    def make(behaviour: str = WELL) -> str:
        program = tmp_path / "bin" / "vng"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            "#!/bin/bash\n"
            f'echo "$@" >>{tmp_path}/calls\n'
            f"boot=$(wc -l <{tmp_path}/calls)\n"
            "while [ $# -gt 0 ]; do case $1 in --rwdir) share=${2#*=};; esac; shift; done\n"
            f"{behaviour}"
        )
        program.chmod(0o755)
        return str(program)

    return make


@pytest.fixture
def make_hypervisor(make_vng: Callable[[str], str]) -> Callable[..., Hypervisor]:
    """Return how guests are booted that do what a shell script says."""

    def make(behaviour: str = WELL, *, silence_s: float = 30.0) -> Hypervisor:
        return Hypervisor(
            vng=make_vng(behaviour),
            machine=Machine(cpus=4, nodes=2, threads=1, memory_bytes=4 << 30),
            is_kvm=False,
            kernel_arguments="",
            silence_s=silence_s,
        )

    return make
