# SPDX-License-Identifier: GPL-2.0-or-later
"""sched_ext in a real kernel: a scheduler is loaded for its runs; ejected ones are discarded."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.model.comparison import Comparison
from tests.end_to_end.sched_ext_guest import find_kernel, run_in_guest

SOURCES = Path(__file__).parent.parent / "data" / "sched_ext"

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
cp /mnt/workload /mnt/scx_* .
cp /bin/sleep stall-me
touch count
PYTHON -I recorder ab --events 9 -o scx --service fifo=./scx_fifo -n 4 --warmup 0 \\
    --with sched_ext -- sh workload
cat /sys/kernel/sched_ext/state >/mnt/state
cp *.tar /mnt/
"""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Boot a guest that records both sides; return what it brought."""
    image = find_kernel("bpftool", "clang")
    folder = tmp_path_factory.mktemp("sched-ext")
    workload, program = folder / "workload", folder / "scx_fifo.bpf.o"
    workload.write_text(WORKLOAD)
    subprocess.run(
        ["clang", "-target", "bpf", "-O2", "-g", "-c", SOURCES / "scx_fifo.bpf.c", "-o", program],
        check=True,
    )
    return run_in_guest(folder, image, RUN, [workload, program, SOURCES / "scx_fifo"])


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
