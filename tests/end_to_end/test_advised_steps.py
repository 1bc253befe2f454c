# SPDX-License-Identifier: GPL-2.0-or-later
"""Each step that the comparisons of examples/ advise runs as it is printed, with fewer runs."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from schedperf.bundle.open import open_bundle

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ENTER_CGROUP = EXAMPLES / "deep-cgroup" / "enter-cgroup"
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
CGROUPS = Path("/sys/fs/cgroup")
PROGRAMS = {"hackbench": "rt-tests", "perf": "linux-perf"}
# What makes a step of an example long: runs, boots, and messages of hackbench. Guests are emulated,
# as in all tests, since the KVM of virtual machines may not work.
SHORTER = (
    (r"schedperf vm --kernel", "schedperf vm --accel tcg --kernel"),
    (r" -n \d+ ", " -n 1 --instrumented 1 --warmup 0 "),
    (r" --boots \d+ ", " --boots 1 "),
    (r" -l \d{3,}\b", " -l 20"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty directory, with the command on the PATH."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        packages = " ".join(PROGRAMS[program] for program in missing)
        pytest.skip(f"needs root{f'; apt-get install {packages}' if packages else ''}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    )
    return tmp_path


@pytest.fixture
def _machine_restored() -> Iterator[None]:
    # A step that adds runs to a bundle sets the machine as the recording did, and leaves it so.
    before = AUTOGROUP.read_text() if AUTOGROUP.exists() else None
    yield
    if before is not None:
        AUTOGROUP.write_text(before)
    made = [Path(path) for path, _, _ in os.walk(CGROUPS) if re.search(r"/schedperf\d+$", path)]
    for path in sorted(made, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            path.rmdir()


def bring(folder: Path, name: str) -> Mapping[str, list[str]]:
    """Copy an example into the directory; return the commands of each step, for fewer runs."""
    for side in ("base", "new"):
        shutil.copy(EXAMPLES / name / f"{side}.tar.xz", folder)
    # Its comparison says that this file is to be copied.
    shutil.copy(ENTER_CGROUP, folder)
    printed = run("schedperf compare base.tar.xz new.tar.xz --json -", statuses=(0, 1))
    steps = {step["id"]: step["commands"] for step in json.loads(printed)["next_steps"]}
    assert steps
    return {name: [shorten(command) for command in commands] for name, commands in steps.items()}


def shorten(command: str) -> str:
    for long, short in SHORTER:
        command = re.sub(long, short, command)
    return command


def run(command: str, statuses: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode in statuses, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def works_here(command: str, usable: set[str]) -> bool:
    chosen = re.search(r" --with (\S+)", command)
    return chosen is None or set(chosen[1].split(",")) - {"default", "none"} <= usable


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("_machine_restored")
@pytest.mark.parametrize("name", ["deep-cgroup", "deep-cgroup-arm64"])
def test_every_step_of_an_example_runs(name: str, folder: Path) -> None:
    statuses = {
        # Boots that are added here are of another kernel than the recorded ones.
        "schedperf compare": (0, 1, 4),
        # It says what is missing on this machine.
        "schedperf doctor": (0, 1),
    }
    checked = json.loads(run("schedperf doctor --json", (0, 1)))["collectors"]
    usable = {each["name"] for each in checked if each["status"] == "ok"}
    left_out = []
    for step, commands in bring(folder, name).items():
        if not all(works_here(command, usable) for command in commands):
            left_out.append(step)
            continue
        for command in commands:
            begin = " ".join(command.split()[:2])
            run(command, statuses.get(begin, (0,)))
    assert sorted(path.name for path in folder.glob("*.tar")), "no step recorded anything"
    if left_out:
        pytest.skip(f"all but {', '.join(left_out)} ran: BPF does not work here")


@pytest.mark.vm
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("guest-kernels")
def test_every_step_of_guests_runs(
    folder: Path, kernel_images: Mapping[str, Path], guest_environment: Mapping[str, str]
) -> None:
    base, new = map(str, kernel_images.values())
    for commands in bring(folder, "cluster-percpu").values():
        for command in commands:
            words = command.replace("BASE_BZIMAGE", base).replace("NEW_BZIMAGE", new)
            done = subprocess.run(
                ["sh", "-c", words], capture_output=True, text=True, env=guest_environment
            )
            assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr[-3000:]}"
    made = [open_bundle(folder / f"{side}-real.tar") for side in ("base", "new")]
    assert all(len(bundle.workload) == 2 for bundle in made)
