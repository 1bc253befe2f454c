# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse schbench: wakeup latency, request latency and request rate.

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
>>> for item in parse_schbench(text.splitlines(), "stderr"):
...     print(item.metric.name, f"{item.value:g}", f"{item.resolution:g}", item.metric.family)
schbench wakeup latency p50 6e-06 1e-06 secondary
schbench wakeup latency p99 0.001198 4e-06 primary
schbench wakeup latency max 0.00154 1e-06 informational
schbench request latency p99 0.011376 3.2e-05 secondary
schbench request latency max 0.017204 1e-06 informational
schbench rps p50 17376 64 informational
schbench requests 17108.7 0.01 secondary

All percentiles of a run come from the same requests, so only one of them is primary: p99 of the
wakeup latency. schbench computes percentiles from a histogram; the resolution of each is the width
of its bucket.

Each block that schbench prints covers the whole time since the start, so only the last block of
each section is read, after ``average rps`` (or the corresponding line of ``-A`` and ``-p``) marks
the end of the program. A mail may lack all lines ``min=…, max=…``; then a block ends where the next
begins. Instances that ran one after the other are one measurement each. Nothing is
read if the output of concurrent instances is mixed.

With ``-z``, which mmtests uses, each block covers the time since the last reset only. All blocks
except the last, which is incomplete, are read as ``schbench wakeup latency p99 per interval``; the
value of a run is the mean over its intervals. A percentile of an interval is not a percentile of
the whole run, so the name differs.

schbench samples requests per second once a second, the first time before the first request. This
sample is the ``20.0th: 0`` above. Percentiles of 0 are omitted; the others are informational.

Versions until 2023 print one section, ``Latency percentiles (usec)``, and no line at the end.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from msgspec.structs import replace

from schedperf.inputs.benchmarks import MICROSECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.model.rows import Better, Family

SECTION = re.compile(
    r"^(Wakeup Latencies|Request Latencies|RPS|Latency) percentiles \((?:usec|requests)\)"
    r"(?: runtime (\d{1,18}) \(s\) \((\d{1,18}) total samples\))?\s*$",
    re.MULTILINE | re.ASCII,
)
# The 99th percentile is marked: "* 99.0th: 8", in old versions "*99.0000th: 8".
PERCENTILE = re.compile(r"\s*(?:\* *)?(\d{1,3}(?:\.\d{1,4})?)th:\s*(\S*)", re.ASCII)
EXTREMES = re.compile(r"\s*(?:Over=[^\s,]*, )?min=[^\s,]*, max=(\S*)", re.ASCII)
WARMED_UP = "warmup done, zeroing stats"

# The histogram has 2**PLAT_BITS buckets for each power of two, and one for each smaller number
# (plat_val_to_idx() in schbench.c).
PLAT_BITS = 8

# In old versions the only section has no name and contains the wakeup latency. Its metric has a
# separate name, because its values are not comparable with those of newer versions.
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

# Lines that schbench prints only at its end, and the names of their metrics.
ENDING = re.compile(r"(average rps:|final rps goal was|avg worker transfer:)\s*(\S*)", re.ASCII)
ENDINGS = {
    "average rps:": "requests",
    "final rps goal was": "requests sustained",
    "avg worker transfer:": "transfers",
}

# What the percentiles of each section measure.
TIMES = {
    WAKEUP: "the time from the wakeup of a worker until it runs",
    SECTIONS["Request Latencies"]: "the time that a worker needs for a request",
    UNNAMED: "the time from the wakeup of a worker until it runs",
}
RATE_DEFINITIONS = {
    "requests": "Requests completed by all workers, divided by the run time.",
    "requests sustained": "Request rate that -A (auto-rps) reached and sustained.",
    "transfers": "Messages transferred per second per worker, averaged over the workers.",
}

# Output of old versions is recognized by the section at its start, of newer ones by the last line.
BEGINS = re.compile(rf"Latency percentiles |{ENDING.pattern}")

MIXED = "outputs of concurrent schbench instances are mixed; write each output to its own file"

Where = tuple[str, int, str]
Item = Measurement | BadLine


@dataclass(kw_only=True, slots=True)
class _Block:
    """One printed block; it ends with the line ``min=…, max=…``.

    :param runtime_s: printed run time, in s; None if the version prints none
    :param samples: printed number of samples; None if the version prints none
    :param percent: the last percentile that was read
    :param is_open: whether its end has not been read
    """

    runtime_s: int | None
    samples: int | None
    items: list[Item] = field(default_factory=list)
    percent: float = 0.0
    is_open: bool = True


@dataclass(kw_only=True, slots=True)
class _Instance:
    """The output of one schbench so far: the last block of each section, and the first error.

    :param has_extremes: the text has lines ``min=…, max=…``
    :param last: section of the last block; None before the first
    :param intervals: the blocks that a later block of the same section followed, with the section
    :param is_reset: blocks cover only the time since the last reset (``-z``)
    """

    has_extremes: bool
    blocks: dict[str, _Block] = field(default_factory=dict)
    last: str | None = None
    intervals: list[tuple[str, _Block]] = field(default_factory=list)
    is_reset: bool = False
    problem: BadLine | None = None

    def end_block(self) -> None:
        """End the open block, if the text lacks the lines ``min=…, max=…`` that end blocks."""
        block = self.open_block()
        if block is not None and block.items and not self.has_extremes:
            block.is_open = False

    def open_block(self) -> _Block | None:
        block = self.blocks.get(self.last) if self.last is not None else None
        return block if block is not None and block.is_open else None

    def refuse(self, where: Where, problem: str) -> None:
        # Keep the first problem; later ones may be consequences of it.
        self.problem = self.problem or BadLine(problem=f"{where[0]}:{where[1]}: {problem}")


@parser(
    "schbench", class_="micro", begins=BEGINS, claims=lambda text: SECTION.search(text) is not None
)
def parse_schbench(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the last block of each section of each instance, or with ``-z`` the intervals."""
    lines = list(lines)
    begin = partial(_Instance, has_extremes=any(map(EXTREMES.match, lines)))
    instance = begin()
    where = (label, 0, "")
    for line_number, line in enumerate(lines, start=1):
        where = label, line_number, line
        if (header := SECTION.match(line)) is not None:
            if _is_another(instance, header):
                yield from _finish(instance, where)
                instance = begin()
            instance.end_block()
            _begin_block(instance, header, where)
        elif line.startswith(WARMED_UP):
            instance = begin()
        elif instance.blocks and (ending := ENDING.match(line)) is not None:
            instance.end_block()
            yield from _finish(instance, where, ending)
            instance = begin()
        else:
            _add_line(instance, where)
    if instance.blocks:
        yield from _finish(instance, where)


def _is_another(instance: _Instance, header: re.Match[str]) -> bool:
    # Old versions print no last line. The first of them print one block per run, the later ones
    # a rising runtime.
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
    is_first_missing = not instance.blocks and section not in {WAKEUP, UNNAMED}
    if instance.open_block() is not None or is_repeated or is_first_missing:
        instance.refuse(where, MIXED)
    elif before is not None:
        instance.intervals.append((section, before))
        instance.is_reset = instance.is_reset or _was_reset(section, before, block)
    instance.blocks[section] = block
    instance.last = section


def _was_reset(section: str, before: _Block, block: _Block) -> bool:
    # The rate is sampled once per second, so without a reset it has more samples.
    samples = (before.samples or 0, block.samples or 0)
    is_later = (block.runtime_s or 0) > (before.runtime_s or 0)
    return samples[0] > samples[1] or (
        section in RATES and is_later and samples[0] > 0 and samples[0] == samples[1]
    )


def _add_line(instance: _Instance, where: Where) -> None:
    if instance.last is None:
        return
    percentile, extremes = PERCENTILE.match(where[2]), EXTREMES.match(where[2])
    if percentile is None and extremes is None:
        return
    block = instance.open_block()
    if block is None or (percentile is not None and float(percentile[1]) <= block.percent):
        instance.refuse(where, MIXED)
    elif percentile is not None:
        block.percent = float(percentile[1])
        block.items += _read_percentile(instance.last, percentile, where)
    elif extremes is not None:
        block.is_open = False
        if instance.last not in RATES:
            metric = _metric(f"{instance.last} max", "s", "lower", "informational")
            block.items.append(measure(metric, extremes[1], where=where, scale=MICROSECOND_S))


def _read_percentile(section: str, line: re.Match[str], where: Where) -> Iterator[Item]:
    name = f"{section} p{float(line[1]):g}"
    is_rate = section in RATES
    if is_rate:
        metric = _metric(name, "1/s", "higher", "informational")
    else:
        metric = _metric(name, "s", "lower", "primary" if name in PRIMARY else "secondary")
    scale = 1.0 if is_rate else MICROSECOND_S
    item = measure(metric, line[2], where=where, scale=scale)
    if isinstance(item, Measurement):
        if is_rate and item.value == 0.0:
            return
        item = replace(item, resolution=bucket_width(item.value / scale) * scale)
    yield item


def bucket_width(value: float) -> float:
    """Return the width of the histogram bucket of schbench that contains a value.

    >>> [bucket_width(value) for value in (6, 511, 513, 1198, 11376)]
    [1.0, 1.0, 2.0, 4.0, 32.0]
    """
    return float(1 << max(0, round(value).bit_length() - 1 - PLAT_BITS))


def _finish(
    instance: _Instance, where: Where, ending: re.Match[str] | None = None
) -> Iterator[Item]:
    is_old = UNNAMED in instance.blocks
    if instance.open_block() is not None or (ending is None and not is_old):
        instance.refuse(
            where,
            "schbench ended before the run time set with -r; use a smaller -r or a longer "
            "time limit",
        )
    elif not is_old and WAKEUP not in instance.blocks:
        instance.refuse(where, MIXED)
    times = [(section, block.runtime_s) for section, block in instance.intervals]
    if instance.is_reset and len(set(times)) < len(times):
        instance.refuse(where, "an interval of schbench is printed twice; record again")
    if instance.problem is not None:
        yield instance.problem
        return
    if instance.is_reset:
        yield from _read_intervals(instance)
        instance.blocks.clear()
    for section, block in instance.blocks.items():
        if block.samples != 0:
            yield from block.items
        elif section not in RATES:
            yield BadLine(
                problem=f"{where[0]}:{where[1]}: {section} has no samples; use a larger -r"
            )
    if ending is not None:
        metric = _metric(ENDINGS[ending[1]], "1/s", "higher", "secondary")
        yield measure(metric, ending[2], where=where)


def _read_intervals(instance: _Instance) -> Iterator[Item]:
    """Yield the mean of each metric over the intervals; maxima and rates are left out."""
    intervals: dict[Metric, list[Measurement]] = {}
    for section, block in instance.intervals:
        # The maximum of an interval depends on its length.
        for item in block.items if block.samples != 0 and section not in RATES else ():
            if isinstance(item, BadLine):
                yield item
            elif not item.metric.is_maximum:
                intervals.setdefault(item.metric, []).append(item)
    for metric, items in intervals.items():
        yield replace(
            items[-1],
            metric=_of_interval(metric),
            value=fmean(item.value for item in items),
            resolution=max(item.resolution or 0.0 for item in items),
        )


def _of_interval(metric: Metric) -> Metric:
    definition = metric.definition and f"{metric.definition.rstrip('.')}, mean over the intervals."
    return dataclasses.replace(metric, name=f"{metric.name} per interval", definition=definition)


def _metric(name: str, unit: str, better: Better, family: Family) -> Metric:
    return Metric(
        name=f"schbench {name}",
        unit=unit,
        better=better,
        family=family,
        definition=_define(name),
    )


def _define(name: str) -> str | None:
    section, _, statistic = name.rpartition(" ")
    percent = statistic.removeprefix("p")
    if section in RATES:
        return f"{percent}th percentile of requests per second, sampled once per second."
    if section not in TIMES:
        return RATE_DEFINITIONS.get(name)
    if statistic == "max":
        return f"Maximum of {TIMES[section]}."
    return f"{percent}th percentile of {TIMES[section]}."
