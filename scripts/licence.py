# SPDX-License-Identifier: GPL-2.0-or-later
"""List the source files without an SPDX licence header, or add the header.

    licence.py [--fix] [FOLDER]

The exit status is 1 if a file lacks the header. [default: the directory of the checkout]
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LICENCE = "SPDX-License-Identifier: GPL-2.0-or-later"
HASH = f"# {LICENCE}\n"
C = f"/* {LICENCE} */\n"
# A program without a suffix is recognized by its first line.
HEADERS = {
    ".py": HASH,
    ".sh": HASH,
    ".toml": HASH,
    ".c": C,
    ".h": C,
    ".css": C,
    ".js": f"// {LICENCE}\n",
    ".j2": f"{{# {LICENCE} #}}\n",
}
INTERPRETER = "#!"
# Not sources, or test data that must not change.
LEFT_OUT = {
    ".venv", ".git", ".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", "__pycache__", "build", "dist", "out", "tests/data",
}  # fmt: skip


def source_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each source file with its expected header."""
    for directory, folders, files in os.walk(folder):
        inside = Path(directory).relative_to(folder)
        folders[:] = [name for name in folders if not {name, (inside / name).as_posix()} & LEFT_OUT]
        for path in (Path(directory, name) for name in files):
            if header := header_of(path):
                yield path, header


def header_of(path: Path) -> str | None:
    """Return the header in the comment syntax of a file; None if it is not a source file."""
    if path.is_symlink() or not path.is_file():
        return None
    if path.name == "Makefile":
        return HASH
    if path.suffix:
        return HEADERS.get(path.suffix)
    with path.open("rb") as file:
        return HASH if file.read(len(INTERPRETER)) == INTERPRETER.encode() else None


def has(text: str, header: str) -> bool:
    return header.rstrip() in text.split("\n", 2)[:2]


def with_header(text: str, header: str) -> str:
    """Return the text with the header as its first line, or as its second line below ``#!``."""
    first, rest = "", text
    if text.startswith(INTERPRETER):
        end = text.index("\n") + 1
        first, rest = text[:end], text[end:]
    return first + header + rest


def main(arguments: Sequence[str]) -> int:
    """Print the files without a header, or with ``--fix`` add it to them.

    Return 1 if files are printed, else 0.
    """
    fixes = "--fix" in arguments
    folder = Path(next((word for word in arguments if word != "--fix"), ROOT))
    missing = sorted(
        (path, header)
        for path, header in source_files(folder)
        if not has(path.read_text(encoding="utf-8"), header)
    )
    for path, header in missing:
        if fixes:
            path.write_text(with_header(path.read_text(encoding="utf-8"), header), encoding="utf-8")
        else:
            print(
                f"{path.relative_to(folder)}: no '{LICENCE}'; add it with scripts/licence.py --fix"
            )
    return 1 if missing and not fixes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
