# SPDX-License-Identifier: GPL-2.0-or-later
"""Sentences use the words of the field: no phrase of the private dialect that they replaced."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedperf.mail.lint import refused_phrases

REPOSITORY = Path(__file__).parent.parent
# Where people read: the product, its documents, what sets it up.
TEXTS = (
    "schedperf/**/*.py",
    "reports/**/*.py",
    "collectors/**/*.py",
    "generators/**/*.py",
    "templates/**/*.j2",
    "templates/**/*.js",
    "templates/**/*.py",
    "docs/*.md",
    "examples/**/*.md",
    "bench/*/*.md",
    "scripts/*",
    "*.md",
    "Makefile",
    "pyproject.toml",
)

REFUSED = refused_phrases()


def texts() -> Iterator[Path]:
    """Yield the files that people read."""
    for pattern in TEXTS:
        for path in sorted(REPOSITORY.glob(pattern)):
            if path.is_file() and not {".venv", "node_modules"} & set(path.parts):
                yield path


@pytest.mark.parametrize("phrase", REFUSED)
def test_no_text_says(phrase: str) -> None:
    refused = re.compile(phrase)
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if refused.search(line)
    ]
    assert not found, f"write {REFUSED[phrase]!r} instead:\n" + "\n".join(found)
