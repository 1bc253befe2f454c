# SPDX-License-Identifier: GPL-2.0-or-later
"""Write JSON text that both programs and people can read."""

import json
import re

from schedperf.model.schema import to_plain


def write_json(value: object) -> str:
    """Return JSON text with one key per line, but each list of numbers and nulls on a single line.

    A flame graph has tens of thousands of numbers, which would otherwise take a line each.

    :raises ValueError: a number is NaN or infinite
    """
    text = json.dumps(value, indent=1, allow_nan=False)
    # A line break outside of strings is layout; the text after it distinguishes a number from a
    # key.
    text = re.sub(r"(?<=,)\n +(?=[-\d]|null)", " ", text)
    text = re.sub(r"(?<=\[)\n +(?=[-\d]|null)", "", text)
    return re.sub(r"(?<=[\dl])\n +(?=\])", "", text) + "\n"


def to_json(record: object) -> str:
    """Return a record as JSON text.

    The text is ASCII, so control characters in the names of a bundle do not reach a terminal.

    :raises ValueError: a number is NaN or infinite
    """
    return write_json(to_plain(record))
