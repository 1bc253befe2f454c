# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse printed numbers strictly: only plain finite numbers are accepted.

>>> read_number("0.271"), read_number("nan"), printed_step("0.271")
(0.271, None, 0.001)
"""

import re

# Python's float() would also take "nan", "1_000" and numbers of any length.
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
LONGEST_NUMBER = 60

# No benchmark counts that far, and the squares of larger numbers leave the range of a float.
LARGEST_NUMBER = 1e150


def read_number(text: str) -> float | None:
    """Return the number that the whole text is, or None."""
    if len(text) > LONGEST_NUMBER or NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if abs(value) <= LARGEST_NUMBER else None


def printed_step(text: str) -> float:
    """Return the step between two numbers printed like this one: 0.001 for "0.271"."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")
