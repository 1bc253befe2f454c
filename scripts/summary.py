# SPDX-License-Identifier: GPL-2.0-or-later
"""Print the slowest tests, why tests were skipped, and the number of outcomes of runs of pytest.

    summary.py RESULTS.xml...

Each argument is a file of ``pytest --junitxml``, named after the target that ran it.
The exit status is 1 if a test failed.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
    reason: str | None


def read(path: Path) -> Iterator[Outcome]:
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 # our own pytest wrote it
        children = {child.tag: child for child in case}
        failed = children.keys() & {"failure", "error"}
        yield Outcome(
            target=path.stem,
            name=f"{case.get('classname')}::{case.get('name')}",
            seconds=float(case.get("time", "0")),
            outcome="failed" if failed else "skipped" if "skipped" in children else "passed",
            reason=children["skipped"].get("message") if "skipped" in children else None,
        )


def group_skips(reasons: Iterable[str]) -> Iterator[str]:
    """Yield a line per reason, with the number of tests that were skipped for it."""
    counts = Counter(" ".join(reason.split()) for reason in reasons)
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count:6}  {reason}"


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines to print: the slowest tests, the reasons of skips, then the counts."""
    yield f"the {SLOWEST} slowest tests:"
    for test in sorted(outcomes, key=lambda test: -test.seconds)[:SLOWEST]:
        yield f"{test.seconds:8.1f} s  {test.target:12}  {test.name}"
    yield "skipped tests, by reason:"
    yield from group_skips(test.reason for test in outcomes if test.reason is not None)
    counts = Counter(test.outcome for test in outcomes)
    yield ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def main() -> None:
    outcomes = [outcome for path in sys.argv[1:] for outcome in read(Path(path))]
    print(*summary(outcomes), sep="\n")
    sys.exit(any(test.outcome == "failed" for test in outcomes))


if __name__ == "__main__":
    main()
