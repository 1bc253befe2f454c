# SPDX-License-Identifier: GPL-2.0-or-later
"""A scheduler of scx in a real kernel: its own statistics are recorded and compared.

``SCHEDPERF_SCX_SCHEDULER`` names the program ``scx_bpfland``. Schedulers of scx read the kernel's
configuration, which must be beside the image, as ``config-RELEASE``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from tests.end_to_end.sched_ext_guest import find_kernel, run_in_guest

VARIABLE = "SCHEDPERF_SCX_SCHEDULER"
RUNS = 3

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200), pytest.mark.xdist_group("guests-2")]

RUN = f"""\
cp /mnt/scx_bpfland .
mount -t tmpfs none /boot
cp /mnt/config-* /boot/
PYTHON -I recorder ab --events 9 -o scx --service a=./scx_bpfland \\
    --service 'b=./scx_bpfland --slice-us 200' -n {RUNS} --warmup 0 --with sched_ext,scx_stats -- \\
    hackbench -l 200 -g 1
cp *.tar /mnt/
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the section of the comparison of both sides."""
    image = find_kernel()
    program = os.environ.get(VARIABLE)
    if program is None:
        pytest.skip(f"needs scx_bpfland; set {VARIABLE} to its program")
    configs = sorted(image.parent.glob("config-*"))
    if not configs:
        pytest.skip(f"no config-RELEASE beside {image}")
    folder = tmp_path_factory.mktemp("scx-stats")
    # The watchdog of an emulator's clock would change the clock source between runs.
    share = run_in_guest(folder, image, RUN, [Path(program), *configs], "tsc=reliable")
    sides = [open_bundle(share / f"scx-{name}.tar") for name in ("a", "b")]
    return compare_bundles(sides).sections["scx_stats"].data


def test_all_runs_have_statistics(data: Any) -> None:
    assert [(side.side, side.runs) for side in data.sides] == [("base", RUNS), ("new", RUNS)]
    assert data.notes == ()


def test_counts_and_levels_are_told_apart(data: Any) -> None:
    kinds: Mapping[str, str] = {row.field: row.kind for row in data.rows}
    assert kinds["nr_shared_dispatches"] == "period"
    assert kinds["nr_cpus"] == "level"
    [cpus] = [row for row in data.rows if row.field == "nr_cpus"]
    assert (cpus.base, cpus.new) == (2.0, 2.0)


def test_counts_are_those_of_the_run(data: Any) -> None:
    # hackbench passes 20 x 20 x 200 messages, and each task is dispatched when it is woken.
    [row] = [
        row for row in data.rows if row.field == "nr_shared_dispatches" and row.basis == "time"
    ]
    assert row.unit == "1/s"
    assert min(*row.values_base, *row.values_new) > 10.0
