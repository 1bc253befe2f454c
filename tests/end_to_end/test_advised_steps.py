# SPDX-License-Identifier: GPL-2.0-or-later
"""Each step that the comparisons of examples/ advise runs as it is printed, with fewer runs.

The time of each command is printed (``pytest -rP``).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from schedperf.inputs.bundle.open import open_bundle

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ENTER_CGROUP = EXAMPLES / "deep-cgroup" / "enter-cgroup"
PROGRAMS = {"hackbench": "rt-tests", "perf": "linux-perf"}
# What makes a step of an example long: runs and boots. Guests are emulated, as in all tests, since
# the KVM of virtual machines may not work.
RERUN = "schedperf rerun "
FEWER_RUNS = " -n 1 --yes"
FEWER_BOOTS = (r" --boots \d+\b", " --boots 1")
# Recordings are not of this machine, so nothing is added to them.
OTHER_KERNEL = re.compile(r"schedperf: error: boot \S+ \(build id [0-9a-f]{40}\), then repeat ")


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


def bring(folder: Path, name: str) -> Mapping[str, list[str]]:
    """Copy an example into the directory; return the commands of each step, for fewer runs."""
    for side in ("base", "new"):
        shutil.copy(EXAMPLES / name / f"{side}.tar.xz", folder)
    # Its comparison says that this file is to be copied.
    shutil.copy(ENTER_CGROUP, folder)
    printed = run("schedperf compare base.tar.xz new.tar.xz --json -", statuses=(0, 1))
    steps = {step["id"]: step["commands"] for step in json.loads(printed)["next_steps"]}
    assert steps
    return steps


def run(
    command: str, statuses: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None
) -> str:
    """Run a command as a shell would; print how long it takes; return its output."""
    began_s = time.monotonic()
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=env)
    sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {command}\n")
    assert done.returncode in statuses, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout + (done.stderr if done.returncode else "")


def shorten(command: str) -> str:
    """Return a command that records with fewer runs; another one as it is."""
    return f"{re.sub(*FEWER_BOOTS, command)}{FEWER_RUNS}" if command.startswith(RERUN) else command


def works_here(command: str, usable: set[str]) -> bool:
    chosen = re.search(r" --with (\S+)", command)
    return chosen is None or set(chosen[1].split(",")) - {"default", "none"} <= usable


# Beside other long tests of its worker, it makes none of them wait.
@pytest.mark.xdist_group("machine")
@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["deep-cgroup", "deep-cgroup-arm64"])
def test_every_step_of_an_example_runs(name: str, folder: Path) -> None:
    checked = json.loads(run("schedperf doctor --json", (0, 1)))["collectors"]
    usable = {each["name"] for each in checked if each["status"] == "ok"}
    left_out = []
    for step, commands in bring(folder, name).items():
        if not all(works_here(command, usable) for command in commands):
            left_out.append(step)
            continue
        for command in commands:
            run_step(command)
    assert sorted(path.name for path in folder.glob("rerun*/*.tar")), "no step recorded anything"
    if left_out:
        pytest.skip(f"all but {', '.join(left_out)} ran: BPF does not work here")


def run_step(command: str) -> None:
    """Run one command of a step, and what it prints as the next one."""
    if command.startswith("schedperf doctor"):
        # It prints what is missing on this machine.
        run(command, (0, 1))
    elif " --append" in command:
        assert OTHER_KERNEL.match(run(shorten(command), (2,)))
    elif command.startswith(RERUN):
        # What is printed is what is run, and what has run can be compared.
        printed = run(f"{command} --print")
        assert all(line.startswith("schedperf ab --base rerun") for line in printed.splitlines())
        (compare,) = run(shorten(command)).splitlines()
        assert compare.startswith("schedperf compare rerun")
        run(compare, (0, 1))
    else:
        run(command, (0, 1, 4))


@pytest.mark.vm
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("guests-1")
def test_every_step_of_guests_runs(
    folder: Path, kernel_images: Mapping[str, Path], guest_environment: Mapping[str, str]
) -> None:
    base, new = map(str, kernel_images.values())
    # What collectors capture in guests is tested with other boots of these kernels.
    for commands in bring(folder, "cluster-percpu").values():
        for command in map(shorten, commands):
            words = command.replace("BASE_BZIMAGE", base).replace("NEW_BZIMAGE", new)
            run(words.replace(" --yes", " --accel tcg --with none --yes"), env=guest_environment)
    made = [open_bundle(folder / "rerun" / f"{side}.tar") for side in ("base", "new")]
    assert all(len(bundle.workload) == 2 for bundle in made)
    assert all("nokaslr" in (bundle.boots[0].host.kernel.cmdline or "") for bundle in made)
    # Both kernels of a session are a round, and new boots are another session.
    sessions = [{run.session for run in bundle.runs} for bundle in made]
    assert sessions[0] == sessions[1]
    assert len(sessions[0]) == 2
    assert {run.round for bundle in made for run in bundle.runs} == {0}
    base_orders, new_orders = ({run.order for run in bundle.runs} for bundle in made)
    assert max(base_orders) < min(new_orders)
    releases = [{boot.host.kernel.release for boot in bundle.boots} for bundle in made]
    assert [len(bundle.boots) for bundle in made] == [2, 2]
    assert [len(each) for each in releases] == [1, 1]
    # The new bundles have the options of the guests themselves.
    given = made[0].recordings[0].command
    assert given[1] == "vm"
    assert given[given.index("--kernel-args") + 1] == "nokaslr"
