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
the submission; fio uses these names. The percentiles p50, p90, p95, p99, p99.9 and p99.99 are read.
fio computes them from a histogram; the resolution of each is the width of its bin, or the printed
step if that is larger.

The clones of a job (``numjobs``) have the same name: their IOPS and bandwidths are added, their
latencies are averaged, and of their maxima the largest is read. With ``group_reporting`` fio prints
the clones as one job. If a text contains JSON, only the JSON is read.

With ``--status-interval`` or after SIGUSR1, fio prints several reports of the same jobs, each
covering the whole time since the start; only the last one is read. In the text, clones have
different pids, and repeated reports of one job have the same pid. JSON has no pids: a document is a
later report of the same fio if its jobs are the same and began before the previous document was
printed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from msgspec import Struct
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
from schedperf.inputs.benchmarks._json_text import Document, Path, Scalar, read_documents
from schedperf.model.numbers import read_number
from schedperf.model.rows import Family
from schedperf.model.text import cut
from schedperf.model.units import NANOSECOND_S

JSON_NAME = re.compile(r'^[ \t]*"fio version"[ \t]*:', re.MULTILINE)
JOB = re.compile(
    r"^(\S.{0,200}?): \((groupid=\d{1,9}), jobs=(\d{1,9})\): err=[^\n]{0,400}?"
    r"(?:: (pid=\d{1,9}): |$)",
    re.MULTILINE | re.ASCII,
)
# The output of each fio begins with its version.
VERSION = re.compile(r"fio-\d")
BEGINS = re.compile(r"fio-\d|\{")
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
# Also latencies of syncs, and of requests per priority: "clat prio 1/0 (51.17% of IOs)".
PERCENTILES = re.compile(r" +(\S[^\n]{0,80}?) percentiles \(([num]sec)\):", re.ASCII)
PERCENTILE = re.compile(r"(\d{1,3}\.\d{2,6})th=\[ *([^\]\s]{1,30})\]", re.ASCII)
PERCENTILE_ROW = re.compile(r" +\| ")
# "Starting 1 thread and 2 processes".
STARTED = re.compile(r"Starting (\d{1,6} \w+(?: and \d{1,6} \w+)?)\s*$", re.ASCII)
DEPTHS = re.compile(r"  IO depths +: ")
END = "Run status group"

SCALES = {"nsec": NANOSECOND_S, "usec": MICROSECOND_S, "msec": MILLISECOND_S}
NUMBER = re.compile(r"([^a-zA-Z]*)([kKMGTP]?)(i?)(B/s)?", re.ASCII)
PREFIXES = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

# Percentiles that are read: fio's name, and the name in the metric.
PERCENTS = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p99.9", 99.99: "p99.99"}
# The histogram has 64 bins for each power of two (FIO_IO_U_PLAT_BITS in fio's stat.h).
BIN_WIDTH = 1 / 64
# Longest name, since every row of the comparison contains it.
LONGEST_JOB_NAME = 40

TIMES = {
    "clat": "the time from the submission of a request to its completion",
    "lat": "the time from the creation of a request to its completion",
}

Where = tuple[str, int, str]
Item = Measurement | BadLine


class _Rate(Struct, frozen=True, kw_only=True):
    """A rate, and its names in the text and in the JSON."""

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
    latencies: dict[Metric, list[Item]] = field(default_factory=dict)

    def add(self, job: "_Job") -> None:
        for metric, item in job.rates.items():
            self.add_rate(metric, item)
        for metric, item in job.latencies.items():
            self.add_latency(metric, item)

    def add_latency(self, metric: Metric, item: Item) -> None:
        self.latencies.setdefault(metric, []).append(item)

    def add_rate(self, metric: Metric, item: Item) -> None:
        before = self.rates.get(metric)
        if isinstance(before, Measurement) and isinstance(item, Measurement):
            resolution = (before.resolution or 0.0) + (item.resolution or 0.0)
            item = replace(item, value=before.value + item.value, resolution=resolution)
        self.rates[metric] = before if isinstance(before, BadLine) else item

    def items(self) -> Iterator[Item]:
        yield from self.rates.values()
        for items in self.latencies.values():
            numbers = [item for item in items if isinstance(item, Measurement)]
            yield from (item for item in items if isinstance(item, BadLine))
            if len(numbers) == len(items):
                yield _of_clones(numbers)


def _of_clones(items: Sequence[Measurement]) -> Measurement:
    """Return the mean over the clones of a job; for maxima, the largest."""
    largest = max(items, key=lambda item: item.value)
    if largest.metric.is_maximum:
        return largest
    return replace(items[-1], value=fmean(item.value for item in items))


@dataclass(kw_only=True, slots=True)
class _Job:
    """The last report of one job in the text.

    :param processes: number of clones that the report covers
    :param round: number of the report in the sequence of reports of all jobs, from 0
    :param is_whole: the report has its last part, the distribution of the I/O depths
    :param is_repeated: values of one metric are printed twice, so several reports are mixed
    """

    name: str
    processes: int
    round: int
    where: Where
    rates: dict[Metric, Item] = field(default_factory=dict)
    latencies: dict[Metric, Item] = field(default_factory=dict)
    is_whole: bool = False
    is_repeated: bool = False

    def add(self, values: dict[Metric, Item], metric: Metric, item: Item) -> None:
        self.is_repeated = self.is_repeated or metric in values
        values[metric] = item

    def problem(self, what: str) -> BadLine:
        name = f"{self.where[0]}:{self.where[1]}: fio {cut(self.name, LONGEST_JOB_NAME)}"
        return BadLine(problem=f"{name}: {what}; record the whole output")


STOPPED = "fio was stopped by a signal before the end of its jobs; record again"
FAILED = "a job of fio ended with an error; record again"
FAILURES = {
    r"^fio: terminating on signal": STOPPED,
    r"^\S.{0,200}?: \(groupid=\d{1,9}, jobs=\d{1,9}\): err= *[1-9]": FAILED,
    r"^fio: pid=\d{1,9}, err=[1-9]": FAILED,
    r'^[ \t]{0,40}"error" : [1-9]': FAILED,
}


def _claims(text: str) -> bool:
    return JOB.search(text) is not None or JSON_NAME.search(text) is not None


@parser(
    "fio", class_="semi", claims=_claims, begins=BEGINS, find_failure=lines_of_failure(FAILURES)
)
def parse_fio(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Parse the last report of each job."""
    lines = list(lines)
    if any(JSON_NAME.match(line) for line in lines):
        for document in _last_of_each_fio(read_documents(lines, label, keep=_is_needed)):
            yield from _read_json(document)
        return
    reader = _TextReader()
    for line_number, line in enumerate(lines, start=1):
        if VERSION.match(line):
            yield from reader.items()
            reader = _TextReader()
        reader.read((label, line_number, line))
    yield from reader.items()


@dataclass(kw_only=True, slots=True)
class _TextReader:
    """The jobs of one fio, and which job, direction and latency the next line is about."""

    jobs: dict[tuple[str, str, str | None], _Job] = field(default_factory=dict)
    round: int = 0
    started: int | None = None
    has_whole_reports: bool = False
    job: _Job | None = None
    direction: str | None = None
    latency: str | None = None
    scale: float = 1.0

    def items(self) -> Iterator[Item]:
        """Yield the values of all jobs, or what is wrong with their reports."""
        problem = next(self._problems(), None)
        if problem is not None:
            yield problem
            return
        report = _Report()
        for job in self.jobs.values():
            report.add(job)
        yield from report.items()

    def _problems(self) -> Iterator[BadLine]:
        for job in self.jobs.values():
            if job.is_repeated:
                yield job.problem("the report of the job repeats values")
            if job.round < self.round:
                yield job.problem("the last report lacks the job")
            if self.has_whole_reports and not job.is_whole:
                yield job.problem("the report of the job ends early")
        processes = sum(job.processes for job in self.jobs.values())
        if self.jobs and self.started is not None and processes < self.started:
            last = next(reversed(self.jobs.values()))
            yield last.problem(f"reports of {processes} of {self.started} processes")

    def read(self, where: Where) -> None:
        line = where[2]
        if not line.strip() or line.startswith(END):
            self.job = self.direction = None
        elif (match := JOB.match(line)) is not None:
            key = match[1], match[2], match[4]
            if key in self.jobs and self.jobs[key].round == self.round:
                self.round += 1
            self.job = _Job(name=match[1], processes=int(match[3]), round=self.round, where=where)
            self.jobs[key] = self.job
            self.direction = self.latency = None
        elif (match := STARTED.match(line)) is not None:
            self.started = sum(map(int, match[1].split()[::3]))
        elif self.job is None:
            return
        elif DEPTHS.match(line):
            self.job.is_whole = self.has_whole_reports = True
        elif (match := RATE.match(line)) is not None:
            self._read_rates(match, where, is_old=False)
        elif (match := OLD_RATE.match(line)) is not None:
            self._read_rates(match, where, is_old=True)
        elif self.direction is not None:
            self._read_latency(self.job, where)

    def _read_rates(self, match: re.Match[str], where: Where, *, is_old: bool) -> None:
        assert self.job is not None
        self.direction, self.latency = match["direction"], None
        for kind in RATES:
            metric = _rate_metric(self._name(self.job), kind)
            item = _with_prefix(metric, match[kind.group], where, is_old=is_old)
            self.job.add(self.job.rates, metric, item)

    def _name(self, job: _Job) -> str:
        return f"{cut(job.name, LONGEST_JOB_NAME)} {self.direction}"

    def _read_latency(self, job: _Job, where: Where) -> None:
        if (match := LATENCY.match(where[2])) is not None:
            scale = SCALES[match[2]]
            for statistic, text in (("max", match[3]), ("average", match[4])):
                metric = _latency_metric(self._name(job), match[1], statistic)
                job.add(job.latencies, metric, _with_prefix(metric, text, where, scale))
        elif (match := PERCENTILES.match(where[2])) is not None:
            self.latency = match[1] if match[1] in TIMES else None
            self.scale = SCALES[match[2]]
        elif self.latency is not None and PERCENTILE_ROW.match(where[2]):
            for percent, text in PERCENTILE.findall(where[2]):
                if (name := PERCENTS.get(float(percent))) is not None:
                    metric = _latency_metric(self._name(job), self.latency, name)
                    item = _in_bin(measure(metric, text, where=where, scale=self.scale))
                    job.add(job.latencies, metric, item)


def _last_of_each_fio(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield the last report of each fio.

    If it cannot be determined, yield a document with a problem in its place, and stop.
    """
    last: Document | None = None
    for document in documents:
        if last is None:
            last = document
            continue
        is_later = _is_later_report(last, document)
        if is_later is None:
            label, line_number, _ = document.where
            problem = (
                f"{label}:{line_number}: fio repeats the report of the same jobs without "
                "timestamps; record without --status-interval"
            )
            yield Document(values={}, where=document.where, problem=BadLine(problem=problem))
            return
        if not is_later:
            yield last
        last = document
    if last is not None:
        yield last


def _is_later_report(before: Document, after: Document) -> bool | None:
    """Return whether ``after`` is a later report of the same fio as ``before``.

    This is the case if its jobs are the same and began before ``before`` was printed. Return None
    if the jobs are the same, but one of the documents has no timestamp.
    """
    if _texts(before, "jobname") != _texts(after, "jobname"):
        return False
    printed = [_printed_ms(document) for document in (before, after)]
    if None in printed:
        return None
    # A job may have begun later than fio; "elapsed" is rounded up to seconds.
    runtimes = [read_number(text) or 0.0 for text in _texts(after, "job_runtime")]
    elapsed = [1000.0 * ((read_number(text) or 1.0) - 1.0) for text in _texts(after, "elapsed")]
    since = (printed[1] or 0.0) - (printed[0] or 0.0)
    return max([*runtimes, *elapsed], default=0.0) > since


def _printed_ms(document: Document) -> float | None:
    for name, scale in (("timestamp_ms", 1.0), ("timestamp", 1000.0)):
        item = document.values.get((name,))
        if item is not None and (number := read_number(item.text)) is not None:
            return scale * number
    return None


def _texts(document: Document, name: str) -> list[str]:
    return [item.text for path, item in document.values.items() if path[2:] == (name,)]


def _with_prefix(
    metric: Metric, text: str, where: Where, scale: float = 1.0, *, is_old: bool = False
) -> Item:
    """Measure a number such as ``12.3k`` or ``48.0MiB/s``, in the metric's unit.

    :param scale: factor from the printed unit, without its prefix, to the metric's
    :param is_old: whether a version before 3 printed it
    """
    match = NUMBER.fullmatch(text)
    if match is None:
        return measure(metric, text, where=where)
    # Versions before 3 print "KB/s" for 1024 B/s, newer ones for 1000 B/s (--kb_base=1000).
    step = 1024.0 if match[3] or (match[4] and is_old) else 1000.0
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
    if path[0] == "jobs" and path[2:]:
        return path[2] in {"jobname", "elapsed", "job_runtime", *DIRECTIONS}
    return path in {("timestamp",), ("timestamp_ms",)}


def _read_json(document: Document) -> Iterator[Item]:
    if document.problem is not None:
        yield document.problem
        return
    report = _Report()
    for path, value in document.values.items():
        if len(path) < 4:  # noqa: PLR2004 # ("jobs", "0", "read", "iops")
            continue
        _, number, direction, *keys = path
        job = document.values.get(("jobs", number, "jobname"), Scalar("", value.where)).text
        # fio prints 0 for all numbers of a direction that the job does not use.
        used = document.values.get(("jobs", number, direction, "total_ios"))
        if used is not None and used.text != "0":
            name = f"{cut(job, LONGEST_JOB_NAME)} {direction}"
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
        report.add_latency(metric, _in_bin(item) if is_percentile else item)


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
