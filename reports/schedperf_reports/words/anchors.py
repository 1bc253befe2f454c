# SPDX-License-Identifier: GPL-2.0-or-later
"""Ids of the rows of a page, which links of other sections lead to."""

import hashlib

# An id of this length is still a fragment that a mail client keeps whole.
LONGEST_ANCHOR = 120


def anchor_id(section: str, row: str) -> str:
    """Return the element id of a row; where a text cannot be one, a hash makes it its own.

    >>> anchor_id("layout", "sd_llc_id")
    'layout-sd_llc_id'
    """
    plain = "".join(letter if letter.isalnum() or letter in "_.+-" else "-" for letter in row)
    if plain != row or len(row) > LONGEST_ANCHOR:
        digest = hashlib.sha256(row.encode(errors="surrogatepass")).hexdigest()
        plain = f"{plain[:LONGEST_ANCHOR]}-{digest[:8]}"
    return f"{section}-{plain}"
