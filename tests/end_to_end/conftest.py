"""Real kernels to boot under QEMU: those at hand, else two of the distribution's."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
# One folder a kernel; examples/cluster-percpu/README.md says how to build them.
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
# The first is base; the second has two more per-CPU variables.
NAMES = ("tip", "cluster")
PROGRAMS = {
    "vng": "virtme-ng",
    "qemu-system-x86_64": "qemu-system-x86",
    "hackbench": "rt-tests",
    "perf": "linux-perf",
    "clang": "clang",
}
# Debian's kernels of one flavour; others lack 9p (cloud) or are another scheduler's (rt).
DISTRIBUTED = re.compile(r"^linux-image-(\d+\.\d+\.\d+-\d+-amd64) ", re.MULTILINE)


@pytest.fixture(scope="session")
def guest_environment() -> Mapping[str, str]:
    """Return an environment in which everything that boots a guest is found."""
    # Programs of this environment lie beside its Python, which need not be on the PATH.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is missing; install {package}")
    if subprocess.run(["/usr/bin/python3", "-c", "import bcc"], capture_output=True).returncode:
        pytest.skip("bcc is missing; run: apt-get install -y python3-bpfcc")
    return {**os.environ, "PATH": path}


@pytest.fixture(scope="session")
def kernel_images(guest_environment: Mapping[str, str]) -> Mapping[str, Path]:
    """Return two kernels that boot as guests, by name; the first is base."""
    own = {name: KERNELS / name / "bzImage" for name in NAMES}
    if all(image.is_file() for image in own.values()):
        return own
    if shutil.which("apt-get", path=guest_environment["PATH"]) is None:
        pytest.skip(f"no {own['tip']}, and no apt-get; set SCHEDPERF_KERNELS to a folder with it")
    found = _run("apt-cache", "search", "--names-only", r"^linux-image-6\.[0-9]+\.0-").stdout
    releases = sorted(DISTRIBUTED.findall(found))
    if len(releases) < len(NAMES):
        pytest.skip(f"no {own['tip']}, and apt knows no two kernels; run: apt-get update")
    return {
        name: _unpacked(release)
        for name, release in zip(("old", "new"), (releases[0], releases[-1]), strict=True)
    }


@pytest.fixture(scope="session")
def compare_as_json(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Sequence[Path]], Any]:
    """Compare bundles with the command: ``compare_as_json([base, new]) -> Comparison``."""

    def compare(bundles: Sequence[Path]) -> Any:
        output = tmp_path_factory.mktemp("compared") / "compared.json"
        command = [sys.executable, "-m", "schedperf", "compare", *map(str, bundles)]
        compared = _run(*command, "--json", str(output))
        assert compared.returncode == 0, compared.stdout + compared.stderr
        return json.loads(output.read_bytes())

    return compare


def _unpacked(release: str) -> Path:
    """Return the image of a distributed kernel, which lies as its packages have it.

    :param release: what ``uname -r`` prints in it
    """
    # They take 0.5 GB and are kept; the user's cache is where that may be thrown away.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "schedperf", "kernels")
    folder, making = cache / release, cache / f"{release}.{os.getpid()}"
    if not folder.exists():
        common = release.removesuffix("amd64") + "common"
        names = [f"linux-image-{release}", f"linux-headers-{release}", f"linux-headers-{common}"]
        making.mkdir(parents=True)
        try:
            _unpack(making, names)
            _relink(making / "lib/modules" / release)
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder / "boot" / f"vmlinuz-{release}"


def _unpack(folder: Path, names: Sequence[str]) -> None:
    fetched = _run("apt-get", "download", *names, cwd=folder)
    if fetched.returncode:
        pytest.skip(f"kernels cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder], check=True)
        package.unlink()


def _relink(modules: Path) -> None:
    """Let the links to the headers, by which bcc finds them, stay within the folder."""
    for name in ("build", "source"):
        link = modules / name
        target = os.readlink(link)  # noqa: PTH115 # it leads nowhere
        link.unlink()
        link.symlink_to(f"../../..{target}")


def _run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)
