# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf series --ends``: the search of bisect boots the kernels that it asks for."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.inputs.bundle.open import open_bundle

ROOT = Path(__file__).parents[4]
SLOWER = 3
# A guest: it adds a boot to the bundle of its kernel, whose name is that of the directory.
GUEST = """\
import sys
from pathlib import Path
from schedperf.inputs.bundle.open import open_bundle
from tests.conftest import bundle_members, write_tar
bundle = Path(sys.argv[1], "bundle.tar")
number = int(bundle.parent.parent.name[:2])
level = 1.3 if number >= 3 else 1.0
boots = len(open_bundle(bundle).boots) if bundle.exists() else 0
runs = [
    {"boot": i, "boot_id": f"{i:08d}-0000-4000-8000-000000000000", "run": 0,
     "time_s": round(level * (1 + 0.002 * ((number + i) % 5)), 4)}
    for i in range(boots + 1)
]
write_tar(bundle, bundle_members(runs=runs).items())
"""
BOOT = f"""\
cd {ROOT} && {sys.executable} -c "$GUEST" "$share" || exit
echo '{{"event": "booted"}}' >$share/events
echo 0 >$share/status
"""

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86"
)


def test_the_commit_that_changes_the_result_is_named_after_few_kernels(
    tmp_path: Path,
    make_vng: Callable[[str], str],
    make_image: Callable[[str], bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = Path(make_vng(BOOT))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("GUEST", GUEST)
    monkeypatch.chdir(tmp_path)
    kernels = [f"k{number}" for number in range(9)]
    for name in kernels:
        Path(name).mkdir()
        Path(name, "bzImage").write_bytes(make_image(f"6.1.0-{name}"))
    built = [f"--built={name}={name}" for name in kernels]
    options = ("--ends", "--accel", "tcg", "--with", "none", "--instrumented", "0", "-o", "out")
    assert main(["series", *built, *options, "--", "true"]) in {0, 1}
    out, err = capsys.readouterr()
    [named] = [line for line in err.splitlines() if line.startswith("first bad commit")]
    assert f'("k{SLOWER}")' in named
    recorded = {path.stem for path in Path("out").glob("*.tar")}
    assert {"00-k0", f"0{SLOWER - 1}-k{SLOWER - 1}", f"0{SLOWER}-k{SLOWER}", "08-k8"} <= recorded
    assert len(recorded) < len(kernels)
    assert len(open_bundle(Path("out", "00-k0.tar")).boots) == 9
    # All kernels that were booted are compared.
    assert f"k{SLOWER}" in out
