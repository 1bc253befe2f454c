# SPDX-License-Identifier: GPL-2.0-or-later
"""The documentation site builds without a warning, and has a page per command and schema."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from schedperf.cli import cli
from scripts.reference_pages import schema_page

# One worker builds the site.
pytestmark = [pytest.mark.system, pytest.mark.xdist_group("docs-site")]

REPOSITORY = Path(__file__).parents[1]
SCHEMAS = sorted((REPOSITORY / "docs" / "schema").iterdir())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as ``make docs`` does; warnings, e.g. dead links, are errors."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "-c", "docs", ".", folder],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_document_is_on_the_site(site: Path) -> None:
    documents = {path.stem for path in (REPOSITORY / "docs").glob("*.md")}
    assert documents == {path.stem for path in (site / "docs").glob("*.html")}
    assert (site / "searchindex.js").stat().st_size > 0


def test_every_command_has_a_page_with_its_help(site: Path) -> None:
    names = cli.list_commands(click.Context(cli))
    pages = {path.stem for path in (site / "docs" / "commands").iterdir()}
    assert pages == {"schedperf", *(f"schedperf-{name}" for name in names)}
    assert "--until-decided" in (site / "docs" / "commands" / "schedperf-record.html").read_text()


def test_every_schema_has_a_page(site: Path) -> None:
    pages = {path.stem for path in (site / "docs" / "schemas").iterdir()}
    assert pages == {path.name.removesuffix(".schema.json") for path in SCHEMAS}


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_the_page_of_a_schema_lists_every_field(path: Path) -> None:
    schema = json.loads(path.read_text())
    lines = schema_page(schema).splitlines()
    for name, definition in schema["$defs"].items():
        start = lines.index(f"## {name}")
        end = next((i for i, line in enumerate(lines) if i > start and line[:3] == "## "), None)
        shown = [line.split("`")[1] for line in lines[start:end] if line.startswith("| `")]
        assert shown == [*definition.get("properties", {})]
