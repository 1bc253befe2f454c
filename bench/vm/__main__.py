# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure BPF loaders and a whole session in emulated guests: ``python -m bench.vm``.

The first table is of one guest: the time that each loader of the PELT programs takes until all of
them are attached, and the calls that the programs of both loaders and execution breakpoints count
in the same run of hackbench. Then follows the time of a whole session as a user starts it: two
kernels, each booted twice, two runs in each boot.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf.commands._recorder import system_python
from schedperf.commands._zipapp import build_zipapp
from schedperf.lab.vm.guest import GuestFailed, Hypervisor, boot
from schedperf.lab.vm.machine import make_machine, total_memory
from schedperf.lab.vm.script import ALIVE, ALIVE_S, BOOTED, PREPARE, SHARE

ROOT = Path(__file__).parents[2]
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
NAMES = ("tip", "cluster")
LOADERS = Path(__file__).with_name("loaders.py")
SILENCE_S = 420.0
ATTEMPTS = 2
COLLECTORS = "default,bpf_pelt,bpf_placement"
WORKLOAD = ("hackbench", "-l", "100", "-g", "2")
# What a session may take on two idle CPUs.
GOAL_S = 12 * 60

SCRIPT = f"""\
exec 9>{SHARE}/events
echo '{BOOTED}' >&9
while sleep {ALIVE_S}; do echo '{ALIVE}' >&9; done &
{PREPARE}
export TMPDIR=/run PYTHONPATH={SHARE}/recorder
cd /run
@PYTHON@ -B {SHARE}/{LOADERS.name} >{SHARE}/record.json 2>{SHARE}/log
echo $? >{SHARE}/status
"""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exit with status 2 if it is wrong or a kernel is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.vm", description=__doc__)
    parser.add_argument("--kernels", type=Path, default=KERNELS, help="folder with tip, cluster")
    parser.add_argument("--only", choices=["loaders", "session"])
    asked = parser.parse_args(arguments)
    missing = [name for name in NAMES if not _image(asked.kernels, name).is_file()]
    if missing:
        parser.error(
            f"{_image(asked.kernels, missing[0])}: no such file (expected a kernel image); "
            "name the directory of the kernels with --kernels or SCHEDPERF_KERNELS"
        )
    return asked


def _image(kernels: Path, name: str) -> Path:
    return kernels / name / "bzImage"


def measure_loaders(image: Path) -> Any:
    """Run loaders.py in an emulated guest with 4 CPUs on 2 nodes; return its JSON object.

    If the guest fails ATTEMPTS times, return the last reason as text.

    :param image: path of the kernel image
    :raises InputError: loaders.py fails in the guest, or this machine has too little memory
    """
    hypervisor = Hypervisor(
        vng=shutil.which("vng", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        or "vng",
        machine=make_machine(4, 2, 1, "4G", total_memory()),
        is_kvm=False,
        kernel_arguments="",
        silence_s=SILENCE_S,
    )
    with tempfile.TemporaryDirectory() as name:
        share = Path(name)
        (share / "run").write_text(SCRIPT.replace("@PYTHON@", system_python()))
        (share / "recorder").write_bytes(build_zipapp())
        shutil.copy(LOADERS, share)
        for _ in range(ATTEMPTS):
            try:
                boot(hypervisor, image, share, lambda _: None)
                return json.loads((share / "record.json").read_bytes())
            except GuestFailed as error:
                reason = error.reason
    return reason


def measure_session(kernels: Path) -> float:
    """Record a session of two kernels; return how many seconds it takes.

    :raises CalledProcessError: ``schedperf vm`` fails
    """
    named = [f"--kernel={name}={_image(kernels, name)}" for name in NAMES]
    with tempfile.TemporaryDirectory() as output:
        command = [sys.executable, "-m", "schedperf", "vm", *named, "--output", output]
        options = ["--boots", "2", "-n", "2", "--accel", "tcg", "--with", COLLECTORS]
        began_s = time.monotonic()
        subprocess.run([*command, *options, "--", *WORKLOAD], check=True, cwd=ROOT)
        return time.monotonic() - began_s


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the table of one guest.

    :param record: the JSON object of loaders.py
    """
    yield f"PELT's programs on {record['kernel']}, emulated, from nothing to attached"
    for loader, seconds in record["seconds"].items():
        yield f"  {loader:<8} {', '.join(f'{each:.1f}' for each in seconds)} s"
    columns = ("libbpf", "bcc", "breakpoint")
    yield f"  {'calls in the same run':<26}" + "".join(f"{column:>12}" for column in columns)
    for name, function in record["functions"].items():
        counts = [str(function[column]) if column in function else "-" for column in columns]
        yield f"  {name:<26}" + "".join(f"{count:>12}" for count in counts)


def main(arguments: Sequence[str]) -> None:
    """Print the table of the loaders and the time of a session, or one of them (``--only``)."""
    asked = parse_arguments(arguments)
    if asked.only != "session":
        record = measure_loaders(_image(asked.kernels, NAMES[0]))
        print(f"no guest: {record}" if isinstance(record, str) else "\n".join(lines(record)))
    if asked.only != "loaders":
        seconds = measure_session(asked.kernels)
        print(
            f"schedperf vm, 2 kernels x 2 boots x 2 runs with {COLLECTORS}: "
            f"{seconds / 60:.1f} min (goal: at most {GOAL_S / 60:.0f} on two idle CPUs)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
