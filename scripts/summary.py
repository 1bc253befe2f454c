# SPDX-License-Identifier: GPL-2.0-or-later
"""Print the slowest tests and the number of outcomes over several runs of pytest.

    summary.py RESULTS.xml...

Each argument is a file of ``pytest --junitxml``, named after the target that ran it.
The exit status is 1 if a test failed.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

SLOWEST = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    target: str
    name: str
    seconds: float
    outcome: str


def read(path: Path) -> Iterator[Outcome]:
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 # our own pytest wrote it
        children = {child.tag for child in case}
        failed = children & {"failure", "error"}
        yield Outcome(
            target=path.stem,
            name=f"{case.get('classname')}::{case.get('name')}",
            seconds=float(case.get("time", "0")),
            outcome="failed" if failed else "skipped" if "skipped" in children else "passed",
        )


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Return the lines to print: the slowest tests, then the counts, alone on the last line."""
    yield f"the {SLOWEST} slowest tests:"
    for test in sorted(outcomes, key=lambda test: -test.seconds)[:SLOWEST]:
        yield f"{test.seconds:8.1f} s  {test.target:12}  {test.name}"
    counts = Counter(test.outcome for test in outcomes)
    yield ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def main() -> None:
    outcomes = [outcome for path in sys.argv[1:] for outcome in read(Path(path))]
    print(*summary(outcomes), sep="\n")
    sys.exit(any(test.outcome == "failed" for test in outcomes))


if __name__ == "__main__":
    main()
