# SPDX-License-Identifier: GPL-2.0-or-later
"""JSON as text, for programs and for people who look into it."""

import json
import re


def write_json(value: object) -> str:
    """Return JSON text for programs and people: one key a line, but a list of numbers on one.

    A flame graph has tens of thousands of numbers, each of which would be a line of its own.
    """
    text = json.dumps(value, indent=1, allow_nan=False)
    # A line break outside of texts is layout; what follows it tells a number from a key.
    text = re.sub(r"(?<=,)\n +(?=[-\d]|null)", " ", text)
    text = re.sub(r"(?<=\[)\n +(?=[-\d]|null)", "", text)
    return re.sub(r"(?<=[\dl])\n +(?=\])", "", text) + "\n"
