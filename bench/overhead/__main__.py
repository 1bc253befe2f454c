# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how much each collector slows the workload: ``python -m bench.overhead``.

Runs of hackbench with each collector are compared with runs of hackbench alone, on this machine and
in a guest with a kernel of its own. The tables have the ratios of wall time and of CPU time, which
other programs on the machine disturb less: geometric means over the rounds with 95% CIs (Student's
t on logarithms). The time that a collector takes before and after the run does not slow the
workload; it is given in seconds. The nanoseconds per call of each BPF program are measured by the
kernel.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.overhead.table import lines
from schedperf.lab.vm.guest import GuestFailed, Hypervisor, boot
from schedperf.lab.vm.machine import make_machine, total_memory, try_kvm
from schedperf.lab.vm.script import BOOTED, PREPARE, SHARE

ROOT = Path(__file__).parents[2]
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
# The recorder uses the system's Python, which has what the distribution packages for it.
PYTHON = "/usr/bin/python3"
MODULE = "bench.overhead.rounds"
HERE_S = 240.0
GUEST_S = 420.0
# Beyond the rounds: the boot, a trial of each collector, compiling.
GUEST_LIMIT_S = 900.0
ATTEMPTS = 2

SCRIPT = f"""\
exec 9>{SHARE}/events
echo '{BOOTED}' >&9
{PREPARE}
export TMPDIR=/run PYTHONPATH=@PATH@ XDG_CACHE_HOME={SHARE}
cd /run
{PYTHON} -m {MODULE} @OPTIONS@ >{SHARE}/record.json 2>{SHARE}/log
echo $? >{SHARE}/status
"""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("--kernel", type=Path, default=KERNELS / "tip" / "bzImage")
    parser.add_argument("--seconds", type=float, default=HERE_S, help="for the rounds here")
    parser.add_argument("--guest-seconds", type=float, default=GUEST_S, help="0: no guest")
    parser.add_argument("--only", action="append", metavar="COLLECTOR", default=[])
    return parser.parse_args(arguments)


def python_path() -> str:
    """Return the PYTHONPATH with which the rounds can import this package and the collectors."""
    return f"{ROOT}:{ROOT / 'collectors'}"


def measure_here(options: Sequence[str]) -> Any:
    """Run the rounds on this machine; return the JSON object that they print.

    :param options: options of ``bench.overhead.rounds``
    :raises subprocess.CalledProcessError: the rounds fail
    """
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [PYTHON, "-m", MODULE, *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measure_in_guest(image: Path, options: Sequence[str]) -> Any:
    """Run the rounds in a guest with 4 CPUs on 2 nodes; return the JSON object that they print.

    If that is not possible, return a text with the reason.

    :param image: the guest's kernel
    :param options: options of ``bench.overhead.rounds``
    :raises InputError: the rounds fail in the guest, or this machine has too little memory
    """
    qemu = shutil.which("qemu-system-x86_64")
    vng = shutil.which("vng", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if qemu is None or vng is None or not image.is_file():
        return f"qemu-system-x86_64, vng or {image.name} is missing"
    hypervisor = Hypervisor(
        vng=vng,
        machine=make_machine(4, 2, 1, "4G", total_memory()),
        is_kvm=try_kvm(qemu).is_kvm,
        kernel_arguments="",
        silence_s=GUEST_LIMIT_S,
    )
    with tempfile.TemporaryDirectory() as name:
        share = Path(name)
        script = SCRIPT.replace("@PATH@", python_path()).replace("@OPTIONS@", " ".join(options))
        (share / "run").write_text(script)
        for _ in range(ATTEMPTS):
            try:
                boot(hypervisor, image, share, lambda _: None)
                return json.loads((share / "record.json").read_bytes())
            except GuestFailed as error:
                reason = error.reason
    return reason


def main(arguments: Sequence[str]) -> None:
    """Print a table of this machine, and one of a guest, unless that is switched off."""
    asked = parse_arguments(arguments)
    only = [word for name in asked.only for word in ("--only", name)]
    here = measure_here(["--seconds", str(asked.seconds), *only])
    print("\n".join(lines(here)), flush=True)
    if not asked.guest_seconds:
        return
    found = measure_in_guest(asked.kernel, ["--seconds", str(asked.guest_seconds), *only])
    print()
    print(f"no guest: {found}" if isinstance(found, str) else "\n".join(lines(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
