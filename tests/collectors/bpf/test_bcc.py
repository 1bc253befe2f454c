# SPDX-License-Identifier: GPL-2.0-or-later
"""Where bcc cannot compile, the reason and what mends it are one line each."""

import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import schedperf_collectors
from schedperf_collectors.bpf.bcc import check_headers, compile_programs
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Skipped

RELEASE = {"proc/sys/kernel/osrelease": "6.1.0-test\n"}
COMPILE = """\
import sys
from pathlib import Path
from schedperf_collectors.plugin import Skipped
from schedperf_collectors.bpf.bcc import compile_programs
from schedperf_collectors.machine.system import System
try:
    compile_programs(System(Path(sys.argv[1])), sys.argv[2], {})
except Skipped as skipped:
    print("Skipped:", skipped.reason)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("bcc") is not None, reason="bcc is installed for this Python"
)
def test_a_machine_without_bcc_is_told_the_package(make_system: Callable[..., System]) -> None:
    with pytest.raises(Skipped, match="^python3-bpfcc is not installed$") as skipped:
        compile_programs(make_system(RELEASE), "", {})
    assert skipped.value.remedy == "run `apt-get install python3-bpfcc`"


def test_a_kernel_without_headers_is_told_the_package(make_system: Callable[..., System]) -> None:
    with pytest.raises(Skipped) as skipped:
        check_headers(make_system(RELEASE))
    assert skipped.value.reason == (
        "the headers of kernel 6.1.0-test, which bcc needs, are not installed"
    )
    # No apt has them; a machine without apt cannot know.
    assert skipped.value.remedy == (
        "boot a kernel with CONFIG_IKHEADERS=y (apt has no package linux-headers-6.1.0-test)"
        if shutil.which("apt-cache")
        else "run `apt-get install linux-headers-6.1.0-test`, or boot a kernel with "
        "CONFIG_IKHEADERS=y"
    )


def test_headers_that_apt_has_are_the_remedy(
    make_system: Callable[..., System], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("apt-cache") is None:
        pytest.skip("no apt on this machine")
    packages = "Package: linux-headers-6.1.0-test\nVersion: 1\nArchitecture: all\n"
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    status = tmp_path / "status"
    status.write_text(packages.replace("Version", "Status: install ok installed\nVersion"))
    config = tmp_path / "apt.conf"
    config.write_text(
        f'Dir::State::lists "{lists}"; Dir::State::status "{status}"; '
        f'Dir::Cache "{tmp_path}"; APT::Architecture "amd64";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(config))
    with pytest.raises(Skipped) as skipped:
        check_headers(make_system(RELEASE))
    assert skipped.value.remedy == (
        "run `apt-get install linux-headers-6.1.0-test`, or boot a kernel with CONFIG_IKHEADERS=y"
    )


@pytest.mark.parametrize("place", ["lib/modules/6.1.0-test/build/x", "sys/kernel/kheaders.tar.xz"])
def test_headers_are_found_where_bcc_looks(make_system: Callable[..., System], place: str) -> None:
    check_headers(make_system({**RELEASE, place: ""}))


@pytest.mark.system
def test_what_bcc_cannot_compile_ends_in_one_reason(make_system: Callable[..., System]) -> None:
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import bcc"], capture_output=True).returncode:
        pytest.skip("python3-bpfcc is not installed")
    # The machine seems to have headers, so bcc itself must find out; on one that has, the text is
    # what cannot be compiled.
    system = make_system({**RELEASE, "sys/kernel/kheaders.tar.xz": ""})
    done = subprocess.run(
        [python, "-B", "-c", COMPILE, str(system.root), "int broken(void *ctx) { return 0 "],
        env={"PYTHONPATH": str(Path(schedperf_collectors.__file__).parent.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    start = "Skipped: bcc cannot compile the BPF programs: "
    assert done.stdout.startswith(start)
    assert len(start) + 10 < len(done.stdout) < len(start) + 210
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
