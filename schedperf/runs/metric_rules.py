# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse and apply user-defined metrics: ``--metric 'name[unit,higher]=REGEX'``.

The first group captures the number. ``^`` and ``$`` match at line boundaries. If the expression
matches several times, the last match counts, because programs print progress first and the result
at the end.

>>> from schedperf.inputs.bundle.open import MetricRule
>>> rule = MetricRule(name="rate", unit="1/s", better="higher", regex=r"^total: (\S+) events/s")
>>> text = "progress: 10%\ntotal: 1234.5 events/s\n"
>>> [found] = parse_rules([rule], text, "stdout", Allowance())
>>> found.metric.name, found.value, found.metric.unit, found.resolution, found.line_number
('rate', 1234.5, '1/s', 0.1, 2)

Expressions come from untrusted bundles, so there is a time limit for each expression and for all
expressions of a bundle.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from schedperf.inputs.benchmarks import BadLine, Measurement, Metric, measure
from schedperf.inputs.bundle.open import MetricRule
from schedperf.model.text import cut

# Time limit of one match; ordinary expressions take milliseconds.
TIME_LIMIT_S = 1.0
# Time limit of all expressions of a bundle, and what each text that they read adds to it.
ALLOWANCE_S = 5.0
ALLOWANCE_PER_TEXT_S = 0.02
LONGEST_REGEX = 1000

# Compiling unrolls counted repeats, so nested ones, (a{1000}){1000}, would fill the memory. This
# is the largest product of all counts in one expression.
MOST_REPEATS = 1000
LARGEST_COUNT_DIGITS = 4

# Compiling recurses into groups: 250 nested ones exceed Python's default limit of recursion, which
# libraries raise.
MOST_GROUPS = 100

# Units that are converted to a base unit; other units are kept as written.
BASE_UNITS = {"ms": ("s", 1e-3), "us": ("s", 1e-6), "usec": ("s", 1e-6), "ns": ("s", 1e-9)}

# Longest expression in the definition of a metric; the bundle has the whole expression.
LONGEST_SHOWN_REGEX = 120


@dataclass(slots=True)
class Allowance:
    """Remaining CPU time for all expressions of one bundle, in s."""

    left_s: float = ALLOWANCE_S


def parse_rules(
    rules: Sequence[MetricRule], text: str, label: str, allowance: Allowance
) -> Iterator[Measurement | BadLine]:
    """Apply each rule to the whole text; a rule that matches nothing yields nothing.

    A BadLine is yielded for a rule that is invalid or too slow, and for a match without a number.

    :param label: name of the text in messages
    :param allowance: remaining time of the bundle's rules; increased by 0.02 s for the text and
        reduced by the CPU time used
    """
    allowance.left_s += ALLOWANCE_PER_TEXT_S
    for rule in rules:
        try:
            match = _last_match(rule, text, allowance)
        except (regex.error, TimeoutError, OverflowError, RecursionError) as error:
            yield BadLine(problem=f"{label}: rule {rule.name!r}: {_describe(error)}")
            continue
        if match is None:
            continue
        if match.re.groups == 0:
            problem = (
                "no capture group in the regular expression (expected the number in parentheses)"
            )
            yield BadLine(problem=f"{label}: rule {rule.name!r}: {problem}")
            continue
        yield _measure(rule, match, text, label)


def _last_match(rule: MetricRule, text: str, allowance: Allowance) -> regex.Match[str] | None:
    if len(rule.regex) > LONGEST_REGEX:
        raise regex.error(f"longer than {LONGEST_REGEX} characters")
    if _repeats(rule.regex) > MOST_REPEATS:
        raise regex.error(f"the product of repeat counts exceeds {MOST_REPEATS}")
    if rule.regex.count("(") > MOST_GROUPS:
        raise regex.error(f"more than {MOST_GROUPS} groups")
    pattern = regex.compile(rule.regex, regex.MULTILINE)
    limit_s = min(TIME_LIMIT_S, allowance.left_s)
    if limit_s <= 0.0:
        raise TimeoutError
    # CPU time, like the timeout: load from other processes does not count.
    began_s = time.process_time()
    try:
        matches = deque(pattern.finditer(text, timeout=limit_s), maxlen=1)
    finally:
        allowance.left_s -= time.process_time() - began_s
    return matches[0] if matches else None


def _repeats(expression: str) -> int:
    # Counts are multiplied even if they are not nested, which overestimates the product.
    product = 1
    for digits in regex.findall(r"\d+", " ".join(regex.findall(r"\{[^{}]*\}", expression))):
        product *= max(1, int(digits)) if len(digits) <= LARGEST_COUNT_DIGITS else MOST_REPEATS + 1
    return product


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"timeout after {TIME_LIMIT_S:g} s; simplify the regular expression"
    return f"invalid regular expression ({' '.join(str(error).split())}); correct --metric"


def _shown(expression: str) -> str:
    return cut(expression, LONGEST_SHOWN_REGEX)


def _measure(
    rule: MetricRule, match: "regex.Match[str]", text: str, label: str
) -> Measurement | BadLine:
    unit, scale = BASE_UNITS.get(rule.unit, (rule.unit, 1.0))
    metric = Metric(
        name=rule.name,
        unit=unit,
        better=rule.better,
        family="primary",
        definition=f"The last number in the output that matches --metric {_shown(rule.regex)}.",
    )
    # An expression can match lines before the one with the number.
    start = max(match.start(), match.start(1))
    line_number = text.count("\n", 0, start) + 1
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    where = (label, line_number, line)
    return measure(metric, match.group(1) or "", where=where, scale=scale)
