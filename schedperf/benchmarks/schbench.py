# SPDX-License-Identifier: GPL-2.0-or-later
r"""schbench: how long tasks wait for a CPU after they are woken, and how long requests take.

>>> text = '''\
... Wakeup Latencies percentiles (usec) runtime 30 (s) (434591 total samples)
...           50.0th: 6          (169879 samples)
...         * 99.0th: 1198       (14226 samples)
...           min=1, max=1540
... Request Latencies percentiles (usec) runtime 30 (s) (437859 total samples)
...         * 99.0th: 11376      (38742 samples)
...           min=5698, max=17204
... RPS percentiles (requests) runtime 30 (s) (3 total samples)
...           20.0th: 0          (1 samples)
...         * 50.0th: 17376      (1 samples)
...           min=15869, max=18042
... average rps: 17108.70
... '''
>>> for found in parse_schbench(text.splitlines(), "stderr"):
...     print(found.metric.name, f"{found.value:g}", f"{found.resolution:g}", found.metric.family)
schbench wakeup latency p50 6e-06 1e-06 secondary
schbench wakeup latency p99 0.001198 4e-06 primary
schbench wakeup latency max 0.00154 1e-06 informational
schbench request latency p99 0.011376 3.2e-05 secondary
schbench request latency max 0.017204 1e-06 informational
schbench rps p50 17376 64 informational
schbench requests 17108.7 0.01 secondary

All percentiles of a run come from the same requests, so one of them decides: p99 of what
the program is made to measure, the wakeup. Percentiles are read from a histogram; the
resolution of each is the width of its bucket.

Blocks that are printed while it runs hold everything since the start and are repeated by the
last ones, so only the last block of each section counts, once ``average rps`` (or, for
``-A`` and ``-p``, their own line) says that the program ended. Several instances, one after
the other in the text, give one measurement each. Nothing is read when ``-z`` zeroed the
statistics, because the last block then covers only the end, nor when the lines of instances
that ran at once are mixed.

Requests per second are sampled once a second, first before any request was made. That sample
is the ``20.0th: 0`` above; a percentile of 0 is left out, and the others only explain.

Until 2023 there was one section, ``Latency percentiles (usec)``, and no line at the end.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from schedperf.benchmarks import MICROSECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.model.comparison import Better, Family

SECTION = re.compile(
    r"^(Wakeup Latencies|Request Latencies|RPS|Latency) percentiles \((?:usec|requests)\)"
    r"(?: runtime (\d{1,18}) \(s\) \((\d{1,18}) total samples\))?\s*$",
    re.MULTILINE | re.ASCII,
)
# The 99th is marked: "* 99.0th: 8", in old versions "*99.0000th: 8".
PERCENTILE = re.compile(r"\s*(?:\* *)?(\d{1,3}(?:\.\d{1,4})?)th:\s*(\S*)", re.ASCII)
EXTREMES = re.compile(r"\s*(?:Over=[^\s,]*, )?min=[^\s,]*, max=(\S*)", re.ASCII)
WARMED_UP = "warmup done, zeroing stats"

# The histogram has 2**PLAT_BITS buckets for each power of two, and one for each smaller number
# (plat_val_to_idx() in schbench.c).
PLAT_BITS = 8

# Before sections had names, the only one was that of the wakeups. It keeps a name of its own:
# the programs differ in more than this text.
SECTIONS = {
    "Wakeup Latencies": "wakeup latency",
    "Request Latencies": "request latency",
    "RPS": "rps",
    "Latency": "latency",
}
WAKEUP = SECTIONS["Wakeup Latencies"]
UNNAMED = SECTIONS["Latency"]
RATES = (SECTIONS["RPS"],)
PRIMARY = (f"{WAKEUP} p99", f"{UNNAMED} p99")

# What only the end of the program prints, and the name of that metric.
ENDING = re.compile(r"(average rps:|final rps goal was|avg worker transfer:)\s*(\S*)", re.ASCII)
ENDINGS = {
    "average rps:": "requests",
    "final rps goal was": "requests sustained",
    "avg worker transfer:": "transfers",
}

# The times of a run that the percentiles of a section are of.
TIMES = {
    WAKEUP: "the waits of workers from their wakeup until they ran",
    SECTIONS["Request Latencies"]: "the times that workers needed for a request",
    UNNAMED: "the waits of workers from their wakeup until they ran",
}
RATE_DEFINITIONS = {
    "requests": "Requests that all workers finished, divided by the time of the run.",
    "requests sustained": "The rate of requests that -A raised itself to and could keep up.",
    "transfers": "Messages that a worker passed a second, the mean over the workers.",
}

MIXED = "instances that ran at once are mixed; give each schbench a file of its own"

Where = tuple[str, int, str]
Found = Measurement | BadLine


@dataclass(kw_only=True, slots=True)
class _Block:
    # One printed block; it ends with the line of its extremes.
    runtime_s: int | None
    samples: int | None
    found: list[Found] = field(default_factory=list)
    is_open: bool = True


@dataclass(kw_only=True, slots=True)
class _Instance:
    # What one schbench printed so far: the last block of each section, and what is wrong with it.
    blocks: dict[str, _Block] = field(default_factory=dict)
    last: str | None = None
    problem: BadLine | None = None

    def open_block(self) -> _Block | None:
        block = self.blocks.get(self.last) if self.last is not None else None
        return block if block is not None and block.is_open else None

    def refuse(self, where: Where, problem: str) -> None:
        # The first problem says most; what follows from it says less.
        self.problem = self.problem or BadLine(problem=f"{where[0]}:{where[1]}: {problem}")


@parser("schbench", claims=lambda text: SECTION.search(text) is not None)
def parse_schbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the last block of each section of each instance."""
    instance = _Instance()
    where = (label, 0, "")
    for where in ((label, number, line) for number, line in enumerate(lines, start=1)):
        line = where[2]
        if (header := SECTION.match(line)) is not None:
            if _is_another(instance, header):
                yield from _finish(instance, where)
                instance = _Instance()
            _begin_block(instance, header, where)
        elif line.startswith(WARMED_UP):
            instance = _Instance()
        elif instance.blocks and (ending := ENDING.match(line)) is not None:
            yield from _finish(instance, where, ending)
            instance = _Instance()
        else:
            _add_line(instance, where)
    if instance.blocks:
        yield from _finish(instance, where)


def _is_another(instance: _Instance, header: re.Match[str]) -> bool:
    # Old versions print no end. Their first had one block a run; later ones count the runtime up.
    before = instance.blocks.get(UNNAMED)
    if before is None or SECTIONS[header[1]] != UNNAMED:
        return False
    return header[2] is None or before.runtime_s is None or int(header[2]) < before.runtime_s


def _begin_block(instance: _Instance, header: re.Match[str], where: Where) -> None:
    section = SECTIONS[header[1]]
    block = _Block(
        runtime_s=int(header[2]) if header[2] else None,
        samples=int(header[3]) if header[3] else None,
    )
    before = instance.blocks.get(section)
    is_repeated = instance.last == section != UNNAMED
    if instance.open_block() is not None or is_repeated:
        instance.refuse(where, MIXED)
    elif before is not None and (before.samples or 0) > (block.samples or 0):
        instance.refuse(where, "the samples were zeroed during the run; record without -z")
    instance.blocks[section] = block
    instance.last = section


def _add_line(instance: _Instance, where: Where) -> None:
    percentile, extremes = PERCENTILE.match(where[2]), EXTREMES.match(where[2])
    if instance.last is None or (percentile is None and extremes is None):
        return
    block = instance.open_block()
    if block is None:
        instance.refuse(where, MIXED)
    elif percentile is not None:
        block.found += _read_percentile(instance.last, percentile, where)
    elif extremes is not None:
        block.is_open = False
        if instance.last not in RATES:
            metric = _metric(f"{instance.last} max", "s", "lower", "informational")
            block.found.append(measure(metric, extremes[1], where=where, scale=MICROSECOND_S))


def _read_percentile(section: str, line: re.Match[str], where: Where) -> Iterator[Found]:
    name = f"{section} p{float(line[1]):g}"
    is_rate = section in RATES
    if is_rate:
        metric = _metric(name, "1/s", "higher", "informational")
    else:
        metric = _metric(name, "s", "lower", "primary" if name in PRIMARY else "secondary")
    scale = 1.0 if is_rate else MICROSECOND_S
    found = measure(metric, line[2], where=where, scale=scale)
    if isinstance(found, Measurement):
        if is_rate and found.value == 0.0:
            return
        found = replace(found, resolution=bucket_width(found.value / scale) * scale)
    yield found


def bucket_width(value: float) -> float:
    """Return the width of the bucket of schbench's histogram that the value lies in.

    >>> [bucket_width(value) for value in (6, 511, 513, 1198, 11376)]
    [1.0, 1.0, 2.0, 4.0, 32.0]
    """
    return float(1 << max(0, round(value).bit_length() - 1 - PLAT_BITS))


def _finish(
    instance: _Instance, where: Where, ending: re.Match[str] | None = None
) -> Iterator[Found]:
    is_old = UNNAMED in instance.blocks
    if instance.open_block() is not None or (ending is None and not is_old):
        instance.refuse(where, "schbench did not come to its end; let it run as long as -r says")
    elif not is_old and WAKEUP not in instance.blocks:
        instance.refuse(where, MIXED)
    if instance.problem is not None:
        yield instance.problem
        return
    for section, block in instance.blocks.items():
        if block.samples != 0:
            yield from block.found
        elif section not in RATES:
            yield BadLine(problem=f"{where[0]}:{where[1]}: {section} has no samples; run longer")
    if ending is not None:
        metric = _metric(ENDINGS[ending[1]], "1/s", "higher", "secondary")
        yield measure(metric, ending[2], where=where)


def _metric(name: str, unit: str, better: Better, family: Family) -> Metric:
    return Metric(
        name=f"schbench {name}",
        unit=unit,
        better=better,
        family=family,
        definition=_define(name),
    )


def _define(name: str) -> str | None:
    section, _, what = name.rpartition(" ")
    percent = what.removeprefix("p")
    if section in RATES:
        return f"{percent}% of the seconds of a run had at most so many requests."
    if section not in TIMES:
        return RATE_DEFINITIONS.get(name)
    if what == "max":
        return f"The longest of {TIMES[section]} in a run."
    return f"{percent}% of {TIMES[section]} in a run were at most so long."
