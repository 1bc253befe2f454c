# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON as text, for programs and for people who look into it."""

import json
import re

from schedperf.model.schema import to_plain


def write_json(value: object) -> str:
    """Return JSON text for programs and people: one key a line, but a list of numbers on one.

    A flame graph has tens of thousands of numbers, each of which would be a line of its own.
    """
    text = json.dumps(value, indent=1, allow_nan=False)
    # A line break outside of texts is layout; what follows it tells a number from a key.
    text = re.sub(r"(?<=,)\n +(?=[-\d]|null)", " ", text)
    text = re.sub(r"(?<=\[)\n +(?=[-\d]|null)", "", text)
    return re.sub(r"(?<=[\dl])\n +(?=\])", "", text) + "\n"


def to_json(record: object) -> str:
    """Return a record as JSON text.

    It is ASCII: control characters in the names of a bundle do not reach a terminal.
    """
    return write_json(to_plain(record))
