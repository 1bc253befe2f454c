# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse stress-ng with ``--metrics`` or ``--metrics-brief``: one row per stressor.

>>> text = '''\\
... stress-ng: metrc: [79] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
... stress-ng: metrc: [79]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
... stress-ng: metrc: [79] pipe            1714401      1.00      0.31      1.57   1713294.83      912231.80
... stress-ng: info:  [79] successful run completed in 1.00s
... '''
>>> for item in parse_stress_ng(text.splitlines(), "stderr"):
...     print(item.metric.name, item.value, item.metric.unit, item.metric.family)
stress-ng pipe real time 1.0 s informational
stress-ng pipe bogo ops per real time 1713294.83 1/s primary
stress-ng pipe bogo ops per CPU time 912231.8 1/s secondary

Old versions tag the table ``info:``. User and system time are not read: neither direction is better
(in a run of fixed length, more work uses more CPU time), and the rate per CPU time contains their
sum. stress-ng does not print which direction of its miscellaneous metrics is better; use
``--metric`` for them.
"""  # noqa: E501 # real output is this wide

import re
from collections.abc import Iterable, Iterator

from schedperf.benchmarks import BadLine, Measurement, Metric, measure, parser
from schedperf.model.comparison import Better, Family

# "stress-ng: metrc: [7922] pipe …"; --timestamp puts the time of day before the tag.
LINE = re.compile(r"^stress-ng:(?: [\d:.]+)? (?:metrc|info): +\[\d+\] (.*)$", re.ASCII)
HEADER = re.compile(r"^stress-ng:.*\] stressor +bogo ops +real time +usr time", re.MULTILINE)
END = ("miscellaneous metrics:", "successful run completed", "unsuccessful run completed")

REAL_TIME = "Wall-clock time of the stressor, mean over its instances."
RATE = (
    "Bogo operations of all instances divided by the {time}; an operation is defined by the "
    "stressor."
)

# Columns after the stressor's name: bogo ops, real, usr and sys time, the two rates.
COLUMNS: dict[int, tuple[str, str, Better, Family, str]] = {
    2: ("real time", "s", "lower", "informational", REAL_TIME),
    5: (
        "bogo ops per real time",
        "1/s",
        "higher",
        "primary",
        RATE.format(time="wall-clock time"),
    ),
    6: (
        "bogo ops per CPU time",
        "1/s",
        "higher",
        "secondary",
        RATE.format(time="CPU time (user and system)"),
    ),
}
FEWEST_FIELDS = 7
# Versions before 2023 print miscellaneous metrics in the table, without a heading. They begin with
# a rate or a time, rows of the table with a number of operations. Examples are `vdso 9.88
# nanoseconds per call (average per stressor)` and `switch: (pipe) 6042.75 nanosecs per context
# switch (based on parent run time)`.
ROW = re.compile(r"[^\s:(]\S* +\d+ +-?(?:[\d.]+|nan|inf)(?: |$)", re.ASCII | re.IGNORECASE)


@parser("stress-ng", class_="micro", claims=lambda text: HEADER.search(text) is not None)
def parse_stress_ng(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the table of metrics, which has one row per stressor."""
    is_table = False
    for line_number, line in enumerate(lines, start=1):
        content = LINE.match(line)
        if HEADER.match(line):
            is_table = True
        elif content is not None and content.group(1).startswith(END):
            is_table = False
        elif content is not None and is_table and ROW.match(content.group(1)):
            yield from _parse_row(content.group(1).split(), (label, line_number, line))


def _parse_row(fields: list[str], where: tuple[str, int, str]) -> Iterator[Measurement | BadLine]:
    if len(fields) < FEWEST_FIELDS:
        return
    for column, (name, unit, better, family, definition) in COLUMNS.items():
        metric = Metric(
            name=f"stress-ng {fields[0]} {name}",
            unit=unit,
            better=better,
            family=family,
            definition=definition,
        )
        yield measure(metric, fields[column], where=where)
