# SPDX-License-Identifier: GPL-2.0-or-later
"""Energy from sysfs to the record: each run uses a known energy, and the report has that number.

The counters are files in the layout of powercap, mounted over /sys in a mount namespace; the
workload advances them itself, so nothing depends on time.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedperf_generators.energy import RAPL_RANGE_UJ, EnergyTree, Zone

# The counter starts from 0 again in the first run of base.
ZONE = Zone(folder="intel-rapl:0", name="package-0", energy_uj=str(RAPL_RANGE_UJ - 5))
COUNTER = "/sys/class/powercap/intel-rapl:0/energy_uj"
RECORD = """
mount --bind "$1/root/sys/class" /sys/class
mount --bind "$1/root/sys/devices/virtual" /sys/devices/virtual
record() {
    echo "$4" > "$1/used"
    "$2" -m schedperf record -o "$1/$3.tar" -n 3 --warmup 0 --instrumented 0 --with energy -- \\
        sh -c "n=\\$(cat COUNTER); echo \\$(( (n + \\$(cat $1/used)) % $((RANGE + 1)) )) > COUNTER"
}
record "$1" "$2" base 90000000
record "$1" "$2" new 101500000
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts files over /sys")
def test_the_energy_of_each_run_is_what_its_workload_used(tmp_path: Path) -> None:
    tree = EnergyTree(tmp_path / "root", zones=[ZONE])
    assert tree.root.exists()
    script = RECORD.replace("COUNTER", COUNTER).replace("RANGE", str(RAPL_RANGE_UJ))
    command = ["bash", "-ec", script, "-", str(tmp_path), sys.executable]
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"]).returncode:
        pytest.skip("unshare -m does not work here")
    done = subprocess.run(["unshare", "-m", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compared = subprocess.run(
        [sys.executable, "-m", "schedperf", "compare", "base.tar", "new.tar", "--json", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    [per_run] = [
        row
        for row in json.loads(compared.stdout)["sections"]["energy"]["data"]["rows"]
        if row["basis"] == "share"
    ]
    assert per_run["domain"] == "package-0"
    assert per_run["values_base"] == pytest.approx([90.0] * 3)
    assert per_run["values_new"] == pytest.approx([101.5] * 3)
    assert per_run["ratio"] == pytest.approx(101.5 / 90.0)
