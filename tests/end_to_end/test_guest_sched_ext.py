# SPDX-License-Identifier: GPL-2.0-or-later
"""sched_ext in a real kernel: a scheduler is loaded for its runs, and ejected ones are discarded.

The kernels of Debian 12 and 13 have no CONFIG_SCHED_CLASS_EXT; those of Debian's backports and
unstable have it. SCHEDPERF_SCHED_EXT_KERNEL names the image of one, below boot/ of a directory into
which its packages are unpacked.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._recorder import system_python
from schedperf.commands._zipapp import build_zipapp
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.lab.vm.guest import GuestFailed, Hypervisor, boot
from schedperf.lab.vm.images import read_kernel
from schedperf.lab.vm.machine import make_machine, total_memory
from schedperf.lab.vm.script import PREPARE
from schedperf.model.comparison import Comparison
from tests.end_to_end.conftest import LONGEST_STEP_S

VARIABLE = "SCHEDPERF_SCHED_EXT_KERNEL"
SOURCES = Path(__file__).parent.parent / "data" / "sched_ext"
ATTEMPTS = 2

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200), pytest.mark.xdist_group("guests-2")]

# Of the runs with a scheduler, the kernel's watchdog ends the second, and SysRq-S the third.
WORKLOAD = """\
sched_ext=/sys/kernel/sched_ext
if [ -e $sched_ext/root/ops ]; then
    echo >>count
    case $(wc -l <count) in
    2) ./stall-me 0.1 & ;;
    3) echo S >/proc/sysrq-trigger ;;
    esac
    case $(wc -l <count) in
    2|3) while [ "$(cat $sched_ext/state)" = enabled ]; do sleep 0.1; done ;;
    esac
    wait
fi
hackbench -l 20 -g 1
"""
RUN = """\
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
cp /mnt/recorder /mnt/workload /mnt/scx_* $TMPDIR
cp /bin/sleep $TMPDIR/stall-me
cd $TMPDIR
touch count
PYTHON -I recorder ab --events 9 -o scx --service fifo=./scx_fifo -n 4 --warmup 0 \\
    --with sched_ext -- sh workload
cat /sys/kernel/sched_ext/state >/mnt/state
cp *.tar /mnt/
"""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Boot a guest that records both sides; return what it brought."""
    image = os.environ.get(VARIABLE)
    if image is None:
        pytest.skip(f"needs a kernel with CONFIG_SCHED_CLASS_EXT=y; set {VARIABLE} to its image")
    for program in ("bpftool", "clang", "hackbench", "vng"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    kernel = read_kernel("scx", Path(image), None, Path("/lib/modules"))
    folder = tmp_path_factory.mktemp("sched-ext")
    shutil.copyfile(kernel.image, folder / "image")
    if kernel.modules is not None:
        (folder / "lib" / "modules").mkdir(parents=True)
        (folder / "lib" / "modules" / kernel.release).symlink_to(kernel.modules.resolve())
    share = folder / "share"
    share.mkdir()
    text = RUN.replace("PYTHON ", f"{system_python()} ").replace("PREPARE\n", PREPARE)
    (share / "run").write_text(text)
    (share / "workload").write_text(WORKLOAD)
    (share / "recorder").write_bytes(build_zipapp())
    shutil.copy(SOURCES / "scx_fifo", share)
    subprocess.run(
        ["clang", "-target", "bpf", "-O2", "-g", "-c", SOURCES / "scx_fifo.bpf.c", "-o",
         share / "scx_fifo.bpf.o"],
        check=True,
    )  # fmt: skip
    hypervisor = Hypervisor(
        vng=shutil.which("vng") or "vng",
        machine=make_machine(2, 1, 1, "2G", total_memory()),
        is_kvm=False,
        kernel_arguments="",
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


@pytest.fixture(scope="module")
def sides(share: Path) -> tuple[Bundle, Bundle]:
    """Return base, which ran with the fair class, and the side with the scheduler."""
    return open_bundle(share / "scx-base.tar"), open_bundle(share / "scx-fifo.tar")


@pytest.fixture(scope="module")
def compared(sides: tuple[Bundle, Bundle]) -> Comparison:
    """Return the comparison of both."""
    return compare_bundles(sides)


def states(bundle: Bundle, run: int) -> Mapping[str, Any]:
    found = json.loads(bundle.read(f"boots/0/runs/{run:03d}/sched_ext/sched_ext.json"))
    assert isinstance(found, dict)
    return found


def test_the_scheduler_is_loaded_for_its_runs_only(
    share: Path, sides: tuple[Bundle, Bundle]
) -> None:
    base, fifo = sides
    assert len(base.runs) == len(fifo.runs) == 4
    for run in range(4):
        assert states(base, run)["before"]["state"] == "disabled"
        before = states(fifo, run)["before"]
        assert (before["state"], before["ops"]) == ("enabled", "fifo")
    loads = [int(states(fifo, run)["before"]["enable_seq"]) for run in range(4)]
    # host.json was the first.
    assert loads == [2, 3, 4, 5]
    assert (share / "state").read_text() == "disabled\n"


def test_ejected_runs_are_discarded_with_the_reason_of_the_kernel(
    sides: tuple[Bundle, Bundle],
) -> None:
    base, fifo = sides
    assert [run.discarded for run in base.runs] == [None] * 4
    first, stalled, reset, last = (run.discarded for run in fifo.runs)
    assert (first, last) == (None, None)
    assert stalled is not None
    assert stalled.startswith("scx_fifo was ejected (runnable task stall (stall-me[")
    assert reset is not None
    assert reset.startswith("scx_fifo was ejected (disabled by sysrq-S")


def test_the_comparison_knows_the_scheduler_and_counts_discarded_runs(compared: Comparison) -> None:
    differences = {each.path: each for each in compared.comparability.differences}
    for path, value in (("sched.sched_ext", "enabled"), ("sched.sched_ext_ops", "fifo")):
        assert (differences[path].severity, differences[path].new) == ("treatment", value)
    assert compared.comparability.comparable
    new = compared.sides[1]
    assert (new.runs_clean, new.runs_failed, new.runs_discarded) == (2, 0, 2)
    said = [each.text for each in compared.caveats if each.code == "discarded-runs"]
    assert len(said) == 1
    assert said[0].startswith("2 of 4 runs of new discarded: scx_fifo was ejected (runnable task")
    data: Any = compared.sections["sched_ext"].data
    assert [(row.side, row.scheduler, row.runs, row.discarded) for row in data.rows] == [
        ("base", None, 4, 0),
        ("new", "fifo", 4, 2),
    ]
    assert data.rows[1].version == "scx_fifo 1.0"
