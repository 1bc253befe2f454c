# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf series --ends``: the search of bisect boots the kernels that it asks for."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.inputs.bundle.open import open_bundle

SLOWER = 3
KERNELS = 9
# The most boots of one kernel.
MOST_BOOTS = 12
# A guest: it adds a boot to the bundle of its kernel, whose name is that of the directory.
BOOT = """\
kernel=$(basename "${share%/*}")
boots=$(tar --list --file "$share/bundle.tar" 2>/dev/null | grep -c host.json)
cp "$RECORDED/${kernel%%-*}-$((boots + 1)).tar" "$share/bundle.tar" || exit
echo '{"event": "booted"}' >$share/events
echo 0 >$share/status
"""

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86"
)


@pytest.fixture
def _recorded(
    tmp_path: Path, make_bundle: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The bundle of each kernel after each of its boots.
    folder = tmp_path / "recorded"
    folder.mkdir()
    monkeypatch.setenv("RECORDED", str(folder))
    for number in range(KERNELS):
        level = 1.3 if number >= SLOWER else 1.0
        runs = [
            {"boot": i, "boot_id": f"{i:08d}-0000-4000-8000-000000000000", "run": 0,
             "time_s": round(level * (1 + 0.002 * ((number + i) % 5)), 4)}
            for i in range(MOST_BOOTS)
        ]  # fmt: skip
        for boots in range(1, MOST_BOOTS + 1):
            make_bundle(folder / f"{number:02}-{boots}.tar", runs=runs[:boots])


@pytest.mark.usefixtures("_recorded")
def test_the_commit_that_changes_the_result_is_named_after_few_kernels(
    tmp_path: Path,
    make_vng: Callable[[str], str],
    make_image: Callable[[str], bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = Path(make_vng(BOOT))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    kernels = [f"k{number}" for number in range(KERNELS)]
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
