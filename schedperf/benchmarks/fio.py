# SPDX-License-Identifier: GPL-2.0-or-later
r"""Parse fio, text or JSON: IOPS, bandwidth and latency percentiles of each job.

>>> text = '''\
... seq: (groupid=0, jobs=1): err= 0: pid=24114: Fri Nov 27 10:48:13 2026
...   read: IOPS=6613, BW=25.8MiB/s (27.1MB/s)(1984KiB/75msec)
...     clat (usec): min=48, max=5263, avg=140.17, stdev=445.37
...      lat (usec): min=48, max=5263, avg=140.27, stdev=445.38
...     clat percentiles (usec):
...      |  1.00th=[   50],  5.00th=[   52], 10.00th=[   53], 20.00th=[   55],
...      | 30.00th=[   56], 40.00th=[   58], 50.00th=[   59], 60.00th=[   62],
...      | 99.00th=[ 2114], 99.50th=[ 4178], 99.90th=[ 5276], 99.95th=[ 5276],
... '''
>>> for item in parse_fio(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:g}", item.metric.unit, item.metric.family)
fio seq read IOPS 6613 1/s primary
fio seq read bandwidth 2.70533e+07 B/s secondary
fio seq read clat max 0.005263 s informational
fio seq read clat average 0.00014017 s secondary
fio seq read lat max 0.005263 s informational
fio seq read lat average 0.00014027 s secondary
fio seq read clat p50 5.9e-05 s secondary
fio seq read clat p99 0.002114 s secondary
fio seq read clat p99.9 0.005276 s secondary

``clat`` is the latency from the submission of a request to its completion, ``lat`` also contains
the submission; fio uses these names. Of the percentiles, p50, p90, p95, p99, p99.9 and p99.99 are
read. fio computes them from a histogram; the resolution of each is the width of its bin.

The clones of a job (``numjobs``) have the same name: their IOPS and bandwidths are added, their
latencies are averaged. With ``group_reporting`` fio prints the clones as one job. If a text
contains JSON, only the JSON is read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from schedperf.benchmarks import (
    MICROSECOND_S,
    MILLISECOND_S,
    BadLine,
    Measurement,
    Metric,
    measure,
    parser,
)
from schedperf.benchmarks._json_text import Document, Path, Scalar, read_documents
from schedperf.model.comparison import Family
from schedperf.model.numbers import read_number
from schedperf.model.units import NANOSECOND_S

JSON_NAME = re.compile(r'^\s*"fio version"\s*:', re.MULTILINE)
JOB = re.compile(
    r"^(\S.{0,200}?): \(groupid=\d{1,9}, jobs=\d{1,9}\): err=", re.MULTILINE | re.ASCII
)
# Each fio begins with its version.
VERSION = re.compile(r"fio-\d")
# read: IOPS=12.3k, BW=48.0MiB/s (50.3MB/s)(480MiB/10001msec)
RATE = re.compile(
    r"  (?P<direction>read|write|trim) ?: IOPS=(?P<iops>\S+), BW=(?P<bandwidth>\S+) \(", re.ASCII
)
# Versions before 3: "read : io=4096.0KB, bw=71859KB/s, iops=17964, runt=    57msec".
OLD_RATE = re.compile(
    r"  (?P<direction>read|write|trim) ?: io=\S+, bw=(?P<bandwidth>\S+), iops=(?P<iops>\S+), ",
    re.ASCII,
)
LATENCY = re.compile(
    r" +(clat|lat) \(([num]sec)\): min= *[^\s,]+, max= *([^\s,]+), avg= *([^\s,]+), ", re.ASCII
)
PERCENTILES = re.compile(r" +(clat|lat) percentiles \(([num]sec)\):", re.ASCII)
PERCENTILE = re.compile(r"(\d{1,3}\.\d{2,6})th=\[ *([^\]\s]{1,30})\]", re.ASCII)
PERCENTILE_ROW = re.compile(r" +\| ")
END = re.compile(r"\s*$|Run status group")

SCALES = {"nsec": NANOSECOND_S, "usec": MICROSECOND_S, "msec": MILLISECOND_S}
NUMBER = re.compile(r"([^a-zA-Z]*)([kKMGTP]?)(i?)(B/s)?", re.ASCII)
PREFIXES = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

# Percentiles that are read, as fio names them and as the names of metrics do.
PERCENTS = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p99.9", 99.99: "p99.99"}
# The histogram has 64 bins for each power of two (FIO_IO_U_PLAT_BITS in fio's stat.h).
BIN_WIDTH = 1 / 64
# Every row of the comparison contains the name.
LONGEST_JOB_NAME = 40

TIMES = {
    "clat": "the time from the submission of a request to its completion",
    "lat": "the time from the creation of a request to its completion",
}

Where = tuple[str, int, str]
Item = Measurement | BadLine


class _Rate(Struct, frozen=True, kw_only=True):
    """A rate, and how it is called in the text and in the JSON."""

    group: str
    key: str
    name: str
    unit: str
    family: Family
    definition: str


IOPS = _Rate(
    group="iops",
    key="iops",
    name="IOPS",
    unit="1/s",
    family="primary",
    definition="Requests completed per second, summed over the clones of the job.",
)
BANDWIDTH = _Rate(
    group="bandwidth",
    key="bw_bytes",
    name="bandwidth",
    unit="B/s",
    family="secondary",
    definition="Bytes transferred per second, summed over the clones of the job.",
)
RATES = (IOPS, BANDWIDTH)


@dataclass(kw_only=True, slots=True)
class _Report:
    """The values of all jobs: rates, which are summed over clones, and latencies."""

    rates: dict[Metric, Item] = field(default_factory=dict)
    latencies: list[Item] = field(default_factory=list)

    def add_rate(self, metric: Metric, item: Item) -> None:
        before = self.rates.get(metric)
        if isinstance(before, Measurement) and isinstance(item, Measurement):
            resolution = (before.resolution or 0.0) + (item.resolution or 0.0)
            item = replace(item, value=before.value + item.value, resolution=resolution)
        self.rates[metric] = before if isinstance(before, BadLine) else item

    def items(self) -> Iterator[Item]:
        yield from self.rates.values()
        yield from self.latencies


def _claims(text: str) -> bool:
    return JOB.search(text) is not None or JSON_NAME.search(text) is not None


@parser("fio", class_="semi", claims=_claims)
def parse_fio(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the report of each job."""
    lines = list(lines)
    if any(JSON_NAME.match(line) for line in lines):
        for document in read_documents(lines, label, keep=_is_needed):
            yield from _read_json(document)
        return
    reader = _TextReader()
    for line_number, line in enumerate(lines, start=1):
        if VERSION.match(line):
            yield from reader.report.items()
            reader = _TextReader()
        reader.read((label, line_number, line))
    yield from reader.report.items()


@dataclass(kw_only=True, slots=True)
class _TextReader:
    """Which job, direction and latency the next line is about."""

    report: _Report = field(default_factory=_Report)
    job: str | None = None
    direction: str | None = None
    latency: str | None = None
    scale: float = 1.0

    def read(self, where: Where) -> None:
        line = where[2]
        if (match := JOB.match(line)) is not None:
            self.job, self.direction, self.latency = match[1], None, None
        elif END.match(line):
            self.job = self.direction = None
        elif self.job is not None and (match := RATE.match(line) or OLD_RATE.match(line)):
            self.direction, self.latency = match["direction"], None
            for kind in RATES:
                metric = _rate_metric(self._name(), kind)
                self.report.add_rate(metric, _with_prefix(metric, match[kind.group], where))
        elif self.direction is not None:
            self._read_latency(where)

    def _name(self) -> str:
        return f"{(self.job or '')[:LONGEST_JOB_NAME]} {self.direction}"

    def _read_latency(self, where: Where) -> None:
        latencies = self.report.latencies
        if (match := LATENCY.match(where[2])) is not None:
            scale = SCALES[match[2]]
            for statistic, text in (("max", match[3]), ("average", match[4])):
                metric = _latency_metric(self._name(), match[1], statistic)
                latencies.append(_with_prefix(metric, text, where, scale))
        elif (match := PERCENTILES.match(where[2])) is not None:
            self.latency, self.scale = match[1], SCALES[match[2]]
        elif self.latency is not None and PERCENTILE_ROW.match(where[2]):
            for percent, text in PERCENTILE.findall(where[2]):
                if (name := PERCENTS.get(float(percent))) is not None:
                    metric = _latency_metric(self._name(), self.latency, name)
                    latencies.append(_in_bin(measure(metric, text, where=where, scale=self.scale)))


def _with_prefix(metric: Metric, text: str, where: Where, scale: float = 1.0) -> Item:
    """Return a number such as ``12.3k`` or ``48.0MiB/s`` in the metric's unit."""
    match = NUMBER.fullmatch(text)
    if match is None:
        return measure(metric, text, where=where)
    # Versions before 3 print "KB/s" for 1024 B/s; newer ones print it in parentheses.
    step = 1024.0 if match[3] or match[4] else 1000.0
    factor = step ** PREFIXES[match[2]] * scale
    return measure(metric, match[1], where=where, scale=factor)


def _in_bin(item: Item) -> Item:
    if isinstance(item, BadLine):
        return item
    return replace(item, resolution=max(item.resolution or 0.0, abs(item.value) * BIN_WIDTH))


DIRECTIONS = ("read", "write", "trim")
JSON_TIMES = {"clat_ns": "clat", "lat_ns": "lat"}
JSON_STATISTICS = {"mean": "average", "max": "max"}


def _is_needed(path: Path) -> bool:
    return path[0] == "jobs" and bool(path[2:]) and path[2] in {"jobname", *DIRECTIONS}


def _read_json(document: Document) -> Iterator[Item]:
    if document.problem is not None:
        yield document.problem
        return
    report = _Report()
    for path, value in document.values.items():
        _, number, direction, *keys = path
        job = document.values.get(("jobs", number, "jobname"), Scalar("", value.where)).text
        # fio prints all numbers of a direction that the job does not use as 0.
        used = document.values.get(("jobs", number, direction, "total_ios"))
        if keys and used is not None and used.text != "0":
            name = f"{job[:LONGEST_JOB_NAME]} {direction}"
            _read_value(report, name, tuple(keys), value)
    yield from report.items()


def _read_value(report: _Report, name: str, keys: Path, value: Scalar) -> None:
    for kind in RATES:
        if keys == (kind.key,):
            metric = _rate_metric(name, kind)
            report.add_rate(metric, measure(metric, value.text, where=value.where))
    time = JSON_TIMES.get(keys[0])
    if time is None or not keys[1:]:
        return
    is_percentile = keys[1] == "percentile" and len(keys[1:]) > 1
    statistic = _percent(keys[-1]) if is_percentile else JSON_STATISTICS.get(keys[1])
    if statistic is not None:
        metric = _latency_metric(name, time, statistic)
        item = measure(metric, value.text, where=value.where, scale=NANOSECOND_S)
        report.latencies.append(_in_bin(item) if is_percentile else item)


def _percent(text: str) -> str | None:
    percent = read_number(text)
    return None if percent is None else PERCENTS.get(percent)


def _rate_metric(name: str, kind: _Rate) -> Metric:
    return Metric(
        name=f"fio {name} {kind.name}",
        unit=kind.unit,
        better="higher",
        family=kind.family,
        definition=kind.definition,
    )


def _latency_metric(name: str, time: str, statistic: str) -> Metric:
    if statistic == "average":
        definition = f"Mean of {TIMES[time]}."
    elif statistic == "max":
        definition = f"Maximum of {TIMES[time]}."
    else:
        definition = f"{statistic.removeprefix('p')}th percentile of {TIMES[time]}."
    return Metric(
        name=f"fio {name} {time} {statistic}",
        unit="s",
        better="lower",
        family="informational" if statistic == "max" else "secondary",
        definition=definition,
    )
