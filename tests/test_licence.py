# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/licence.py: each source file has the licence header, in its kind of comment."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "scripts" / "licence.py"
LICENCE = "SPDX-License-Identifier: GPL-2.0-or-later"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True)


def test_every_source_file_has_the_header() -> None:
    done = run()
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "fixed"),
    [
        ("a.py", '"""Adds."""\n', f'# {LICENCE}\n"""Adds."""\n'),
        ("empty.py", "", f"# {LICENCE}\n"),
        ("run", "#!/bin/sh\nexit\n", f"#!/bin/sh\n# {LICENCE}\nexit\n"),
        ("Makefile", "all:\n", f"# {LICENCE}\nall:\n"),
        ("a.c", "int a;\n", f"/* {LICENCE} */\nint a;\n"),
        ("a.css", "a {}\n", f"/* {LICENCE} */\na {{}}\n"),
        ("a.js", '"use strict";\n', f'// {LICENCE}\n"use strict";\n'),
        ("a.html.j2", "<p>\n", f"{{# {LICENCE} #}}\n<p>\n"),
        ("a.toml", "a = 1\n", f"# {LICENCE}\na = 1\n"),
    ],
)
def test_a_file_without_it_is_named_and_fixed(
    name: str, text: str, fixed: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text)
    done = run(tmp_path)
    assert done.stdout.startswith(f"{name}: no '{LICENCE}'")
    assert done.returncode == 1
    assert run("--fix", tmp_path).returncode == 0
    assert file.read_text() == fixed
    assert run(tmp_path).returncode == 0


@pytest.mark.parametrize(
    "name", ["notes.md", "data.json", "LICENSE", "tests/data/a.py", "out/a.py"]
)
def test_other_files_need_none(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("text\n")
    assert run(tmp_path).returncode == 0


def test_a_header_elsewhere_in_the_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f'"""Adds."""\n\nLICENCE = 1\n# {LICENCE}\n')
    assert run(tmp_path).returncode == 1
