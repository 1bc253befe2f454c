# SPDX-License-Identifier: GPL-2.0-or-later
"""The man pages are valid, and show what ``--help`` shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from schedperf.cli import cli

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).parents[1]
# 1970-01-02, so that the pages of two builds are the same.
EPOCH_S = "86400"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the page of each command by its name; "schedperf" is that of the program."""
    folder = tmp_path_factory.mktemp("man1")
    subprocess.run(
        [sys.executable, "scripts/man_pages.py", folder],
        cwd=REPOSITORY,
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH_S},
        check=True,
    )
    return {path.stem.removeprefix("schedperf-"): path for path in folder.glob("*.1")}


def need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}: apt-get install {package}")


def as_text(page: Path) -> str:
    """Return a page as man shows it on a terminal wide enough for every line."""
    need("groff", "groff-base")
    return subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=250n", page],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    named = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    return {"schedperf": cli, **{name: command for name, command in named.items() if command}}


def test_every_command_has_a_page(pages: dict[str, Path]) -> None:
    assert set(pages) == set(commands())


def test_mandoc_finds_no_mistake(pages: dict[str, Path]) -> None:
    need("mandoc", "mandoc")
    done = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", *pages.values()], capture_output=True, text=True
    )
    assert done.stdout == ""
    assert done.returncode == 0


def test_groff_warns_of_nothing(pages: dict[str, Path]) -> None:
    need("groff", "groff-base")
    for page in pages.values():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name


@pytest.mark.parametrize("name", commands())
def test_a_page_lists_the_options_of_the_help(name: str, pages: dict[str, Path]) -> None:
    shown = as_text(pages[name])
    listed = re.findall(r"^ {7}(-.*)", shown.partition("OPTIONS")[2], re.MULTILINE)
    context = click.Context(commands()[name], **cli.context_settings)
    records = [
        record
        for param in context.command.get_params(context)
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
    ]
    # The help of a short name stands beside it.
    for line, (option, _) in zip(listed, records, strict=True):
        assert re.split(r" +(?=[A-Z][a-z])", line)[0] == option


@pytest.mark.parametrize("name", [name for name in commands() if name != "schedperf"])
def test_a_page_shows_the_examples_as_they_are_typed(name: str, pages: dict[str, Path]) -> None:
    epilog = commands()[name].epilog or ""
    typed = re.split(r"\n(?:\s*\n|\x08)", epilog.partition("Examples:\n")[2].rstrip())[0]
    shown = re.sub(r"^ {9}", "", as_text(pages[name]), flags=re.MULTILINE)
    assert typed
    assert typed in shown


def test_the_date_is_that_of_the_source(pages: dict[str, Path]) -> None:
    assert '"1970-01-02"' in pages["schedperf"].read_text().splitlines()[0]
