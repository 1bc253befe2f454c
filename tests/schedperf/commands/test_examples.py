# SPDX-License-Identifier: GPL-2.0-or-later
"""An input without the data of a command: how to record them, and which example contains them."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINES = ROOT / "examples" / "contended-lines"


@pytest.mark.parametrize("command", ["schedstat", "c2c", "profile"])
def test_an_input_without_data_names_the_collector_and_an_example_that_works(
    command: str, tmp_path: Path, make_bundle: Callable[..., Path], run_cli: Callable[..., Any]
) -> None:
    done = run_cli(command, make_bundle(tmp_path / "a.tar", runs=2))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    collector = {"schedstat": "schedstat", "c2c": "perf_c2c", "profile": "perf_profile"}[command]
    assert f"record with --with {collector}" in done.stderr
    example: Path = ROOT / done.stderr.partition("or use ")[2].partition(" of the source")[0]
    source = next(example.glob("base.*"))
    assert run_cli(command, source).returncode == 0


def test_the_generated_example_is_what_its_generator_writes(tmp_path: Path) -> None:
    runpy.run_path(str(LINES / "generate"))["main"](tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"base.perf.data", "new.perf.data", "System.map", "percpu.txt"}
    # Versions of zstd compress differently, so recordings are compared by their samples below.
    for name in ("System.map", "percpu.txt"):
        assert (tmp_path / name).read_bytes() == (LINES / name).read_bytes()


@pytest.mark.parametrize("side", ["base", "new"])
def test_the_generated_example_has_the_lines_that_its_readme_names(
    side: str, run_cli: Callable[..., Any], tmp_path: Path
) -> None:
    runpy.run_path(str(LINES / "generate"))["main"](tmp_path)
    options = ("--layout", LINES / "System.map", "--units", LINES / "percpu.txt", "--limit", "99")
    kept = run_cli("c2c", LINES / f"{side}.perf.data", *options)
    made = run_cli("c2c", tmp_path / f"{side}.perf.data", *options)
    assert kept.returncode == 0
    assert kept.stdout.replace(str(LINES), "") == made.stdout.replace(str(tmp_path), "")
