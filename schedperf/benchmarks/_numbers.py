"""Printed numbers as measurements: what is not plainly a finite number is a bad line."""

import math

from schedperf.benchmarks import BadLine, Measurement, Metric
from schedperf.numbers import LARGEST_NUMBER, LONGEST_NUMBER, printed_step, read_number

# What turns printed times into seconds.
MILLISECOND_S = 1e-3
MICROSECOND_S = 1e-6


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
