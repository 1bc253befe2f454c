# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse UnixBench: the rate of each test, and the index score.

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
the name. The index score is the geometric mean of the tests' ratios to a baseline; it is secondary,
because it has no information of its own. The indices of single tests are not read.
"""

import re
from collections.abc import Iterable, Iterator

from schedperf.benchmarks import BadLine, Measurement, Metric, measure, parser
from schedperf.model.comparison import Family

TITLE = re.compile(r"^ *BYTE UNIX Benchmarks \(Version \S", re.MULTILINE)
COPIES = re.compile(r"\d{1,6} CPUs? in system; running (\d{1,6}) parallel cop(?:y|ies) of tests")
RESULT = re.compile(
    r"(\S.{0,100}?) +(\S+) (KBps|lps|lpm|MWIPS|fps|score) +\(\S+ s, \S+ samples?\)\s*$"
)
SCORE = re.compile(r"(\S.{0,60}?) Benchmarks Index Score(?: \(Partial Only\))? +(\S+)\s*$")

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
OF_COPIES = " in all copies, geometric mean of the best two thirds of the passes."


@parser("unixbench", class_="semi", claims=lambda text: TITLE.search(text) is not None)
def parse_unixbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the results of each number of copies."""
    copies: str | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if (match := COPIES.match(line)) is not None:
            copies = f"({match[1]} {'copy' if match[1] == '1' else 'copies'})"
        elif copies is None:
            continue
        elif (match := RESULT.match(line)) is not None:
            unit, scale, counted = UNITS[match[3]]
            metric = _metric(f"{match[1]} {copies}", unit, "primary", counted + OF_COPIES)
            yield measure(metric, match[2], where=where, scale=scale)
        elif (match := SCORE.match(line)) is not None:
            metric = _metric(
                f"{match[1]} index score {copies}",
                "points",
                "secondary",
                "Geometric mean of the ratios of the tests to their baselines, times 10.",
            )
            yield measure(metric, match[2], where=where)


def _metric(name: str, unit: str, family: Family, definition: str) -> Metric:
    return Metric(
        name=f"unixbench {name}", unit=unit, better="higher", family=family, definition=definition
    )
