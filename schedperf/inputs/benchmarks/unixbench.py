# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse UnixBench: the rate of each test, the index score, and the output of single test programs.

>>> text = '''\
...    BYTE UNIX Benchmarks (Version 6.0.0)
... ------------------------------------------------------------------------
... Benchmark Run: Fri Nov 27 2026 10:55:30 - 10:56:59
... 2 CPUs in system; running 2 parallel copies of tests
...
... File Copy 1024 bufsize 2000 maxblocks        162678.0 KBps  (30.0 s, 1 samples)
... Shell Scripts (8 concurrent)                   1200.0 lpm   (60.0 s, 2 samples)
... Pipe-based Context Switching                  41941.5 lps   (10.0 s, 7 samples)
...
... System Benchmarks Partial Index              BASELINE       RESULT    INDEX
... Pipe-based Context Switching                   4000.0      41941.5    104.9
...                                                                    ========
... System Benchmarks Index Score (Partial Only)                          258.1
... '''
>>> for item in parse_unixbench(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.6g}", item.metric.unit, item.metric.family)
unixbench File Copy 1024 bufsize 2000 maxblocks (2 copies) 1.66582e+08 B/s primary
unixbench Shell Scripts (8 concurrent) (2 copies) 20 1/s primary
unixbench Pipe-based Context Switching (2 copies) 41941.5 1/s primary
unixbench System index score (2 copies) 258.1 points secondary

UnixBench runs the tests with one copy and with one copy per CPU; the number of copies is part of
the name unless the line that states it is missing. The index score is the geometric mean of the
tests' ratios to a baseline; it is secondary, because it adds no information. The indices of single
tests are not read.

A test program that runs on its own, e.g. ``pgms/context1 5``, prints ``COUNT|NUMBER|BASE|UNIT``.
With base 0 the number is a rate; otherwise it is what the program counted until its time was over,
and the text states neither the program nor the time. mmtests reports the same number.

>>> for item in parse_unixbench(["COUNT|52880|1|lps", "COUNT|4794.5|0|MWIPS", "TIME|9.9"], ""):
...     print(item.metric.name, f"{item.value:.6g}", item.metric.unit)
unixbench loops per run 52880 count
unixbench Whetstone instructions 4.7945e+09 1/s

fstime prints such a line for writing, reading and copying; the last one is its result.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import BadLine, Item, Measurement, Metric, Where, measure, parser
from schedperf.model.rows import Family

TITLE = re.compile(r"^ *BYTE UNIX Benchmarks \(Version \S", re.MULTILINE)
COPIES = re.compile(r"\d{1,6} CPUs? in system; running (\d{1,6}) parallel cop(?:y|ies) of tests")
RESULT = re.compile(
    r"(\S.{0,100}?) +(\S+) (KBps|lps|lpm|MWIPS|fps|score) +\(\S+ s, \S+ samples?\)\s*$"
)
COUNT = re.compile(
    r"^COUNT\|([^|\n]*)\|(\d{1,6})\|(KBps|lps|lpm|MWIPS|fps)\b", re.ASCII | re.MULTILINE
)
SCORE = re.compile(r"(\S.{0,60}?) Benchmarks Index Score(?: \(Partial Only\))? +(\S+)\s*$")

BEGINS = re.compile(rf"{COPIES.pattern}|COUNT\|")

# By printed unit: the metric's unit, the factor to it, and what is counted. KBps are KiB/s
# (count_per_k in fstime.c).
UNITS = {
    "KBps": ("B/s", 1024.0, "Bytes transferred per second"),
    "lps": ("1/s", 1.0, "Loops of the test per second"),
    "lpm": ("1/s", 1.0 / 60.0, "Loops of the test per second"),
    "MWIPS": ("1/s", 1e6, "Whetstone instructions per second"),
    "fps": ("1/s", 1.0, "Frames per second"),
    "score": ("points", 1.0, "Score of the test"),
}
# The counted operation of single programs, by printed unit.
COUNTED = {
    "KBps": "file throughput",
    "lps": "loops",
    "lpm": "loops",
    "MWIPS": "Whetstone instructions",
    "fps": "frames",
}
OF_COPIES = " in all copies, geometric mean of the best two thirds of the passes."


# A line of a result without the title at the top of the output.
CLAIMED = re.compile(
    r"^\S[^\n]{0,100}? {1,60}\S{1,30} (?:KBps|lps|lpm|MWIPS|fps) {1,9}"
    r"\(\d{1,6}\.\d s, \d{1,6} samples?\)",
    re.ASCII | re.MULTILINE,
)


def _claims(text: str) -> bool:
    return any(pattern.search(text) for pattern in (TITLE, COUNT, CLAIMED))


@parser("unixbench", class_="semi", begins=BEGINS, claims=_claims)
def parse_unixbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the results of each number of copies, and of single programs."""
    copies: str | None = None
    of_files: Item | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if (match := COUNT.match(line)) is not None:
            item = _measure_count(match, where)
            if match[3] == "KBps":
                of_files = item
            else:
                yield item
        elif (match := COPIES.match(line)) is not None:
            copies = f"({match[1]} {'copy' if match[1] == '1' else 'copies'})"
        elif (match := RESULT.match(line)) is not None:
            unit, scale, counted = UNITS[match[3]]
            name = " ".join(filter(None, (match[1], copies)))
            metric = _metric(name, unit, "primary", counted + OF_COPIES)
            yield measure(metric, match[2], where=where, scale=scale)
        elif (match := SCORE.match(line)) is not None:
            metric = _metric(
                " ".join(filter(None, (match[1], "index score", copies))),
                "points",
                "secondary",
                "Geometric mean of the ratios of the tests to their baselines, times 10.",
            )
            yield measure(metric, match[2], where=where)
    if of_files is not None:
        yield of_files


def _measure_count(match: re.Match[str], where: Where) -> Item:
    name = COUNTED[match[3]]
    if int(match[2]) == 0:
        unit, scale, definition = UNITS[match[3]]
        return measure(
            _metric(name, unit, "primary", f"{definition}."), match[1], where=where, scale=scale
        )
    definition = f"{name[0].upper()}{name[1:]} that the program counted until its time was over."
    metric = _metric(f"{name} per run", "count", "primary", definition)
    return measure(metric, match[1], where=where)


def _metric(name: str, unit: str, family: Family, definition: str) -> Metric:
    return Metric(
        name=f"unixbench {name}", unit=unit, better="higher", family=family, definition=definition
    )
