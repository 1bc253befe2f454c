# SPDX-License-Identifier: GPL-2.0-or-later
"""Distinguish tables from bundles by file name, without importing the table parser."""

from pathlib import Path

SUFFIXES = (".csv", ".tsv")


def is_table(path: Path) -> bool:
    """Return whether a file name ends like that of a table (.csv, .tsv); all others are bundles."""
    return path.suffix.lower() in SUFFIXES
