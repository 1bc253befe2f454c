# SPDX-License-Identifier: GPL-2.0-or-later
"""Records are typed from capture to page: a field that is gone fails mypy where it was read."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedperf.evidence import all_sections
from schedperf.model.comparison import SectionData

ROOT = Path(__file__).parents[1]
# Where mypy has checked the tree before, it need not read all of it again.
CACHE = ".mypy_cache"
PACKAGES = ("schedperf", "reports", "collectors", "templates")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("mypy")]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Copy the product's packages; mypy's cache of them makes the next runs short."""
    folder = tmp_path_factory.mktemp("typed")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package)
    shutil.copy(ROOT / "pyproject.toml", folder)
    if (ROOT / CACHE).is_dir():
        shutil.copytree(ROOT / CACHE, folder / CACHE)
    assert check(folder) == ""
    yield folder
    shutil.rmtree(folder)


def check(folder: Path) -> str:
    """Return mypy's errors in the packages."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "schedperf", "reports"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": "collectors:reports:templates"},
    )
    return "\n".join(line for line in done.stdout.splitlines() if ": error: " in line)


def without_field(record: type[SectionData], text: str) -> str:
    """Return a module without the first field that the section's class itself defines."""
    heading = rf"class {record.__name__}\(SectionData, frozen=True, kw_only=True\):\n"
    head, body = re.split(rf"(?<=\n{heading})", text)
    name = record.__struct_fields__[0]
    found = re.search(rf"^    {name}: .*\n(?:        .*\n|    \]\n)*", body, re.MULTILINE)
    assert found, name
    return head + body[: found.start()] + body[found.end() :]


@pytest.mark.parametrize("name", sorted(all_sections()))
def test_a_section_without_a_field_fails_mypy(tree: Path, name: str) -> None:
    record = all_sections()[name].record
    path = tree / f"{record.__module__.replace('.', '/')}.py"
    text = path.read_text()
    path.write_text(without_field(record, text))
    try:
        errors = check(tree)
    finally:
        path.write_text(text)
    assert "schedperf/evidence/" in errors
    assert "reports/schedperf_reports/" in errors, errors
