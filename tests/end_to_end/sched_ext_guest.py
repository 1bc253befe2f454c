# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest whose kernel can load schedulers in BPF.

The kernels of Debian 12 and 13 have no CONFIG_SCHED_CLASS_EXT; those of Debian's backports and
unstable have it. SCHEDPERF_SCHED_EXT_KERNEL names the image of one, below boot/ of a directory into
which its packages are unpacked.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from schedperf.commands._recorder import system_python
from schedperf.commands._zipapp import build_zipapp
from schedperf.lab.vm.guest import GuestFailed, Hypervisor, boot
from schedperf.lab.vm.images import read_kernel
from schedperf.lab.vm.machine import make_machine, total_memory
from schedperf.lab.vm.script import PREPARE
from tests.end_to_end.conftest import LONGEST_STEP_S

VARIABLE = "SCHEDPERF_SCHED_EXT_KERNEL"
ATTEMPTS = 2
HEAD = """\
exec 9>/mnt/events
exec >/mnt/log 2>&1
tell() { echo "{\\"event\\": \\"$1\\"}" >&9; }
trap 'echo $? >/mnt/status' EXIT
set -eu
tell booted
while sleep 10; do tell alive; done &
PREPARE
export TMPDIR=/run/schedperf
mkdir $TMPDIR
cp /mnt/recorder $TMPDIR
cd $TMPDIR
"""


def find_kernel(*programs: str) -> Path:
    """Return the image, or skip the test without one or without the programs."""
    image = os.environ.get(VARIABLE)
    if image is None:
        pytest.skip(f"needs a kernel with CONFIG_SCHED_CLASS_EXT=y; set {VARIABLE} to its image")
    for program in ("hackbench", "vng", *programs):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    return Path(image)


def run_in_guest(
    folder: Path, image: Path, script: str, files: Iterable[Path], kernel_arguments: str = ""
) -> Path:
    """Run a script in a guest beside the recorder and some files; return their directory.

    :param script: what follows after HEAD; ``PYTHON`` is replaced
    """
    kernel = read_kernel("scx", image, None, Path("/lib/modules"))
    shutil.copyfile(kernel.image, folder / "image")
    if kernel.modules is not None:
        (folder / "lib" / "modules").mkdir(parents=True)
        (folder / "lib" / "modules" / kernel.release).symlink_to(kernel.modules.resolve())
    share = folder / "share"
    share.mkdir()
    text = HEAD.replace("PREPARE\n", PREPARE) + script
    (share / "run").write_text(text.replace("PYTHON ", f"{system_python()} "))
    (share / "recorder").write_bytes(build_zipapp())
    for file in files:
        shutil.copy(file, share)
    hypervisor = Hypervisor(
        vng=shutil.which("vng") or "vng",
        machine=make_machine(2, 1, 1, "2G", total_memory()),
        is_kvm=False,
        kernel_arguments=kernel_arguments,
        silence_s=LONGEST_STEP_S,
    )
    for attempt in range(ATTEMPTS):
        try:
            boot(hypervisor, folder / "image", share, lambda _: None, is_verbose=attempt > 0)
        except GuestFailed as error:
            failure = error.reason
        else:
            return share
    pytest.fail(f"the guest failed in all {ATTEMPTS} attempts: {failure}")
