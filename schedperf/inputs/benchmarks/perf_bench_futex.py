# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse perf bench futex: hash, lock-pi, wake, wake-parallel and requeue.

>>> text = '''\\
... # Running 'futex/hash' benchmark:
... Run summary [PID 21266]: 2 threads, each operating on 1024 [private] futexes for 1 secs.
...
... [thread  0] futexes: 0x55de219313e0 ... 0x55de219323dc [ 763904 ops/sec ]
... [thread  1] futexes: 0x55de21932680 ... 0x55de2193367c [ 792576 ops/sec ]
...
... Averaged 778240 operations/sec (+- 1.84%), total secs = 1
... # Running 'futex/wake' benchmark:
... Run summary [PID 21269]: blocking on 2 threads (at [private] futex 0x55dc83), waking up 1 at a time.
...
... [Run 1]: Wokeup 2 of 2 threads in 0.0120 ms
... [Run 2]: Wokeup 2 of 2 threads in 0.0070 ms
... Wokeup 2 of 2 threads in 0.0095 ms (+-26.32%)
... '''
>>> for item in parse_futex(text.splitlines(), "stdout"):
...     print(item.metric.name, f"{item.value:.6g}", item.metric.unit, item.metric.better)
futex/hash operations per thread 778240 1/s higher
futex/wake time 9.5e-06 s lower

The lines of single threads and of single repetitions are not read, because the last line is their
mean.
"""  # noqa: E501 # real output is this wide

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from schedperf.inputs.benchmarks import MILLISECOND_S, BadLine, Measurement, Metric, measure, parser
from schedperf.inputs.benchmarks._perf_bench import HEADER, is_printed, lines_of


class _Result(Struct, frozen=True, kw_only=True):
    """The metric of one benchmark, and its line; the first group is the number."""

    metric: Metric
    line: re.Pattern[str]
    scale: float


def _rate(name: str, definition: str) -> _Result:
    return _Result(
        metric=Metric(
            name=f"{name} operations per thread",
            unit="1/s",
            better="higher",
            family="primary",
            definition=definition,
        ),
        line=re.compile(r"Averaged (\S+) operations/sec"),
        scale=1.0,
    )


def _time(name: str, quantity: str, line: str, definition: str) -> _Result:
    return _Result(
        metric=Metric(
            name=f"{name} {quantity}",
            unit="s",
            better="lower",
            family="primary",
            definition=definition,
        ),
        line=re.compile(line),
        scale=MILLISECOND_S,
    )


RESULTS = {
    "futex/hash": _rate(
        "futex/hash",
        "Futex system calls per second that only look up the hash table, mean over the threads.",
    ),
    "futex/lock-pi": _rate(
        "futex/lock-pi",
        "Pairs of locking and unlocking a PI futex per second, mean over the threads.",
    ),
    "futex/wake": _time(
        "futex/wake",
        "time",
        r"Wokeup \S+ of \S+ threads in (\S+) ms",
        "Time to wake all threads that block on a futex, mean over the repetitions.",
    ),
    "futex/wake-parallel": _time(
        "futex/wake-parallel",
        "latency",
        r"Avg per-thread latency \(waking \S+ threads\) in (\S+) ms",
        "Time that a waking thread needs for its share of the waiters, mean over the waking "
        "threads and the repetitions.",
    ),
    "futex/requeue": _time(
        "futex/requeue",
        "time",
        r"Requeued \S+ of \S+ threads in (\S+) ms",
        "Time to requeue all threads that block on a futex, mean over the repetitions.",
    ),
}


@parser(
    "perf bench futex",
    class_="micro",
    begins=HEADER,
    claims=lambda text: is_printed(RESULTS, text),
)
def parse_futex(lines: Iterable[str], label: str) -> Iterator[Measurement | BadLine]:
    """Read the mean that each benchmark prints at its end."""
    for name, line_number, line in lines_of(RESULTS, lines):
        result = RESULTS[name]
        if (match := result.line.match(line)) is not None:
            where = (label, line_number, line)
            yield measure(result.metric, match[1], where=where, scale=result.scale)
