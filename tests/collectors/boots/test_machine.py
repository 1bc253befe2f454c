# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab --kernel --on`` against a machine made of processes: real recorder, real bundles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedperf.commands._rerun_commands import read_recording
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.boots.engine import DOES_NOT_BOOT
from schedperf_collectors.machine.errors import TRY_AGAIN

HERE = Path(__file__).parent
HOOK = HERE / "machine_hook.sh"
_LIMIT_S = 240

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]


class ProcessMachine:
    """A machine in a mount namespace, which a sleeping process keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [
                "unshare",
                "-m",
                "sh",
                HERE / "machine.sh",
                folder,
                "sh",
                "-c",
                "echo; exec sleep 900",
            ],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"\n":
            pytest.skip("unshare cannot make a mount namespace here")

    def command(self, *words: str) -> list[str]:
        """Return a command that runs there."""
        return ["nsenter", "-m", f"-t{self.process.pid}", "--", *words]

    def environment(self) -> dict[str, str]:
        """Return the environment of the controller."""
        ssh = f"sh {HERE / 'machine_ssh.sh'}"
        return {**os.environ, "MACHINE": str(self.folder), "SCHEDPERF_SSH": ssh}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``ab`` there."""
        return subprocess.Popen(
            self.command(sys.executable, "-m", "schedperf_collectors", "ab", *arguments),
            env=self.environment(),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def power_cut(self) -> None:
        """Boot the default kernel, as after a power cut."""
        subprocess.run(self.command("sh", str(HOOK), "reboot"), env=self.environment(), check=True)

    def job(self) -> dict[str, object]:
        """Return the status file of the recorder there."""
        try:
            path = self.folder / "lib/schedperf/boots/job.status"
            record: dict[str, object] = json.loads(path.read_text())
        except (OSError, ValueError):
            return {}
        return record

    def await_job(self, *, other_than: object = None) -> object:
        """Wait until a recorder runs; return its id."""
        until = time.monotonic() + _LIMIT_S
        while time.monotonic() < until:
            job = self.job()
            if job.get("id", other_than) != other_than and "status" not in job:
                return job["id"]
            time.sleep(0.05)
        raise AssertionError("no recording began")


@contextmanager
def running_machine(folder: Path) -> Iterator[ProcessMachine]:
    """Yield a machine whose files are in a new directory."""
    folder.mkdir()
    made = ProcessMachine(folder)
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[ProcessMachine]:
    """Yield a machine."""
    with running_machine(tmp_path / "machine") as made:
        yield made


def _let_run(tmp_path: Path, *releases: str) -> None:
    """Let the runs of these kernels end, those to come as well."""
    for release in releases:
        (tmp_path / release).touch()


def _arguments(tmp_path: Path, *more: str, workload: Sequence[str] = ()) -> list[str]:
    """Return the arguments of a recording.

    :param workload: if not given, it works until its kernel's :func:`_let_run`
    """
    wait = f"until test -e {tmp_path}/$(cat /proc/sys/kernel/osrelease); do sleep 0.05; done"
    kernels = ["--kernel", "base=one", "--kernel", "new=two", "--boots", "1"]
    how = ["--boot", f"command:{HOOK}", "--on", "ssh:root@lab", "--settle", "0"]
    command = workload or ("sh", "-c", wait)
    what = ["-n", "2", "--warmup", "0", "--with", "none", *more, "--", *command]
    return ["-o", str(tmp_path / "out"), *kernels, *how, *what]


def _check(path: Path, release: str, least: int) -> None:
    bundle = open_bundle(path)
    assert bundle.complete
    keys = Counter((run.session, run.order) for run in bundle.runs)
    assert set(keys.values()) == {1}
    assert len(bundle.runs) >= least
    assert {boot.host.kernel.release for boot in bundle.boots} == {release}


def test_killed_controller_and_power_cut(tmp_path: Path, machine: ProcessMachine) -> None:
    controller = machine.start(*_arguments(tmp_path))
    first = machine.await_job()
    controller.kill()
    controller.communicate()
    # The recording survives its controller; a power cut ends the next one.
    controller = machine.start("continue", "-o", str(tmp_path / "out"))
    _let_run(tmp_path, "one")
    second = machine.await_job(other_than=first)
    machine.power_cut()
    third = machine.await_job(other_than=second)
    assert third != second
    _let_run(tmp_path, "two")
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 0, errors
    assert "finished runs are kept, the boot is repeated" in errors
    _check(tmp_path / "out-base.tar", "one", 2)
    _check(tmp_path / "out-new.tar", "two", 2)
    for name in ("base", "new"):
        recording = read_recording(open_bundle(tmp_path / f"out-{name}.tar"))
        assert recording.boots is not None
        assert recording.boots.names == ("base", "new")
        assert recording.workloads[0].given.last("runs") == "2"
    assert (machine.folder / "release").read_text() == "one\n"
    assert not (machine.folder / "armed").exists()


def _of_one_kernel(tmp_path: Path, boots: int, release: str = "two") -> list[str]:
    """Return the arguments of a recording that adds boots of a kernel to its bundle."""
    kernel = ["--append", "--kernel", f"new={release}", "--boots", str(boots), "-o", f"{tmp_path}/"]
    words = _arguments(tmp_path)
    return [*kernel, *words[words.index("--boot") :]]


def test_boots_are_added_to_the_bundle_of_one_kernel(
    tmp_path: Path, machine: ProcessMachine
) -> None:
    words = _of_one_kernel(tmp_path, 2)
    controller = machine.start(*words)
    machine.await_job()
    controller.kill()
    controller.communicate()
    again = machine.start(*words)
    _, errors = again.communicate(timeout=_LIMIT_S)
    assert again.returncode == 2
    assert f"unfinished recording; go on with `schedperf ab continue -o {tmp_path}/`" in errors
    controller = machine.start("continue", "-o", f"{tmp_path}/")
    _let_run(tmp_path, "two")
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 0, errors
    bundle = tmp_path / "new.tar"
    _check(bundle, "two", 4)
    assert len(open_bundle(bundle).boots) == 2
    assert (machine.folder / "release").read_text() == "one\n"
    # The next recording adds to this bundle, which is not on the machine any more.
    assert not (machine.folder / "lib/schedperf/boots/bundles").exists()
    controller = machine.start(*_of_one_kernel(tmp_path, 1))
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 0, errors
    assert "schedperf: 1 boot recorded in" in errors
    assert len(open_bundle(bundle).boots) == 3
    assert len({run.session for run in open_bundle(bundle).runs}) == 2
    recording = read_recording(open_bundle(bundle))
    assert recording.boots is not None
    assert recording.boots.names == ("new",)
    before = bundle.read_bytes()
    (machine.folder / "broken").write_text("two\n")
    controller = machine.start(*_of_one_kernel(tmp_path, 1))
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == DOES_NOT_BOOT
    assert "new: did not boot: one booted, expected two (0 of 1 boots recorded)" in errors
    assert len(open_bundle(bundle).boots) == 3
    assert open_bundle(bundle).incomplete_reason is not None
    bundle.write_bytes(before)
    controller = machine.start(*_of_one_kernel(tmp_path, 1, "three"))
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 2
    assert "new.tar: has boots of two (expected three, as --kernel new)" in errors


def test_stop_ends_the_recording_and_frees_the_machine(
    tmp_path: Path, machine: ProcessMachine
) -> None:
    controller = machine.start(
        *_arguments(tmp_path, "--point", "s=1"),
    )
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 2
    assert "the command has no {s}" in errors
    noted = tmp_path / "noted"
    workload = ("sh", "-c", f"echo begun >> {noted}; sleep 1; echo ended >> {noted}")
    controller = machine.start(*_arguments(tmp_path, "-n", "100", workload=workload))
    until = time.monotonic() + _LIMIT_S
    while not noted.exists() and time.monotonic() < until:
        time.sleep(0.05)
    (tmp_path / "other").mkdir()
    other = machine.start(*_arguments(tmp_path / "other"))
    _, errors = other.communicate(timeout=_LIMIT_S)
    assert other.returncode == TRY_AGAIN
    assert "another recording uses this machine" in errors
    assert f"schedperf ab stop -o {tmp_path / 'out'}" in errors
    stop = machine.start("stop", "-o", str(tmp_path / "out"))
    said, errors = stop.communicate(timeout=_LIMIT_S)
    assert (stop.returncode, said) == (0, "ended; 0 of 2 boots recorded\n"), errors
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 1, errors
    assert "stopped by the user (0 of 2 boots recorded)" in errors
    # The running run was finished, and is kept.
    runs = noted.read_text().split()
    assert runs == ["begun", "ended"] * (len(runs) // 2)
    bundle = open_bundle(tmp_path / "out-base.tar")
    assert len(bundle.runs) == len(runs) // 2
    assert not bundle.complete
    assert not (machine.folder / "lib/schedperf/boots/claim.json").exists()


def test_interrupted_controller_says_how_to_go_on(tmp_path: Path, machine: ProcessMachine) -> None:
    controller = machine.start(*_arguments(tmp_path))
    machine.await_job()
    controller.send_signal(signal.SIGTERM)
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 128 + signal.SIGTERM
    assert f"go on with: schedperf ab continue -o {tmp_path / 'out'}" in errors.splitlines()[-1]
    _let_run(tmp_path, "one")


def test_a_claim_that_is_carried_out_after_an_interrupt_does_not_block_the_machine(
    tmp_path: Path, machine: ProcessMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = {**machine.environment(), "SCHEDPERF_SSH": f"sh {HERE / 'machine_late_claim.sh'}"}
    with monkeypatch.context() as patched:
        patched.setattr(machine, "environment", lambda: late)
        controller = machine.start(*_arguments(tmp_path))
    until = time.monotonic() + _LIMIT_S
    while not (machine.folder / "asked").exists() and time.monotonic() < until:
        time.sleep(0.02)
    controller.send_signal(signal.SIGTERM)
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 128 + signal.SIGTERM
    assert f"go on with `schedperf ab continue -o {tmp_path / 'out'}`" in errors
    claim = machine.folder / "lib/schedperf/boots/claim.json"
    while not claim.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert claim.exists()
    _let_run(tmp_path, "one", "two")
    controller = machine.start("continue", "-o", str(tmp_path / "out"))
    _, errors = controller.communicate(timeout=_LIMIT_S)
    assert controller.returncode == 0, errors
    assert not claim.exists()
    _check(tmp_path / "out-new.tar", "two", 2)
