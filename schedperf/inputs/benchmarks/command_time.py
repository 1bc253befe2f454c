# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse the times of a command: ``time`` of shells, GNU time and ``perf stat``.

>>> text = '''\
... make: Nothing to be done for 'all'.
...
... real    1m2.500s
... user    1m50.250s
... sys     0m8.125s
... '''
>>> for item in parse_time(text.splitlines(), "stderr"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
time elapsed 62.5 s primary
time user 110.25 s secondary
time system 8.125 s secondary

A timed command may print results of its own. The times are therefore read only if no other parser
reads the output of the run, and the run has no ``--metric`` rule.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from schedperf.inputs.benchmarks import (
    MICROSECOND_S,
    MILLISECOND_S,
    BadLine,
    Measurement,
    Metric,
    lines_of_failure,
    measure,
    parser,
)
from schedperf.model.rows import Family

_NUMBER = r"\d{1,12}(?:[.,]\d{1,9})?"
_CLOCK = rf"(?:\d{{1,9}}:){{0,2}}{_NUMBER}"
# bash and dash: "real	0m1.234s"; time -p: "real 1.23".
SHELL = re.compile(rf"(real|user|sys)[ \t]+((?:\d{{1,9}}m)?{_NUMBER})s?\s*$", re.ASCII)
# GNU time: "1.00user 0.50system 0:01.60elapsed 93%CPU (…"; mmtests has bash print the same.
GNU = re.compile(rf" *({_NUMBER})user +({_NUMBER})system +({_CLOCK})elapsed\b", re.ASCII)
# GNU time -v.
VERBOSE = re.compile(
    r"\t(User|System|Elapsed)(?: \(wall clock\))? time \((?:seconds|h:mm:ss or m:ss)\): "
    rf"({_CLOCK})\s*$",
    re.ASCII,
)
ZSH = re.compile(
    rf".{{0,4000}} ({_NUMBER})s user ({_NUMBER})s system \d{{1,9}}% cpu ({_CLOCK}) total\s*$",
    re.ASCII,
)
# perf stat; with -r, "0.0337 +- 0.0012 seconds time elapsed".
PERF = re.compile(rf" +({_NUMBER})(?: \+- \S+)? +seconds (time elapsed|user|sys)\b", re.ASCII)
# fish: "Executed in  101.60 millis    fish           external", then "   usr time    1.43 millis";
# each line has its own unit.
FISH = re.compile(
    rf"(Executed in| {{1,9}}usr time| {{1,9}}sys time) {{1,20}}({_NUMBER}) "
    r"(micros|millis|secs|mins)\b",
    re.ASCII,
)
FISH_UNITS = {
    "micros": MICROSECOND_S,
    "millis": MILLISECOND_S,
    "secs": 1.0,
    "mins": 60.0,
}
CLAIMED = re.compile(
    rf"^(?:real[ \t]+(?:\d{{1,9}}m)?{_NUMBER}s?\s?\nuser[ \t]+\S+\s?\nsys[ \t]"
    rf"| *{_NUMBER}user +{_NUMBER}system +[\d:.,]{{1,40}}elapsed"
    r"|\tElapsed \(wall clock\) time \("
    rf"|.{{0,4000}} {_NUMBER}s user {_NUMBER}s system \d{{1,9}}% cpu "
    rf"| +{_NUMBER}(?: \+- \S{{1,40}})? +seconds time elapsed"
    rf"|Executed in {{1,20}}{_NUMBER} (?:micros|millis|secs|mins) )",
    re.MULTILINE | re.ASCII,
)

# Each elapsed time belongs to a different command.
BEGINS = re.compile(
    r"real[ \t]| *\S+user +\S+system +\S+elapsed|\tUser time|Executed in |.* total\s*$"
    r"|.* seconds time elapsed"
)

KINDS: dict[str, tuple[Family, str]] = {
    "elapsed": ("primary", "Wall-clock time of the command."),
    "user": ("secondary", "CPU time of the command in user space."),
    "system": ("secondary", "CPU time of the command in the kernel."),
}
NAMES = {
    "real": "elapsed",
    "time elapsed": "elapsed",
    "Elapsed": "elapsed",
    "user": "user",
    "User": "user",
    "sys": "system",
    "Executed in": "elapsed",
    "usr time": "user",
    "sys time": "system",
    "System": "system",
}


# GNU time reports how the command ended; in a pipe or with "; true" its exit status is lost.
FAILED = "the timed command failed, so its time is not that of its work; record again"
FAILURES = {
    r"^Command exited with non-zero status \d": FAILED,
    r"^Command (?:terminated|stopped) by signal \d": FAILED,
    r"^\tExit status: [1-9]": FAILED,
    r"^g?make(?:\[\d{1,4}\])?: \*\*\* ": FAILED,
}


@parser(
    "time",
    claims=lambda text: CLAIMED.search(text) is not None,
    is_fallback=True,
    begins=BEGINS,
    find_failure=lines_of_failure(FAILURES),
)
def parse_time(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the elapsed, user and system time of each command."""
    for line_number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        where = (label, line_number, line)
        if (match := FISH.match(line)) is not None:
            kind, scale = NAMES[match[1].strip()], FISH_UNITS[match[3]]
            yield measure(_metric(kind), match[2].replace(",", "."), where=where, scale=scale)
        for kind, text in _read_line(line):
            yield _seconds(_metric(kind), text, where)


def _metric(kind: str) -> Metric:
    family, definition = KINDS[kind]
    return Metric(
        name=f"time {kind}", unit="s", better="lower", family=family, definition=definition
    )


def _read_line(line: str) -> Sequence[tuple[str, str]]:
    """Return kind ("elapsed", "user", "system") and text of each time in a line.

    Return [] for a line without times, and for the lines of fish, whose units vary.
    """
    if (match := SHELL.match(line) or VERBOSE.match(line)) is not None:
        return [(NAMES[match[1]], match[2])]
    if (match := PERF.match(line)) is not None:
        return [(NAMES[match[2]], match[1])]
    if (match := GNU.match(line) or ZSH.match(line)) is not None:
        user, system, elapsed = match.groups()
        return [("elapsed", elapsed), ("user", user), ("system", system)]
    return []


def _seconds(metric: Metric, text: str, where: tuple[str, int, str]) -> Measurement | BadLine:
    """Measure a time such as ``1:02.50`` or ``1m2.500``, in seconds."""
    *larger, seconds = text.replace(",", ".").replace("m", ":").split(":")
    item = measure(metric, seconds, where=where)
    if isinstance(item, BadLine):
        return item
    minutes = 0
    for part in larger:
        minutes = 60 * minutes + int(part)
    return replace(item, value=60 * minutes + item.value)
