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

Old versions tag the table ``info:``, ``--log-brief`` omits the tags, and the journal puts its own
prefix before them. The YAML of ``-Y`` is read, too; if a text has both, only the YAML is read,
since the numbers are the same. User and system time are not read: neither direction is better (in a
run of fixed length, more work uses more CPU time), and the rate per CPU time contains their sum.
stress-ng does not print which direction of its miscellaneous metrics is better; use ``--metric``
for them.
"""  # noqa: E501 # real output is this wide

import re
from collections.abc import Iterable, Iterator

from schedperf.inputs.benchmarks import (
    BadLine,
    Measurement,
    Metric,
    Where,
    lines_of_failure,
    measure,
    parser,
)
from schedperf.model.rows import Better, Family

# "stress-ng: metrc: [7922] pipe …"; --timestamp puts the time of day before the tag, the journal
# "Nov 28 15:28:11 host stress-ng[7922]: " before all.
TAG = (
    r"(?:[^\n\[]{1,200}\[\d{1,9}\]: )?"
    r"(?:(?:stress-ng: )?(?:[\d:.]{1,20} )?(?:metrc|info): {1,9}\[\d{1,9}\] )?"
)
LINE = re.compile(rf"{TAG}(\S.*)$", re.ASCII)
HEADER = re.compile(
    rf"^{TAG}stressor {{1,40}}bogo ops {{1,40}}real time {{1,40}}usr time", re.MULTILINE | re.ASCII
)
END = ("miscellaneous metrics:", "successful run completed", "unsuccessful run completed")
BEGINS = re.compile(rf"---\s*$|{TAG}stressor +bogo ops ", re.ASCII)
YAML = re.compile(r"^metrics:\s*\n {1,40}- stressor: \S", re.MULTILINE)
YAML_STRESSOR = re.compile(r" +- stressor: (\S{1,60})\s*$")
YAML_VALUE = re.compile(r" +(wall-clock-time|bogo-ops-per-second-(?:real|usr-sys)-time): (\S+)\s*$")

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
YAML_COLUMNS = {
    "wall-clock-time": 2,
    "bogo-ops-per-second-real-time": 5,
    "bogo-ops-per-second-usr-sys-time": 6,
}
FEWEST_FIELDS = 7
# Versions before 2023 print miscellaneous metrics in the table, without a heading. They begin with
# a rate or a time, rows of the table with a number of operations. Examples are `vdso 9.88
# nanoseconds per call (average per stressor)` and `switch: (pipe) 6042.75 nanosecs per context
# switch (based on parent run time)`.
ROW = re.compile(r"[^\s:(]\S* +\d+ +-?(?:[\d.]+|nan|inf)(?: |$)", re.ASCII | re.IGNORECASE)

FAILURES = {
    rf"^{TAG}unsuccessful run completed in ": "a stressor of stress-ng failed; record again"
}


def _claims(text: str) -> bool:
    return HEADER.search(text) is not None or YAML.search(text) is not None


@parser(
    "stress-ng",
    class_="micro",
    claims=_claims,
    begins=BEGINS,
    find_failure=lines_of_failure(FAILURES),
)
def parse_stress_ng(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the table of metrics, which has one row per stressor, or the YAML."""
    lines = list(lines)
    if YAML.search("\n".join(lines)):
        yield from _read_yaml(lines, label)
        return
    is_table = False
    for line_number, line in enumerate(lines, start=1):
        content = LINE.match(line)
        if HEADER.match(line):
            is_table = True
        elif content is not None and content[1].startswith(END):
            is_table = False
        elif content is not None and is_table and ROW.match(content[1]):
            yield from _parse_row(content[1].split(), (label, line_number, line))


def _parse_row(fields: list[str], where: Where) -> Iterator[Measurement | BadLine]:
    if len(fields) < FEWEST_FIELDS:
        return
    for column in COLUMNS:
        yield measure(_metric(fields[0], column), fields[column], where=where)


def _read_yaml(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    stressor: str | None = None
    for line_number, line in enumerate(lines, start=1):
        where = (label, line_number, line)
        if (match := YAML_STRESSOR.match(line)) is not None:
            stressor = match[1]
        elif stressor is not None and (match := YAML_VALUE.match(line)) is not None:
            yield measure(_metric(stressor, YAML_COLUMNS[match[1]]), match[2], where=where)


def _metric(stressor: str, column: int) -> Metric:
    name, unit, better, family, definition = COLUMNS[column]
    return Metric(
        name=f"stress-ng {stressor} {name}",
        unit=unit,
        better=better,
        family=family,
        definition=definition,
    )
