# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse printed numbers strictly: only plain finite numbers are accepted.

>>> read_number("0.271"), read_number("nan"), printed_step("0.271")
(0.271, None, 0.001)
"""

import re

# Python's float() would also accept "nan", "1_000" and numbers of any length.
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
LONGEST_NUMBER = 60

# No benchmark counts higher, and the squares of larger numbers overflow a float.
LARGEST_NUMBER = 1e150


def read_number(text: str) -> float | None:
    """Parse a text that is a number as a whole.

    :return: None for any other text, for more than 60 characters, and above 1e150 in size
    """
    if len(text) > LONGEST_NUMBER or NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if abs(value) <= LARGEST_NUMBER else None


def printed_step(text: str) -> float:
    """Return the resolution with which a number is printed: 0.001 for "0.271".

    :param text: a number that :func:`read_number` accepts
    """
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")
