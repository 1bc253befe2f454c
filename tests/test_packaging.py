# SPDX-License-Identifier: GPL-2.0-or-later
"""What is installed is what stands in the tree."""

import email
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions, requires
from pathlib import Path, PurePosixPath

import pytest

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel that a user would install."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


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
    declared = [line.partition(">")[0] for line in project["build-system"]["requires"]]
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
