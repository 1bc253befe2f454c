# SPDX-License-Identifier: GPL-2.0-or-later
"""The store: bundles and decisions on disk, and a database that is made from them.

::

    store.toml        URL of the database, and identity of the store
    facts.toml        facts of machines, written by hand
    objects/ab/…tar   bundles and tables, by the SHA-256 of the file
    decisions.jsonl   what was added, requested and decided; only ever appended, and synced
    history.db        the database, if it is SQLite

Objects and decisions are the truth. A change is appended to the decisions first; the database holds
up to which byte of them it was made, so that what a kill left out is done by the next writer.
"""

from pathlib import Path

STORE = "store.toml"


def is_store(folder: Path) -> bool:
    """Return whether a directory is a store."""
    return (folder / STORE).exists()
