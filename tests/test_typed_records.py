# SPDX-License-Identifier: GPL-2.0-or-later
"""Records are typed from capture to page: a field that is gone fails mypy where it was read."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from schedperf.evidence import all_sections
from schedperf.model.sections import SectionData

ROOT = Path(__file__).parents[1]
# Where mypy has checked the tree before, it need not read all of it again.
CACHE = ".mypy_cache"
PACKAGES = ("schedperf", "reports", "collectors", "templates")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the product's packages, with mypy's cache of them."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    if (ROOT / CACHE).is_dir():
        shutil.copytree(ROOT / CACHE, tmp_path / CACHE)
    return tmp_path


def check(folder: Path) -> list[str]:
    """Return mypy's errors in the packages."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "schedperf", "reports"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": "collectors:reports:templates"},
    )
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def without_field(record: type[SectionData], text: str) -> str:
    """Return a module without the first field that the section's class itself defines."""
    heading = rf"class {record.__name__}\(SectionData, frozen=True, kw_only=True\):\n"
    head, body = re.split(rf"(?<=\n{heading})", text)
    name = record.__struct_fields__[0]
    found = re.search(rf"^    {name}: .*\n(?:        .*\n|    \]\n)*", body, re.MULTILINE)
    assert found, name
    return head + body[: found.start()] + body[found.end() :]


def places(errors: list[str], record: type[SectionData]) -> set[str]:
    """Return the packages with an error that names the record and its first field."""
    name, field = record.__name__, record.__struct_fields__[0]
    words = {f'"{name}"', f'"{field}"'}
    return {line.partition("/")[0] for line in errors if all(word in line for word in words)}


def test_each_section_without_a_field_fails_mypy(tree: Path) -> None:
    assert check(tree) == []
    records: Mapping[str, type[SectionData]] = {
        name: section.record for name, section in all_sections().items()
    }
    for record in records.values():
        path = tree / f"{record.__module__.replace('.', '/')}.py"
        path.write_text(without_field(record, path.read_text()))
    errors = check(tree)
    found = {name: places(errors, record) for name, record in records.items()}
    assert found == {name: {"schedperf", "reports"} for name in records}, "\n".join(errors)
