# SPDX-License-Identifier: GPL-2.0-or-later
"""What is built and installed is what stands in the tree."""

import email
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions, requires
from pathlib import Path, PurePosixPath

import pytest

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).parent.parent
MOST_SDIST_BYTES = 2_000_000


def build(target: str, source: Path, folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the archive of the sources."""
    return build("sdist", REPOSITORY, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel_file(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the archive, as pip does."""
    folder = tmp_path_factory.mktemp("unpacked")
    # Python 3.11.2 of Debian 12 has no filter for extraction, and newer versions demand one.
    subprocess.run(["tar", "-C", folder, "-xf", sdist], check=True)
    (source,) = folder.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> zipfile.ZipFile:
    """Open the wheel that a user would install."""
    return zipfile.ZipFile(wheel_file)


def test_the_archive_of_the_sources_is_small(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        folders = {PurePosixPath(name).parts[1] for name in archive.getnames()}
    assert not folders & {"examples", "tests", "bench", "docs"}
    assert sdist.stat().st_size <= MOST_SDIST_BYTES


def test_twine_accepts_both(sdist: Path, wheel_file: Path) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel_file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_runs_in_an_empty_environment(wheel_file: Path, tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    # What set-up installed is in the cache, under the index of pip's settings.
    install: list[str | Path] = [
        *(sys.executable, "-m", "uv", "pip", "install", "-q", "--offline"),
        *("--python", python, wheel_file),
        *("--constraint", REPOSITORY / "requirements" / "requirements.txt"),
    ]
    settings = subprocess.run(
        [sys.executable, "scripts/uv_settings.py"],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    command = f'{settings}\nexec "$@"'
    installed = subprocess.run(
        ["sh", "-ec", command, "sh", *install], capture_output=True, text=True
    )
    if "network was disabled" in installed.stderr:
        pytest.skip("uv's cache lacks the requirements; remove .venv and run make test to fill it")
    assert installed.returncode == 0, installed.stderr
    examples = REPOSITORY / "examples" / "deep-cgroup"
    compared = subprocess.run(
        [tmp_path / "bin" / "schedperf", "compare", *sorted(examples.glob("*.tar.xz"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert compared.stdout.startswith("regression")
    assert compared.returncode == 1


def test_the_wheel_brings_four_uniquely_named_packages(wheel: zipfile.ZipFile) -> None:
    folders = {name.partition("/")[0] for name in wheel.namelist()}
    top = {folder for folder in folders if not folder.endswith((".data", ".dist-info"))}
    assert top == {"schedperf", "schedperf_collectors", "schedperf_reports", "schedperf_templates"}


@pytest.mark.parametrize("root", ["schedperf", "collectors", "reports", "templates"])
def test_the_wheel_holds_every_source_and_data_file(wheel: zipfile.ZipFile, root: str) -> None:
    start = REPOSITORY if root == "schedperf" else REPOSITORY / root
    package = "schedperf" if root == "schedperf" else f"schedperf_{root}"
    wanted = {
        str(path.relative_to(start))
        for path in (start / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= set(wheel.namelist())


def test_the_wheel_brings_the_man_pages_where_pip_puts_them(wheel: zipfile.ZipFile) -> None:
    pages = {
        path.name
        for name in wheel.namelist()
        if (path := PurePosixPath(name)).match("*.data/data/share/man/man1/*.1")
    }
    assert {"schedperf.1", "schedperf-record.1", "schedperf-compare.1"} <= pages


def test_the_build_requires_what_the_man_pages_import() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    required = project["build-system"]["requires"]
    declared = [line.partition(">")[0].replace("-", "_") for line in required]
    script = (
        f"import {', '.join(declared)}, runpy, sys; before = set(sys.modules); "
        "runpy.run_path('scripts/man_pages.py', run_name='__main__'); "
        "print(*{name.partition('.')[0] for name in sys.modules.keys() - before})"
    )
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", script, folder]
        loaded = subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    installed = packages_distributions()
    missing = {name for name in loaded.stdout.split() if name in installed} - {*declared}
    # The tree itself is installed in an editable way.
    assert not {name for name in missing if not name.startswith("schedperf")}


def test_the_metadata_name_author_licence_and_audience(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Author"] == "schedperf maintainers"
    assert metadata["License-Expression"] == "GPL-2.0-or-later"
    assert metadata["License-File"] == "LICENSE"
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier", [])


def test_pinned_requirements_cover_every_dependency() -> None:
    # What an extra brings is pinned for the tests, which use it.
    for file, is_extra in (("requirements.txt", False), ("dev.txt", True)):
        pins = {
            line.partition("==")[0].lower()
            for line in (REPOSITORY / "requirements" / file).read_text().splitlines()
            if "==" in line
        }
        declared = [
            line for line in requires("schedperf") or [] if ("extra ==" in line) == is_extra
        ]
        names = {line.split(">")[0].strip().lower() for line in declared}
        assert names
        assert names <= pins
