# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/wording.py, which `make lint` runs: it finds refused phrases."""

from pathlib import Path

import pytest

from schedperf.publish.mail.lint import refused_phrases
from scripts.wording import refused_lines, texts

ROOT = Path(__file__).parents[1]
PHRASE = "is undecided against"


@pytest.mark.parametrize(
    "name",
    ["README.md", "docs/a.md", "schedperf/a/b.py", "templates/x/page.js", "scripts/x", "Makefile"],
)
def test_a_refused_phrase_is_named_with_the_words_of_the_field(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"All is well.\nIt {PHRASE} base.\n")
    (line,) = refused_lines(tmp_path)
    assert line == f"{name}:2: {PHRASE!r}: write {refused_phrases()[PHRASE]!r} instead"


def test_other_files_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("tests/a.py", "data.json"):
        (tmp_path / name).write_text(PHRASE)
    assert not list(refused_lines(tmp_path))


def test_texts_of_this_tree_are_looked_at() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in texts(ROOT)}
    assert {"README.md", "docs/method.md", "schedperf/cli.py", "scripts/setup"} <= found
