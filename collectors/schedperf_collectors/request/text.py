# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the texts of a request: what it will do, and the text for the mail."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedperf_collectors import __version__
from schedperf_collectors.request.ask import Ask
from schedperf_collectors.request.result import Redacted
from schedperf_collectors.request.steps import Workload, show_command

WIDTH = 72
MOST_LINES = 40
_TITLE_LETTERS = 10
_SECONDS_PER_MINUTE = 60.0
# With the most kernels and features, the mail then has at most MOST_LINES.
_LINES_OF_FACT = 2
# Sides of a switched feature.
_SIDES = 2


def describe(ask: Ask, work: Workload, release: str, result: str) -> Iterator[str]:
    """Yield the lines that a reporter reads before anything is recorded.

    :param release: of the running kernel
    :param result: name of the file that is written at the end
    """
    sender = f", which goes to {ask.reply_to}" if ask.reply_to else ""
    yield f"This program records an answer to a question{sender}:"
    yield from _wrapped("  ", ask.sentence)
    yield ""
    yield "It runs this command, and nothing else of the request:"
    yield f"  {show_command(work.command)}"
    yield from _rows(_plan(ask, work, release))
    yield ""
    yield from _wrapped(
        "",
        f"Nothing is sent. At the end, {result} has what you may send: the output of the command, "
        "the times of its tasks, the scheduler's counts, the CPU, the kernel and its scheduler "
        "settings. Left out: names of this machine, of users and of other programs, addresses, "
        "paths, unknown settings, profiles, symbols, other counters and logs. The full recordings "
        "stay here.",
    )


def _plan(ask: Ask, work: Workload, release: str) -> Iterator[tuple[str, str]]:
    points = [point for point in work.points if point]
    if points:
        yield "points", "; ".join(points)
    sides = 1 + _SIDES * len(ask.features)
    total = work.runs_of_a_side * sides
    yield (
        "runs",
        (
            f"{total} on each kernel ({work.runs} clean, {work.instrumented} with more collectors, "
            f"{work.warmup} warm-up; per point and side)"
        ),
    )
    if ask.features:
        yield "features", f"{', '.join(ask.features)}: switched off and on, then restored"
    yield "time", _duration(ask, total)
    yield "kernels", f"{', '.join(ask.kernels)}; running: {release}"


def _duration(ask: Ask, runs: int) -> str:
    if ask.seconds is None:
        return "the request does not state how long a run takes; the time left is printed"
    minutes = max(1, round(runs * ask.seconds / _SECONDS_PER_MINUTE))
    return f"about {minutes} min on each kernel, if a run takes {ask.seconds:g} s as stated"


@dataclass(frozen=True)
class Answer:
    """What was recorded.

    :param kernels: names of the kernels, in the order of the request
    :param bundles: all redacted bundles
    :param result: name of the file with the bundles
    """

    ask: Ask
    work: Workload
    kernels: tuple[str, ...]
    bundles: tuple[Redacted, ...]
    result: str

    def bundle(self, name: str) -> Redacted | None:
        """Return a bundle by the name of its file; None if it was not recorded."""
        return next((each for each in self.bundles if each.name == name), None)


def write_mail(answer: Answer) -> str:
    """Return the text for the mail, at most :data:`MOST_LINES` lines."""
    folder = answer.result[: -len(".tar")]
    left_out = sum(sum(each.left_out.values()) for each in answer.bundles)
    plain = [f"{kernel}.tar" for kernel in answer.kernels]
    switched = [
        [each.name for each in answer.bundles if f"+{feature}-" in each.name]
        for feature in answer.ask.features
    ]
    lines = [
        *_wrapped("", answer.ask.sentence),
        "",
        *_rows(_facts(answer), most=_LINES_OF_FACT),
        *_rows([("left out", f"{left_out} private fields and strings")]),
        "",
        "To compare:",
        f"  tar xf {answer.result}",
        *(
            f"  schedperf compare {' '.join(f'{folder}/{name}' for name in names)}"
            for names in (plain, *switched)
            if len(names) > 1
        ),
    ]
    return "\n".join(lines) + "\n"


def _facts(answer: Answer) -> Iterator[tuple[str, str]]:
    host = answer.bundles[0].host
    yield "machine", f"{_fact(host, 'cpu', 'model')}, {_fact(host, 'cpu', 'count_online')} CPUs"
    yield "guest of", _fact(host, "virtualisation", "kind")
    yield "system", _fact(host, "system", "distro")
    yield "command", show_command(answer.work.command)
    points = [point for point in answer.work.points if point]
    if points:
        yield "points", "; ".join(points)
    yield "recorder", f"schedperf {__version__}"
    for kernel in answer.kernels:
        bundle = answer.bundle(f"{kernel}.tar")
        if bundle is not None:
            failed = f", {bundle.failed} failed" if bundle.failed else ""
            release = _fact(bundle.host, "kernel", "release")
            yield "kernel", f"{release} (build id {kernel[-12:]}): {bundle.clean} runs{failed}"
    for feature in answer.ask.features:
        number = sum(f"+{feature}-{feature}." in each.name for each in answer.bundles)
        yield "feature", f"{feature} off and on: {number} of {len(answer.kernels)} kernels"


def _fact(host: Mapping[str, Any], group: str, name: str) -> str:
    fields = host.get(group)
    value = fields.get(name) if isinstance(fields, dict) else None
    return "unknown" if value is None else str(value)


def _rows(rows: Iterable[tuple[str, str]], most: int | None = None) -> Iterator[str]:
    """Yield a title and a text per row.

    :param most: lines of a row, of which the rest is cut; None for all
    """
    for title, text in rows:
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"  {title:<{_TITLE_LETTERS}}",
            subsequent_indent=" " * (_TITLE_LETTERS + 2),
            break_on_hyphens=False,
            max_lines=most,
            placeholder=" ...",
        )


def _wrapped(indent: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )
