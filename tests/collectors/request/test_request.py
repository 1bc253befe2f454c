# SPDX-License-Identifier: GPL-2.0-or-later
"""``request.pyz`` on a reporter's machine: it goes on where it was, and writes nothing private."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.commands._zipapp import write_zipapp
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.publish.pages.allowed import read_allowed
from schedperf_collectors.recorder.bundle import Names
from schedperf_collectors.recorder.recover import count_finished
from schedperf_collectors.request.ask import PACKAGE, PACKED, pack
from schedperf_collectors.request.kernels import running_kernel
from schedperf_collectors.request.text import MOST_LINES, WIDTH

pytestmark = pytest.mark.system

NOBODY = 65534
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "request" / "ASK.toml"
ASK: Mapping[str, Any] = {
    "name": "lag",
    "sentence": "Is sleeping slower with the new kernel?",
    "reply_to": "sched-list@example.org",
    "kernels": ["*"],
    "run": ["sh", "-c", "sleep 0.05; echo Time: 0.05"],
    "runs": 3,
    "warmup": 0,
    "with": ["none"],
    "metric": ["time[s,lower]=Time: ([0-9.]+)"],
}


@dataclass(frozen=True)
class Reporter:
    """A directory with the file that a reporter got."""

    folder: Path
    program: Path

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-I", str(self.program), *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def run(self, *arguments: str, **options: Any) -> tuple[int, str]:
        with self.start(*arguments, **options) as process:
            output, _ = process.communicate(timeout=240)
        assert "Traceback" not in output
        return process.returncode, output

    @property
    def bundle(self) -> Path:
        return self.folder / "lag" / f"{running_kernel()}.tar"

    def result(self, folder: Path) -> list[Path]:
        """Unpack the result; return its bundles."""
        with tarfile.open(self.folder / "lag.tar") as tar:
            tar.extractall(folder, filter="data")
        return sorted((folder / "lag").glob("*.tar"))


@pytest.fixture(scope="module")
def recorder_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "request.pyz"
    write_zipapp(path)
    return path


@pytest.fixture
def reporter(tmp_path: Path, recorder_file: Path) -> Callable[..., Reporter]:
    def make(**changes: Any) -> Reporter:
        folder = tmp_path / "reporter"
        folder.mkdir()
        program = Path(shutil.copy(recorder_file, folder))
        with zipfile.ZipFile(program, "a") as archive:
            tree = {**ASK, **changes}
            name = f"{PACKAGE.replace('.', '/')}/{PACKED}"
            archive.writestr(name, pack(tree, read_allowed().rules))
        return Reporter(folder, program)

    return make


def starts(path: Path) -> set[str]:
    """Return when each run of a bundle began."""
    with tarfile.open(path) as tar:
        files = [tar.extractfile(each) for each in tar if each.name.endswith("/run.json")]
        return {json.loads(file.read())["start"] for file in files if file is not None}


def test_one_command_records_redacts_and_writes_the_mail(
    reporter: Callable[..., Reporter], tmp_path: Path
) -> None:
    one = reporter()
    status, output = one.run("--yes")
    assert status == 0, output
    assert "  Is sleeping slower with the new kernel?\n" in output
    assert "  sh -c 'sleep 0.05; echo Time: 0.05'\n" in output
    assert "goes to sched-list@example.org" in output
    words = " ".join(output.split())
    assert "3 on each kernel (3 clean, 0 with more collectors, 0 warm-up; per point and" in words
    [bundle] = one.result(tmp_path)
    mail = (tmp_path / "lag" / "README").read_text()
    assert output.endswith(mail)
    assert len(mail.splitlines()) <= MOST_LINES
    commands = ("  schedperf", "  tar")
    assert all(len(line) <= WIDTH for line in mail.splitlines() if not line.startswith(commands))
    assert f"{os.uname().release} (build id" in mail
    opened = open_bundle(bundle)
    assert len(opened.runs) == 3
    # It can be compared where it is read.
    [row] = [row for row in compare_bundles([opened, opened]).rows if row.metric == "time"]
    assert row.n_base == 3
    assert row.base == pytest.approx(0.05)
    # The next call records nothing, and writes the same file.
    before = (one.folder / "lag.tar").read_bytes()
    status, again = one.run()
    assert (status, "Record" in again, (one.folder / "lag.tar").read_bytes()) == (0, False, before)


def test_private_strings_do_not_leave_the_machine(
    reporter: Callable[..., Reporter], tmp_path: Path
) -> None:
    one = reporter(run=["sh", "./bench"])
    (one.folder / "bench").write_text(
        "echo Time: 0.05; echo at /home/canary17/bench by canary18@corp.example; hostname\n"
    )
    status, output = one.run("--yes")
    assert status == 0, output
    [bundle] = one.result(tmp_path)
    content = (one.folder / "lag.tar").read_bytes()
    host = socket.gethostname()
    with tarfile.open(bundle) as tar:
        [host_json] = [each for each in tar.getnames() if each.endswith("host.json")]
        file = tar.extractfile(host_json)
        assert file is not None
        fields = json.loads(file.read())
    for text in ("canary17", "canary18", "corp.example"):
        assert text.encode() not in content
    assert "hostname" not in fields.get("system", {})
    if len(host) >= 3 and host.lower() not in read_allowed().common_names:
        assert f"\n{host}\n".encode() not in content
    assert b"Time: 0.05" in content
    # The full recording stays, for its owner only.
    assert b"canary17" in one.bundle.read_bytes()
    assert one.bundle.parent.stat().st_mode & 0o077 == 0


def test_captures_with_numbers_only_are_in_the_file(
    reporter: Callable[..., Reporter], tmp_path: Path
) -> None:
    one = reporter(**{"with": ["schedstat", "sched_ext", "system_counters"]})
    status, output = one.run("--yes")
    assert status == 0, output
    [bundle] = one.result(tmp_path)
    opened = open_bundle(bundle)
    for run in opened.runs:
        files = {name.removeprefix(f"{run.folder}/") for name in opened.names(run.folder)}
        assert files - {"run.json", "stdout", "stderr"} <= {
            "account/account.json", "sched_ext/sched_ext.json", "schedstat/before",
            "schedstat/after", "schedstat/schedstat.json",
        }  # fmt: skip
        assert "sched_ext/sched_ext.json" in files
        assert ("schedstat/before" in files) == Path("/proc/schedstat").exists()
    # The maintainer compares them.
    sections = compare_bundles([opened, opened]).sections
    recorded = any(name.endswith("account.json") for name in opened.names())
    assert (sections["account"].status == "ok") == recorded


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("This program records", marks=SLOW),
        pytest.param("Checking what", marks=SLOW),
        pytest.param("capturing host", marks=SLOW),
        pytest.param("run 1/3", marks=SLOW),
        "run 2/3",
        pytest.param("run 3/3", marks=SLOW),
        pytest.param(".tar: 3 runs", marks=SLOW),
        pytest.param("All kernels are recorded", marks=SLOW),
    ],
)
def test_a_killed_request_loses_nothing(
    reporter: Callable[..., Reporter], tmp_path: Path, line: str
) -> None:
    one = reporter()
    with one.start("--yes") as process:
        assert process.stdout is not None
        seen = next(text for text in process.stdout if line in text)
        process.send_signal(signal.SIGKILL)
    assert seen
    partial = Names(one.bundle).partial
    kept = count_finished(one.bundle) if partial.exists() else 0
    finished = starts(one.bundle) if one.bundle.exists() else starts(partial) if kept else set()
    status, output = one.run("--yes")
    assert status == 0, output
    final = starts(one.bundle)
    # Every run that was finished is in the result, and only the missing ones were made again.
    assert finished <= final
    assert len(final) == 3
    [bundle] = one.result(tmp_path)
    assert len(open_bundle(bundle).runs) == 3


def test_an_interrupted_request_goes_on(reporter: Callable[..., Reporter]) -> None:
    one = reporter()
    with one.start("--yes") as process:
        assert process.stdout is not None
        next(text for text in process.stdout if "run 2/3" in text)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "finished runs are kept: run this again to go on" in rest
    first = starts(one.bundle)
    status, output = one.run("--yes")
    assert (status, first <= starts(one.bundle), len(starts(one.bundle))) == (0, True, 3), output


def test_two_kernels_are_named_and_the_second_boot_goes_on(
    reporter: Callable[..., Reporter], tmp_path: Path
) -> None:
    release = os.uname().release
    one = reporter(kernels=[release, "1.2.*"])
    status, output = one.run("--yes")
    assert status == 0, output
    assert f"Recorded: 1 of 2 kernels ({release})." in output
    assert (
        f"Next: boot a kernel whose release is 1.2.*, and run this again: sudo {one.program}"
        in (output)
    )
    assert not (one.folder / "lag.tar").exists()
    # As if a recording of the other kernel, after its boot, had been killed at the end.
    shutil.copy(one.bundle, one.bundle.with_name("1.2.3-0123456789ab.tar.partial"))
    status, output = one.run()
    assert status == 0, output
    assert len(one.result(tmp_path)) == 2
    mail = (tmp_path / "lag" / "README").read_text()
    assert f"schedperf compare lag/{one.bundle.name} lag/1.2.3-0123456789ab.tar\n" in mail


@pytest.mark.parametrize(
    ("changes", "arguments", "problem"),
    [
        ({"kernels": ["1.2*"]}, ("--yes",), "is not asked for (expected 1.2*); boot one of these"),
        (
            {"run": ["no-such-program-17"]},
            ("--yes",),
            "no-such-program-17: no such program; install",
        ),
        (
            {},
            (),
            "nothing was recorded: stdin is not a terminal; add --yes to record unasked",
        ),
        ({}, ("--yse",), "unrecognized arguments: --yse; see request.pyz --help"),
        ({}, ("--yes", "-o", "/proc/x"), "/proc/x: no such file or directory; give another"),
    ],
)
def test_what_is_impossible_is_one_line_and_records_nothing(
    reporter: Callable[..., Reporter],
    changes: dict[str, Any],
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    one = reporter(**changes)
    status, output = one.run(*arguments)
    assert status == 2
    [line] = [text for text in output.splitlines() if "request: error: " in text]
    assert problem in line
    assert not list(one.folder.rglob("*.tar"))


def test_a_full_disk_is_named_before_anything_is_recorded(
    reporter: Callable[..., Reporter], small_disk: Path
) -> None:
    one = reporter()
    status, output = one.run("--yes", "-o", str(small_disk / "lag"))
    assert status == 2
    assert "MB free (expected 210 MB); free space, or give another directory with -o" in output
    assert not list(small_disk.rglob("*.tar*"))


def test_a_second_one_at_the_same_time_waits(reporter: Callable[..., Reporter]) -> None:
    one = reporter(run=["sleep", "1"])
    with one.start("--yes") as process:
        assert process.stdout is not None
        next(text for text in process.stdout if "capturing host" in text)
        status, output = one.run("--yes")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert (status, output) == (
        2, "request: error: lag: this request is running already; wait for its end\n"
    )  # fmt: skip


def test_packing_needs_a_valid_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ASK.toml").write_text('name = "lag"\nsentence = "?"\nrun = ["true"]\nrunz = 5\n')
    assert main(["pack", "request.pyz", "--ask", "ASK.toml"]) == 2
    assert capsys.readouterr().err == (
        "schedperf: error: ASK.toml: runz: unknown key (expected run); edit the file\n"
    )
    assert not Path("request.pyz").exists()
    shutil.copy(EXAMPLE, "ASK.toml")
    assert main(["pack", "request.pyz", "--ask", "ASK.toml"]) == 0
    with zipfile.ZipFile("request.pyz") as archive:
        packed = json.loads(archive.read(f"{PACKAGE.replace('.', '/')}/{PACKED}"))
    assert packed["ask"] == tomllib.loads(EXAMPLE.read_text())
    # The rules of publish, all of them.
    assert packed["rules"]["host"] == list(read_allowed().host)
    assert set(packed["rules"]["kernel_parameters"]) == read_allowed().kernel_parameters


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory for an ordinary user."""
    folder = Path(f"/tmp/schedperf-request-{os.getpid()}")  # tmp_path is root's
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_gets_the_results_and_is_told_the_rest(
    reporter: Callable[..., Reporter], open_folder: Path
) -> None:
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip(f"needs {python}")
    program = Path(shutil.copy(reporter().program, open_folder))
    program.chmod(0o755)
    user: dict[str, Any] = (
        {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    done = subprocess.run(
        [python, "-I", str(program), "--yes"],
        cwd=open_folder, capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(open_folder)}, **user,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"not root: the results are recorded; for the rest, sudo {program}" in done.stdout
    assert (open_folder / "lag.tar").exists()
