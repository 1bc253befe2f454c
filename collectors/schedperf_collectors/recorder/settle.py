"""Which run collectors go on, tried before the first run, and so how many runs to make."""

from __future__ import annotations

from schedperf_collectors.recorder.captures import Captured, Chosen, Staging, try_run_collectors
from schedperf_collectors.recorder.isolate import SKIPPED
from schedperf_collectors.recorder.plan import Counts
from schedperf_collectors.recorder.progress import Progress, say_missing
from schedperf_collectors.recorder.session import Request


def settle(
    request: Request, chosen: Chosen, staging: Staging, progress: Progress
) -> tuple[Chosen, tuple[Captured, ...], Counts]:
    """Try the run collectors once, and so find out how many runs to make.

    One that is skipped here would be skipped around every run, and one that
    hangs would cost its time limit again and again.

    :return: the collectors that go on, those that do not, the numbers of runs
    """
    tried = try_run_collectors(chosen.run, staging, request.options) if chosen.run else []
    dropped = tuple(one for one in tried if one.result.status == SKIPPED or one.result.timed_out)
    for one in tried:
        say_missing(one, progress)
    usable = chosen.without({one.collector.name for one in dropped})
    instrumented = request.at_least if request.instrumented is None else request.instrumented
    if not usable.intrusive:
        if chosen.intrusive or request.instrumented:
            progress.note("no instrumented runs: no intrusive collector can run here")
        instrumented = 0
    return usable, dropped, Counts(request.runs, instrumented, request.warmup)
