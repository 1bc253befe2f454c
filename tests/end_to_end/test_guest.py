"""A real kernel boots under QEMU and is recorded there by the zipapp, as on a foreign machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle import Bundle, open_bundle

ROOT = Path(__file__).parent.parent.parent
BOOT = ROOT / "examples" / "guest" / "boot-x86"
# One folder a kernel; examples/cluster-percpu/README.md says how to build them.
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
KERNEL = KERNELS / "tip"
PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "hackbench": "rt-tests", "perf": "linux-perf"}

RUN = """\
set -eu
settings="-n 1 --instrumented 1 --warmup 0 --kernel-files kernel"
python3 collect.pyz record -o /run/guest.tar $settings -- hackbench -l 20 -g 1
cp /run/guest.tar .
"""
# A boot and these two runs take a minute; one guest in twenty hangs for good.
GUEST_SECONDS = 150

pytestmark = [pytest.mark.vm, pytest.mark.timeout(540)]


@pytest.fixture(scope="module")
def path_with_vng() -> str:
    """Return a PATH on which everything that boots a guest is found."""
    # vng comes with the development dependencies, so it lies beside the interpreter.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for program, package in PACKAGES.items():
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is missing; run: apt-get install -y {package}")
    if shutil.which("vng", path=path) is None:
        pytest.skip("vng is missing; run: pip install virtme-ng")
    for name in ("bzImage", "System.map", "config"):
        if not (KERNEL / name).is_file():
            pytest.skip(f"no {KERNEL / name}; set SCHEDPERF_KERNELS to a folder with tip/{name}")
    return path


@pytest.fixture(scope="module")
def recorded(path_with_vng: str, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Boot a guest that records a workload; return its bundle."""
    share = tmp_path_factory.mktemp("guest")
    (share / "run").write_text(RUN)
    (share / "kernel").mkdir()
    for name in ("System.map", "config"):
        shutil.copy(KERNEL / name, share / "kernel" / name)
    pack = [sys.executable, "-m", "schedperf", "pack", str(share / "collect.pyz")]
    subprocess.run(pack, check=True)
    seconds = str(GUEST_SECONDS)
    environment = {**os.environ, "PATH": path_with_vng, "SCHEDPERF_GUEST_SECONDS": seconds}
    booted = subprocess.run([BOOT, KERNEL, share], env=environment, capture_output=True, text=True)
    log = share / "log"
    said = log.read_text(errors="replace") if log.exists() else "the guest said nothing"
    if "the guest ended twice" in booted.stderr:
        pytest.skip(f"QEMU hung twice for {GUEST_SECONDS} s; its last words: {said[-200:]!r}")
    assert booted.returncode == 0, f"{booted.stderr}\n{said}"
    return open_bundle(share / "guest.tar")


def group(bundle: Bundle, name: str) -> Any:
    """Return one group of the only boot's host.json."""
    (boot,) = bundle.boots
    return boot.host[name]


def test_both_runs_succeed(recorded: Bundle) -> None:
    assert recorded.complete
    assert recorded.broken_members() == ()
    assert [run.succeeded for run in recorded.runs] == [True, True]
    assert {run.kind for run in recorded.runs} == {"clean", "instrumented"}


def test_the_guest_knows_its_kernel_its_nodes_and_that_it_is_emulated(recorded: Bundle) -> None:
    assert group(recorded, "kernel")["release"].endswith("-tip")
    assert group(recorded, "topology")["nodes"] == {"0": "0-1", "1": "2-3"}
    assert group(recorded, "cpu")["count_online"] == 4
    assert group(recorded, "virtualisation")["emulated"] is True


def test_the_kernel_files_that_were_given_are_in_the_bundle(recorded: Bundle) -> None:
    assert recorded.read("boots/0/layout/System.map") == (KERNEL / "System.map").read_bytes()
    assert recorded.read("boots/0/layout/config") == (KERNEL / "config").read_bytes()


def test_a_guest_sees_what_this_kernel_can_show(recorded: Bundle) -> None:
    for run in recorded.runs:
        assert recorded.read_text(f"{run.folder}/schedstat/after").startswith("version 15")
        profile = f"{run.folder}/perf_profile/perf.data"
        is_profiled = profile in recorded.names()
        assert is_profiled == (run.kind == "instrumented")
        if is_profiled:
            assert recorded.read(profile).startswith(b"PERFILE2")
