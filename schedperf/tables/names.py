# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell tables from bundles by their names, without importing what reads tables."""

from pathlib import Path

SUFFIXES = (".csv", ".tsv")


def is_table(path: Path) -> bool:
    """Return whether a name is that of a table; all other names are bundles."""
    return path.suffix.lower() in SUFFIXES
