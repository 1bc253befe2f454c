# SPDX-License-Identifier: GPL-2.0-or-later
"""The script of a guest, run here with directories of this machine instead of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schedperf.lab.vm.script import PREPARE, Work, write_script

pytestmark = pytest.mark.system

# What the recorder is called with, and that it makes its bundle.
RECORDER = """\
import os, sys
with os.fdopen(9, "w") as events:
    events.write('{"event": "run"}\\n')
print(*sys.argv[1:], sep="\\n")
print("folder", os.getcwd(), "staging", os.environ["TMPDIR"])
path = sys.argv[5]
with open(path, "a") as bundle:
    bundle.write("runs;")
sys.exit(7 if "fails" in sys.argv else 0)
"""


@pytest.fixture
def share(tmp_path: Path) -> Path:
    folder = tmp_path / "share"
    folder.mkdir()
    return folder


def work(share: Path, *command: str, setup: str = "") -> Work:
    (share / "recorder").write_text(RECORDER)
    return Work(
        python=sys.executable,
        recorder=RECORDER.encode(),
        arguments=["-n", "2", "--", *command],
        setup=setup,
        folder=share.parent,
    )


def run(share: Path) -> list[str]:
    """Run the recording half of a guest's script; return the lines of its log."""
    script = (share / "run").read_text()
    # Mounting is the guest's business; a real one does it in tests/end_to_end.
    assert script.count(PREPARE) == 1
    script = script.replace(PREPARE, "")
    staging = share.parent / "staging"
    script = script.replace("/mnt", str(share)).replace("/run/schedperf", str(staging))
    subprocess.run(["sh", "-c", script], check=True)
    return (share / "log").read_text().splitlines()


def test_the_first_boot_makes_the_bundle_and_says_0(share: Path) -> None:
    write_script(share, work(share, "hackbench", "-l", "a b"), "tip.tar", ["--turn", "3f,0,0"])
    log = run(share)
    staging = share.parent / "staging"
    assert log[:4] == ["record", "--events", "9", "-o"]
    assert log[4:10] == [f"{staging}/tip.tar", "--turn", "3f,0,0", "-n", "2", "--"]
    assert log[10:13] == ["hackbench", "-l", "a b"]
    assert log[13] == f"folder {share.parent} staging {staging}"
    assert (share / "status").read_text() == "0\n"
    assert (share / "bundle.tar").read_text() == "runs;"
    # On a busy machine the guest also says that it is alive.
    events = [json.loads(line)["event"] for line in (share / "events").read_text().splitlines()]
    assert [event for event in events if event != "alive"] == ["booted", "run"]


def test_later_boots_add_to_the_bundle(share: Path) -> None:
    (share / "bundle.tar").write_text("earlier;")
    write_script(share, work(share, "true"), "tip.tar", [])
    assert run(share)[3] == "--append"
    assert (share / "bundle.tar").read_text() == "earlier;runs;"


def test_a_recorder_that_fails_is_told_and_its_bundle_is_kept(share: Path) -> None:
    write_script(share, work(share, "fails"), "tip.tar", [])
    run(share)
    assert (share / "status").read_text() == "7\n"
    assert (share / "bundle.tar").read_text() == "runs;"


@pytest.mark.parametrize("setup", ["exit 3", "no-such-program-here", "cd /nowhere"])
def test_a_setup_that_fails_ends_the_boot_before_anything_is_recorded(
    share: Path, setup: str
) -> None:
    write_script(share, work(share, "true", setup=setup), "tip.tar", [])
    log = run(share)
    assert "record" not in log
    assert (share / "status").read_text() != "0\n"
    assert not (share / "bundle.tar").exists()


def test_a_setup_is_a_shell_script_that_comes_first(share: Path) -> None:
    write_script(share, work(share, "true", setup="for i in 1 2; do echo $i; done"), "tip.tar", [])
    assert run(share)[:3] == ["1", "2", "record"]
