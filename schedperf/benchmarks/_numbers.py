"""Printed numbers, read strictly: what is not plainly a finite number is a bad line."""

import math
import re

from schedperf.benchmarks import BadLine, Measurement, Metric

# Python's float() would also take "nan", "1_000" and numbers of any length.
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
LONGEST_NUMBER = 60

# No benchmark counts that far, and the squares of larger numbers leave the range of a float.
LARGEST_NUMBER = 1e150

# What turns printed times into seconds.
MILLISECOND_S = 1e-3
MICROSECOND_S = 1e-6


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


def measure(
    metric: Metric, text: str, *, where: tuple[str, int, str], scale: float = 1.0
) -> Measurement | BadLine:
    """Make a measurement of a printed number, or say what is wrong with it.

    :param where: label, line number from 1, and the line itself
    :param scale: what turns the printed unit into the metric's
    """
    label, line_number, line = where
    value = read_number(text)
    if value is None or abs(value * scale) > LARGEST_NUMBER:
        shown = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"
        return BadLine(problem=f"{label}:{line_number}: {metric.name} is not a number: {shown!r}")
    step = printed_step(text) * scale
    return Measurement(
        metric=metric,
        value=value * scale,
        resolution=step if math.isfinite(step) and metric.unit != "count" else None,
        line_number=line_number,
        line=line.strip(),
    )
