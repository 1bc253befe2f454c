# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse values that importers copy from formats without benchmark output, e.g. those of LKP.

>>> text = "# schedperf-values/1\nhackbench.throughput\t12345.6\t\t\nsec/op\t0.5\ts\tlower\n"
>>> for item in parse_values(text.splitlines(), "stdout"):
...     print(item.metric.name, item.value, item.metric.better, item.metric.family)
hackbench.throughput 12345.6 unknown informational
sec/op 0.5 lower primary

After the first line each line has a name, a value, a unit and a better direction, separated by
tabs. A metric whose format states no direction is informational.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from schedperf.inputs.benchmarks import BadLine, Measurement, Metric, measure, parser
from schedperf.model.rows import Better

HEADER = "# schedperf-values/1"
COLUMNS = 4
DEFINITION = "Value of the imported results; their format does not define it."
LONGEST_NAME = 300
LONGEST_UNIT = 40
DIRECTIONS: Mapping[str, Better] = {"lower": "lower", "higher": "higher", "": "unknown"}


def format_values(rows: Iterable[tuple[str, str, str, Better]]) -> bytes:
    """Return the text of rows, in the format of this module.

    :param rows: name, value as in the source, unit and better direction of each value
    """
    lines = (
        "\t".join((name, value, unit, "" if better == "unknown" else better))
        for name, value, unit, better in rows
    )
    return "".join(f"{line}\n" for line in (HEADER, *lines)).encode()


@parser("imported values", claims=lambda text: text.startswith(f"{HEADER}\n"))
def parse_values(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse one value per line; yield nothing if the first line is not the header."""
    numbered = enumerate(lines, start=1)
    if next(numbered, (1, ""))[1].rstrip("\n") != HEADER:
        return
    for line_number, line in numbered:
        fields = line.split("\t")
        is_valid = len(fields) == COLUMNS and 0 < len(fields[0]) <= LONGEST_NAME
        if not is_valid or len(fields[2]) > LONGEST_UNIT or fields[3] not in DIRECTIONS:
            yield BadLine(
                problem=f"{label}:{line_number}: invalid value (expected name, value, unit and "
                "direction, separated by tabs); import the results again"
            )
            continue
        better = DIRECTIONS[fields[3]]
        metric = Metric(
            name=fields[0],
            unit=fields[2],
            better=better,
            family="informational" if better == "unknown" else "primary",
            definition=DEFINITION,
        )
        item = measure(metric, fields[1], where=(label, line_number, line))
        # Formats print either all measured digits or an average, so the resolution is unknown.
        yield replace(item, resolution=None) if isinstance(item, Measurement) else item
