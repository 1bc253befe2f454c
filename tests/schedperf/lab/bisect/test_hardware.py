# SPDX-License-Identifier: GPL-2.0-or-later
"""Visits to a real machine: install hooks of all kinds, interrupted visits, kernels that fail."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.hardware import Hardware, NotNow, Site
from schedperf.lab.bisect.search import Untestable
from schedperf.model.errors import InputError
from schedperf_collectors.boots.engine import DOES_NOT_BOOT
from schedperf_collectors.boots.state import (
    FOLDER,
    OVER,
    RECORD,
    STATE,
    STATE_VERSION,
    JobState,
    KernelState,
    State,
    Store,
)
from schedperf_collectors.machine.errors import TRY_AGAIN
from tests.collectors.boots.test_machine import HOOK, ProcessMachine, running_machine
from tests.git_repository import init_git

INSTALL = (
    'echo "$SCHEDPERF_TARGET $SCHEDPERF_COMMIT $SCHEDPERF_OUT"; echo installing >&2; echo 6.1-g0'
)


class Ab:
    """A recorder that notes its arguments and ends with chosen exit statuses."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.calls: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> int:
        self.calls.append(list(arguments))
        return self.statuses.pop(0) if self.statuses else 0


class Lab(NamedTuple):
    """A commit, what it built, and its bundle."""

    repository: Repository
    commit: Commit
    built: Path

    def boot(
        self,
        run: Ab,
        bundle: Path,
        *,
        install: str = INSTALL,
        target: str = "ssh:root@lab:22",
        feature: str | None = None,
    ) -> None:
        """Visit the machine.

        :param feature: name of a scheduler feature to switch; None to leave all as they are
        """
        site = Site(
            target=target,
            install=install,
            install_limit_s=0.5 if "sleep" in install else 60,
            options=("--boot", "grub-reboot", "-n", "2"),
            command=("hackbench", "-g", "2"),
        )
        machine = Hardware(site, lambda commit: self.repository.describe(commit.hash), run)
        if feature is None:
            machine.boot(self.commit, self.built, 3, bundle)
        else:
            machine.switch(self.commit, self.built, 3, feature, bundle)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a lab with a repository of one commit."""
    (tmp_path / "built").mkdir()
    git = init_git(tmp_path / "linux")
    git("commit", "-q", "--allow-empty", "-m", "sched: begin")
    commit = Commit(hash=git("rev-parse", "HEAD"), subject="sched: begin")
    return Lab(Repository(tmp_path / "linux"), commit, tmp_path / "built")


def leave_visit(folder: Path, name: str, phase: str, gave_up: str | None = None) -> None:
    """Write the state of a visit."""
    state = State(
        version=STATE_VERSION,
        session="5e55",
        target="ssh:lab",
        hook="kexec",
        kernels=[KernelState(name, "6.1", gave_up=gave_up)],
        boots=2,
        options=[],
        jobs=[JobState("", [], ["true"])],
        is_design=False,
        settings=[],
        output=f"{folder}/",
        boot_limit_s=1,
        settle_s=0,
        phase=phase,
    )
    (folder / FOLDER).mkdir()
    Store(folder / FOLDER / STATE).write(state)


def test_a_feature_is_off_and_on_in_each_boot(tmp_path: Path, lab: Lab) -> None:
    run = Ab()
    lab.boot(run, tmp_path / "commit.tar", feature="PLACE_LAG")
    (words,) = run.calls
    assert words[words.index("--kernel") + 1] == "commit=6.1-g0"
    assert words[-5:] == ["--feature=PLACE_LAG", "--", "hackbench", "-g", "2"]


def test_a_visit_installs_and_records_one_kernel(tmp_path: Path, lab: Lab) -> None:
    run = Ab()
    lab.boot(run, tmp_path / "0123.tar")
    (words,) = run.calls
    source = words.pop(words.index("--source") + 1)
    assert words == [
        *("ab", "--append", "-o", f"{tmp_path}/", "--kernel", "0123=6.1-g0", "--boots", "3"),
        *("--on", "ssh:root@lab:22", "--source"),
        *("--boot", "grub-reboot", "-n", "2", "--", "hackbench", "-g", "2"),
    ]
    name, _, described = source.partition("=")
    assert (name, json.loads(described)["commit"]) == ("0123", lab.commit.hash)
    log = (tmp_path / "0123.install.log").read_text()
    assert log == f"root@lab {lab.commit.hash} {lab.built}\ninstalling\n6.1-g0\n"


@pytest.mark.parametrize(
    ("install", "kind", "said"),
    [
        ("echo no space >&2; exit 3", InputError, "exit status 3: no space; log: "),
        ("exit 75", NotNow, "exit status 75: no output; log: "),
        ("kill -9 $$", InputError, "exit status -9: no output; log: "),
        ("sleep 100 & sleep 100", InputError, "not finished after 0 s; log: "),
        (":", InputError, "last line '' (expected the release of the installed kernel, e.g. "),
        ("echo 6.1; echo done.; echo '-x y'", InputError, "last line '-x y' (expected the "),
        ("printf '\\033[2J6.1\\n'", InputError, "last line '"),
        ("echo 6.1; head -c 20000000 /dev/zero", InputError, "last line '"),
    ],
)
def test_install_hooks_that_fail_are_one_line(
    tmp_path: Path, lab: Lab, install: str, kind: type[InputError], said: str
) -> None:
    run = Ab()
    with pytest.raises(InputError) as failed:
        lab.boot(run, tmp_path / "a.tar", install=install)
    assert type(failed.value) is kind
    text = str(failed.value)
    assert text.startswith(f"--install: {said}")
    assert text.isprintable()
    assert len(text) < 500
    assert (tmp_path / "a.install.log").stat().st_size < 9 << 20
    assert run.calls == []


def test_a_full_disk_is_one_line(tmp_path: Path, lab: Lab) -> None:
    (tmp_path / "a.install.log").symlink_to("/dev/full")
    with pytest.raises(InputError, match="no space left on device; free space there") as failed:
        lab.boot(Ab(), tmp_path / "a.tar")
    assert str(failed.value).isprintable()


@pytest.mark.parametrize("status", [0, DOES_NOT_BOOT])
def test_an_interrupted_visit_goes_on_before_the_next_one(
    tmp_path: Path, lab: Lab, status: int
) -> None:
    leave_visit(tmp_path, "a", RECORD, "did not boot: panic" if status else None)
    run = Ab(status)
    lab.boot(run, tmp_path / "a.tar")
    assert run.calls[0] == ["ab", "continue", "-o", f"{tmp_path}/"]
    assert run.calls[1][:2] == ["ab", "--append"]


def test_an_interrupted_visit_of_another_commit_is_stopped(tmp_path: Path, lab: Lab) -> None:
    leave_visit(tmp_path, "a", RECORD)
    run = Ab()
    lab.boot(run, tmp_path / "b.tar")
    assert run.calls[0] == ["ab", "stop", "-o", f"{tmp_path}/"]
    assert "b=6.1-g0" in run.calls[1]
    stuck = Ab(TRY_AGAIN)
    with pytest.raises(NotNow):
        lab.boot(stuck, tmp_path / "b.tar")
    assert len(stuck.calls) == 1


@pytest.mark.parametrize("status", [TRY_AGAIN, 130, 143, 137])
def test_an_interrupted_recorder_can_go_on(tmp_path: Path, lab: Lab, status: int) -> None:
    with pytest.raises(NotNow) as later:
        lab.boot(Ab(status), tmp_path / "a.tar")
    assert later.value.exit_status == TRY_AGAIN


@pytest.mark.parametrize(
    ("status", "gave_up", "kind", "said"),
    [
        (DOES_NOT_BOOT, "did not boot: panic", Untestable, "did not boot: panic"),
        # A recorder whose state says nothing else has failed.
        (DOES_NOT_BOOT, None, InputError, "`schedperf ab` failed (exit status 3)"),
        (1, "did not boot: panic", InputError, "`schedperf ab` failed (exit status 1)"),
        (2, None, InputError, "`schedperf ab` failed (exit status 2)"),
    ],
)
def test_only_a_kernel_that_does_not_boot_can_be_skipped(
    tmp_path: Path,
    lab: Lab,
    *,
    status: int,
    gave_up: str | None,
    kind: type[Exception],
    said: str,
) -> None:
    leave_visit(tmp_path, "a", OVER, gave_up)
    with pytest.raises(kind) as failed:
        lab.boot(Ab(status), tmp_path / "a.tar")
    assert type(failed.value) is kind
    assert said in str(failed.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\0" * 100, json.dumps({"version": 1})])
def test_a_damaged_state_is_one_line(tmp_path: Path, lab: Lab, text: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / STATE).write_text(text)
    run = Ab()
    with pytest.raises(InputError, match="damaged state file") as failed:
        lab.boot(run, tmp_path / "a.tar")
    assert str(failed.value).isprintable()
    assert run.calls == []


@pytest.mark.parametrize("name", ["a.tar.xz", "-a.tar", "a b.tar", ".tar", "a"])
def test_names_that_ab_does_not_write_are_refused(tmp_path: Path, lab: Lab, name: str) -> None:
    with pytest.raises(InputError, match="invalid name of a bundle"):
        lab.boot(Ab(), tmp_path / name)


def test_targets_without_ssh_are_refused(tmp_path: Path, lab: Lab) -> None:
    with pytest.raises(InputError, match=r"--on: invalid target 'lab' \(expected ssh:HOST"):
        lab.boot(Ab(), tmp_path / "a.tar", target="lab")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ProcessMachine]:
    """Yield a machine made of processes."""
    with running_machine(tmp_path / "machine") as made:
        yield made


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_boots_of_two_visits_are_in_one_bundle(
    tmp_path: Path, lab: Lab, machine: ProcessMachine
) -> None:
    def run(arguments: Sequence[str]) -> int:
        command = [sys.executable, "-m", "schedperf_collectors", *arguments]
        return subprocess.run(
            machine.command(*command), env=machine.environment(), check=False
        ).returncode

    site = Site(
        target="ssh:root@lab",
        install="echo two",
        install_limit_s=60,
        options=(
            *("--boot", f"command:{HOOK}", "--settle", "0"),
            *("-n", "1", "--warmup", "0", "--with", "none"),
        ),
        command=("true",),
    )
    hardware, bundle = (
        Hardware(site, lambda commit: lab.repository.describe(commit.hash), run),
        tmp_path / "two.tar",
    )
    hardware.boot(lab.commit, lab.built, 1, bundle)
    hardware.boot(lab.commit, lab.built, 1, bundle)
    boots = open_bundle(bundle).boots
    assert [boot.host.kernel.release for boot in boots] == ["two", "two"]
    (machine.folder / "broken").write_text("two\n")
    with pytest.raises(Untestable, match="did not boot: one booted, expected two"):
        hardware.boot(lab.commit, lab.built, 1, bundle)
    assert len(open_bundle(bundle).boots) == 2
