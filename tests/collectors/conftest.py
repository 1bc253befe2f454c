# SPDX-License-Identifier: GPL-2.0-or-later
"""Real recorders as real processes, and what they write."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import schedperf_collectors
from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture, Skipped, all_collectors
from tests.programs import Program

PACKAGE = Path(schedperf_collectors.__file__).parent
# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A bundle's members as they are, read with nothing but :mod:`tarfile`."""

    members: dict[str, bytes]
    infos: tuple[tarfile.TarInfo, ...]

    def json(self, name: str) -> Any:
        return json.loads(self.members[name])

    @property
    def manifest(self) -> Any:
        return self.json("manifest.json")

    @property
    def runs(self) -> list[Any]:
        names = sorted(name for name in self.members if name.endswith("/run.json"))
        return [self.json(name) for name in names]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorder:
    """The recorder's command line; it works in, and writes below, one directory."""

    folder: Path
    environment: dict[str, str]

    def start(self, *arguments: str, **options: Any) -> Program:
        return Program(
            [sys.executable, "-m", "schedperf_collectors", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=LONGEST_WAIT_S)
        assert "Traceback" not in err
        assert process.returncode is not None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def temporary_files(self) -> list[Path]:
        """Return what a recorder has left behind in TMPDIR."""
        return list(Path(self.environment["TMPDIR"]).iterdir())


def _recorder(folder: Path, path: Path) -> Recorder:
    (folder / "tmp").mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": str(path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Recorder(folder=folder, environment=environment)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """The recorder as it is."""
    return _recorder(tmp_path, PACKAGE.parent)


@pytest.fixture
def recorder_with(tmp_path: Path) -> Callable[[str], Recorder]:
    """Make a recorder with one more module of collectors; of ours it has host and workload."""

    def make(source: str) -> Recorder:
        copy = tmp_path / "copy" / PACKAGE.name
        others = {f"{name}.py" for name in all_collectors().keys() - {"host", "workload"}}
        # With the bytecode: to compile the modules takes as long as to record. Another worker may
        # write some, under names that end with a number.
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
        for module in others:
            (copy / module).unlink()
        header = (
            "import os, signal, subprocess, sys, time\n"
            "from schedperf_collectors.plugin import Skipped, collector\n"
        )
        (copy / "added.py").write_text(header + source)
        return _recorder(tmp_path, copy.parent)

    return make


@pytest.fixture
def read_bundle() -> Callable[[Path], Written]:
    def read(path: Path) -> Written:
        with tarfile.open(path) as tar:
            infos = tuple(tar)
            members = {}
            for info in infos:
                file = tar.extractfile(info)
                assert file is not None, f"{info.name} is no regular file"
                members[info.name] = file.read()
        assert len(members) == len(infos), "a member is there twice"
        return Written(members=members, infos=infos)

    return read


@pytest.fixture
def is_running(tmp_path: Path) -> Callable[[str], bool]:
    """Tell whether a process of this test has this text in its command line, and keeps running."""

    def look(text: str) -> bool:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_bytes()
                # Other tests of this machine start the same: a recorder's have TMPDIR of this one.
                known_by = command + (process / "environ").read_bytes()
                if text.encode() in command and os.fsencode(tmp_path) in known_by:
                    return True
        return False

    def keeps_running(text: str) -> bool:
        # What was killed a moment ago takes a moment to go; what was not stays longer than this.
        deadline = time.monotonic() + LONGEST_WAIT_S
        while look(text):
            if time.monotonic() > deadline:
                return True
            time.sleep(0.02)
        return False

    return keeps_running


def _make_system(root: Path, files: Mapping[str, str | bytes], machine: str = "x86_64") -> System:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A collector may read meanwhile: never half a file.
        whole = root / "new"
        whole.write_bytes(content.encode() if isinstance(content, str) else content)
        whole.replace(path)
    return System(root, machine)


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until something is so: ``wait_for(path.exists)``."""

    def wait(is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + LONGEST_WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, "it never was so"
            time.sleep(0.01)

    return wait


@pytest.fixture
def wait_for_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType], Callable[[], None]]:
    """Follow the looks that a collector repeats: what is returned waits for a whole one from now.

    ``wait = wait_for_look(task_sched)``, before the collector begins.
    """

    def follow(module: ModuleType) -> Callable[[], None]:
        made = threading.Semaphore(0)

        def wait() -> None:
            while made.acquire(blocking=False):
                pass
            # The first may have begun before.
            for _ in range(2):
                assert made.acquire(timeout=LONGEST_WAIT_S), "it looks no more"

        def repeat(look: Callable[[], None], *arguments: Any, **options: Any) -> Any:
            def look_and_tell() -> None:
                look()
                made.release()

            return repeated(look_and_tell, *arguments, **options)

        monkeypatch.setattr(module, "repeated", repeat)
        return wait

    return follow


@pytest.fixture
def forks_since_boot() -> Callable[[], int]:
    """Return what the kernel itself counts."""

    def read() -> int:
        lines = Path("/proc/stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("processes "))

    return read


@pytest.fixture
def make_system(tmp_path: Path) -> Callable[..., System]:
    """Build another machine: ``make_system({"proc/cmdline": "quiet"}, machine="aarch64")``."""
    return partial(_make_system, tmp_path / "root")


@pytest.fixture
def capture(tmp_path: Path) -> Capture:
    """Return what a collector gets, with an empty directory and no options."""
    folder = tmp_path / "capture"
    folder.mkdir()
    return Capture(folder=folder, workload_pid=os.getpid(), options={})


@pytest.fixture
def run_here(capture: Capture) -> Callable[..., str]:
    """Run a collector as ``capture`` has it; return why it cannot run here, "" where it did."""

    def run(collector: Callable[[Capture], Iterator[object]]) -> str:
        try:
            assert list(collector(capture))
        except Skipped as skipped:
            return skipped.reason
        return ""

    return run


@pytest.fixture(scope="session")
def needs_tracefs() -> None:
    """Mount tracefs if it is not mounted, as perf does; skip where that is refused."""
    if os.access("/sys/kernel/tracing/events", os.R_OK):
        return
    if os.geteuid() != 0:
        pytest.skip("needs root, or a tracefs that this user can read")
    mount = ["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"tracefs is not mounted: {done.stderr.strip()}")


@pytest.fixture
def needs_perf() -> None:
    """Skip where perf may not watch all CPUs."""
    tried = subprocess.run(["perf", "stat", "-a", "-e", "cpu-clock", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip("perf stat -a does not work here")


@pytest.fixture
def old_perf(tmp_path: Path) -> Callable[[str], str]:
    """Make a perf that lacks one option: ``old_perf("--control") -> path of the program``."""

    def make(option: str) -> str:
        program = tmp_path / "old-perf"
        program.write_text(
            "#!/bin/sh\n"
            f'case " $* " in *" {option} "*)\n'
            f'  echo "  Error: unknown option \\`{option.lstrip("-")}\'" >&2; exit 129;;\n'
            'esac\nexec perf "$@"\n'
        )
        program.chmod(0o755)
        return str(program)

    return make


@dataclass(frozen=True, kw_only=True, slots=True)
class Nobody:
    """Runs Python with the recorder's package as a user without rights, who owns ``folder``."""

    folder: Path

    def __call__(self, *arguments: str) -> str:
        """Return what it prints on both outputs."""
        done = subprocess.run(
            ["/usr/bin/python3", "-B", *arguments],
            cwd=self.folder.parent,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "TMPDIR": str(self.folder),
            },
            user=65534,
            group=65534,
            extra_groups=[],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_WAIT_S,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture
def nobody() -> Iterator[Nobody]:
    """Return the user without rights; skip where there is none, or perf is open to all users."""
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    if os.geteuid() != 0 or not paranoid.exists() or int(paranoid.read_text()) < 1:
        pytest.skip("needs root to become nobody, and perf closed to nobody")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs a python3 that nobody may start")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(PACKAGE, folder / PACKAGE.name)
        (folder / "out").mkdir()
        folder.chmod(0o755)
        (folder / "out").chmod(0o777)
        yield Nobody(folder=folder / "out")


@pytest.fixture
def run_as_nobody(nobody: Nobody) -> Callable[[str], str]:
    """Run a generator collector to its end as a user without rights; returns what it prints.

    What it raises is printed as its class and message.
    """

    def run(collector: str) -> str:
        source = (
            "import os, pathlib\n"
            "from schedperf_collectors.plugin import Capture\n"
            f"from schedperf_collectors.{collector} import {collector}\n"
            "capture = Capture(pathlib.Path('out'), os.getpid(), {})\n"
            "try:\n    list(" + collector + "(capture))\n"
            "except Exception as error:\n"
            "    print(type(error).__name__, error, getattr(error, 'remedy', ''))\n"
        )
        return nobody("-c", source)

    return run
