# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf bisect run``: a program of a git repository is built, run and searched here."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.lab.bisect.store import Booting, Store, read_progress
from schedperf.publish.culprit.files import load_culprit
from tests.collectors.boots.test_machine import HOOK, running_machine
from tests.git_repository import init_git
from tests.programs import Program

MAKE_PROGRAM = Path(__file__).parents[3] / "examples" / "bisect" / "make-program"
BUILD = 'cp -r program work "$SCHEDPERF_OUT"'
RULE = "time[s,lower]=time: ([0-9.]+)"
RUN = (
    "bisect", "run", "--repo", "program", "--in", "here", "--metric", RULE, "--with", "none",
    "--warmup", "0", "-o", "search",
)  # fmt: skip
WORKLOAD = ("--", "./program")
ENDS = ("--good", "v0", "--bad", "v12")
# The kernel "two" is slower.
BY_RELEASE = """
case $(cat /proc/sys/kernel/osrelease) in two) echo time: 1.5;; *) echo time: 1.0;; esac
"""
SEARCH_BY_SSH = (
    "bisect", "run", "--good", "v0", "--bad", "v1", "--on", "ssh:root@lab",
    "--build", 'cp release "$SCHEDPERF_OUT"', "--install", 'cat "$SCHEDPERF_OUT/release"',
    "--boot", f"command:{HOOK}", "--settle", "0", "-n", "1", "--warmup", "0", "--with", "none",
    "--metric", RULE, "--yes",
)  # fmt: skip
MORE = 75
KILLS = 20

Ran = subprocess.CompletedProcess[str]
Search = Callable[..., Ran]

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("bisect-run")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a repository of commits with the tags v0 to v12."""
    folder = tmp_path_factory.mktemp("bisect")
    subprocess.run([MAKE_PROGRAM], cwd=folder, check=True)
    return folder


def search(folder: Path, *options: str, build: str = BUILD, more: Sequence[str] = ENDS) -> Ran:
    """Run the command, with a search in the directory."""
    return run_in(folder, *RUN, "--build", build, *more, *options, *WORKLOAD)


def run_in(folder: Path, *words: str) -> Ran:
    """Run schedperf in a directory."""
    return subprocess.run(
        [sys.executable, "-m", "schedperf", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def found(folder: Path) -> Ran:
    """Return a search that was asked for consent, and got it in its second run."""
    asked = search(folder)
    assert asked.returncode == MORE
    assert "good and bad differ by +5" in asked.stderr
    assert "the search: about" in asked.stderr
    assert "add --yes" in asked.stderr
    return search(folder, "--yes", "--prove", "--json", "search.json")


@pytest.mark.slow
def test_a_revert_of_each_removes_its_change(found: Ran) -> None:
    reverts = [line for line in found.stdout.splitlines() if line.startswith("revert  ")]
    assert len(reverts) == 2
    assert all("removes the change; with the commit: +" in line for line in reverts)


@pytest.mark.slow
def test_both_commits_that_make_it_slower_are_named(found: Ran, folder: Path) -> None:
    assert found.returncode == 0
    named = [line for line in found.stdout.splitlines() if line.startswith("first bad commit")]
    assert len(named) == 2
    assert '("program: change 9")' in named[0]
    assert '("program: change 5")' in named[1]
    document = json.loads((folder / "search.json").read_text())
    assert document["status"] == "named"
    assert document["untestable"] == []


@pytest.mark.slow
def test_it_says_how_to_compare_a_named_commit_with_its_parent(found: Ran, folder: Path) -> None:
    commands = [line for line in found.stdout.splitlines() if line.startswith("schedperf compare")]
    assert len(commands) == 2
    compared = run_in(folder, *commands[0].split()[1:])
    assert compared.returncode == 1
    assert "regression" in compared.stdout


@pytest.mark.slow
def test_the_table_of_boots_can_be_judged_by_hand(found: Ran, folder: Path) -> None:
    assert found.returncode == 0
    words = ("bisect", "next", "search/boots.csv", "--repo", "program", *ENDS)
    judged = run_in(folder, *words)
    assert judged.returncode == 0
    # Trials are not in the table.
    lines = found.stdout.splitlines(keepends=True)
    printed = "".join(line for line in lines if not line.startswith("revert "))
    assert printed.startswith(judged.stdout)


@pytest.mark.slow
def test_status_says_that_it_is_over(found: Ran, folder: Path) -> None:
    status = run_in(folder, "bisect", "status", "-o", "search")
    assert status.returncode == 0
    assert found.stdout.splitlines()[0] in status.stdout
    assert "state             over" in status.stdout


@pytest.mark.slow
def test_a_search_that_is_over_cannot_be_stopped(found: Ran, folder: Path) -> None:
    assert found.returncode == 0
    stop = run_in(folder, "bisect", "stop", "-o", "search")
    assert stop.returncode == 2
    assert "no search is running there" in stop.stderr


@pytest.mark.slow
def test_another_search_in_the_directory_is_refused(found: Ran, folder: Path) -> None:
    assert found.returncode == 0
    other = search(folder, "--boots", "100")
    assert other.returncode == 2
    assert (
        "contains another search (different: --paths, --boot-sd, --history or --boots)"
        in other.stderr
    )


@pytest.mark.slow
def test_the_repository_is_as_before(found: Ran, folder: Path) -> None:
    assert found.returncode == 0
    git = ["git", "-C", str(folder / "program")]
    status = subprocess.run(
        [*git, "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    worktrees = subprocess.run(
        [*git, "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert status.stdout == ""
    assert len(worktrees.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "build", "problem"),
    [
        (("--good", "v12", "--bad", "v0"), BUILD, "v12..v0: reversed"),
        (("--good", "v0", "--bad", "v0"), BUILD, "empty"),
        (("--good", "v0", "--bad", "v99"), BUILD, "v99: no such commit"),
        (ENDS, "exit 3", "--good"),
        (ENDS, "exit 3", "does not build: exit status 3: no output"),
        (ENDS, f"sleep 1000; {BUILD}", "not finished after 1 s (--build-timeout)"),
        (ENDS, 'cp -r work "$SCHEDPERF_OUT"', "./program"),
        ((*ENDS, "--cpus", "2"), BUILD, "--cpus: given without --in vm"),
        ((*ENDS, "--boot", "kexec"), BUILD, "--boot: given without --on"),
        ((*ENDS, "--install", "true"), BUILD, "--install: given without --on"),
        ((*ENDS, "-n", "3"), BUILD, "-n: given without --in vm or --on"),
        ((*ENDS, "--on", "ssh:lab"), BUILD, "--in, --on: expected one of them"),
        ((*ENDS, "--result", "speed"), BUILD, "--result speed: not found (expected e.g. time)"),
        ((*ENDS, "--json", "no/such/file"), BUILD, "no/such/file"),
    ],
)
def test_bad_requests_end_in_one_line(
    folder: Path, tmp_path: Path, more: Sequence[str], build: str, problem: str
) -> None:
    (tmp_path / "program").symlink_to(folder / "program")
    ran = search(tmp_path, "--build-timeout", "1", "-q", build=build, more=more)
    assert ran.returncode == 2, ran.stderr
    [line] = ran.stderr.splitlines()
    assert problem in line
    assert "Traceback" not in ran.stderr


def test_an_end_whose_runs_fail_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "program").symlink_to(folder / "program")
    build = f'[ ! -e other-12 ] || echo "exit 1" >program; {BUILD}'
    ran = search(tmp_path, "-q", build=build)
    assert ran.returncode == 2
    assert "--bad" in ran.stderr
    assert "does not run" in ran.stderr


@pytest.mark.slow
def test_a_branch_that_moves_during_a_search_does_not_change_it(tmp_path: Path) -> None:
    subprocess.run([MAKE_PROGRAM], cwd=tmp_path, check=True)
    git = ["git", "-C", str(tmp_path / "program")]
    subprocess.run([*git, "branch", "tip", "v12"], check=True)
    ends = ("--good", "v0", "--bad", "tip")
    assert search(tmp_path, more=ends).returncode == MORE
    made = (tmp_path / "search" / "boots.csv").read_text()
    subprocess.run([*git, "branch", "-f", "tip", "v11"], check=True)
    again = search(tmp_path, more=ends)
    assert again.returncode == MORE
    assert "--bad tip was" in again.stderr
    assert (tmp_path / "search" / "boots.csv").read_text() == made


@pytest.mark.slow
def test_sigterm_keeps_the_finished_runs(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "program").symlink_to(folder / "program")
    with start(tmp_path) as process:
        await_boots(tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == MORE
    check_boots(tmp_path)


@pytest.mark.slow
def test_a_search_that_is_killed_again_and_again_has_the_same_result(
    found: Ran, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "program").symlink_to(folder / "program")
    for number in range(KILLS):
        with start(tmp_path) as process:
            await_boots(tmp_path)
            # Different moments of a recording, which takes about a second.
            time.sleep(number / KILLS)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    ended = search(tmp_path, "--yes")
    assert ended.returncode == 0
    assert first_bad(ended.stdout) == first_bad(found.stdout)
    check_boots(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_kernels_of_a_machine_that_is_reached_by_ssh_are_searched(tmp_path: Path) -> None:
    git = init_git(tmp_path / "linux")
    for name, release in (("v0", "one"), ("v1", "two")):
        (tmp_path / "linux" / "release").write_text(f"{release}\n")
        git("add", "release")
        git("commit", "--quiet", "--no-gpg-sign", "-m", f"sched: kernel {release}")
        git("tag", name)
    places = (f"--repo={tmp_path / 'linux'}", f"--output={tmp_path / 'search'}")
    words = (*SEARCH_BY_SSH, *places, "--", "sh", "-c", BY_RELEASE)
    with running_machine(tmp_path / "machine") as machine:
        ran = subprocess.run(
            machine.command(sys.executable, "-m", "schedperf", *words),
            env=machine.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert '("sched: kernel two")' in ran.stdout.splitlines()[0]
    boots = read_progress(Store(tmp_path / "search").events()).boots
    bundles = [open_bundle(path) for path in (tmp_path / "search" / "bundles").glob("*.tar")]
    assert len(boots) == sum(len(bundle.boots) for bundle in bundles)
    # What mails and pages are drawn from is there without more commands.
    [path] = (tmp_path / "search" / "culprits").glob("*/culprit.json")
    culprit = load_culprit(path)
    assert culprit.bad.commit == git("rev-parse", "v1")
    assert culprit.bisection is not None
    assert culprit.bisection.boots == len(boots)


def start(folder: Path) -> Program:
    """Start a search."""
    words = (*RUN, "--build", BUILD, *ENDS, "--yes", *WORKLOAD)
    return Program(
        [sys.executable, "-m", "schedperf", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def await_boots(folder: Path) -> None:
    """Wait until a search makes boots."""
    store = Store(folder / "search")
    number = len(store.events())
    while not any(isinstance(event, Booting) for event in store.events()[number:]):
        time.sleep(0.02)


def check_boots(folder: Path) -> None:
    """Check that the search counts each run that a bundle has, once."""
    ran = search(folder, "-q")
    assert ran.returncode in {0, MORE}
    store = Store(folder / "search")
    made = Counter(commit for commit, _ in read_progress(store.events()).boots)
    for commit, number in made.items():
        shown = run_in(folder, "show", str(store.bundle(commit)), "--json")
        recorded = json.loads(shown.stdout)
        assert count_runs(recorded) == number


def count_runs(shown: Any) -> int:
    """Return the number of successful runs that `schedperf show` lists."""
    return sum(run["kind"] == "clean" and run["outcome"] == "ok" for run in shown["runs"])


def first_bad(text: str) -> Sequence[str]:
    """Return the lines that name commits."""
    return [line for line in text.splitlines() if line.startswith("first bad commit")]
