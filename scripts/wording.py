# SPDX-License-Identifier: GPL-2.0-or-later
"""List phrases of our own dialect in texts that users read, with the field's words for them.

    wording.py [FOLDER]

The exit status is 1 if a text has one. [default: the directory of the checkout]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from schedperf.publish.mail.lint import refused_phrases

ROOT = Path(__file__).parents[1]
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


def texts(folder: Path) -> Iterator[Path]:
    """Yield the files that people read."""
    for pattern in TEXTS:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not {".venv", "node_modules", "__pycache__"} & set(path.parts):
                yield path


def refused_lines(folder: Path) -> Iterator[str]:
    """Yield a message for each refused phrase; all phrases are looked for in one pass."""
    phrases = refused_phrases()
    any_phrase = re.compile("|".join(f"(?:{phrase})" for phrase in phrases))
    for path in texts(folder):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if any_phrase.search(line):
                for phrase, instead in phrases.items():
                    if found := re.search(phrase, line):
                        where = f"{path.relative_to(folder)}:{number}"
                        yield f"{where}: {found[0]!r}: write {instead!r} instead"


def main() -> int:
    """Print the refused phrases; return 1 if there are any, else 0."""
    found = list(refused_lines(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
