# SPDX-License-Identifier: GPL-2.0-or-later
"""Build ids of rows of a page, to which other sections link."""

import hashlib

# Maximum length of an id, so that mail clients keep the whole fragment.
LONGEST_ANCHOR = 120


def anchor_id(section: str, row: str) -> str:
    """Return the element id of a row; characters that are not allowed are replaced by a hash.

    >>> anchor_id("layout", "sd_llc_id")
    'layout-sd_llc_id'
    """
    plain = "".join(letter if letter.isalnum() or letter in "_.+-" else "-" for letter in row)
    if plain != row or len(row) > LONGEST_ANCHOR:
        digest = hashlib.sha256(row.encode(errors="surrogatepass")).hexdigest()
        plain = f"{plain[:LONGEST_ANCHOR]}-{digest[:8]}"
    return f"{section}-{plain}"
