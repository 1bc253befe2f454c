# SPDX-License-Identifier: GPL-2.0-or-later
"""Show the progress of ``schedperf vm``: lines, or a bar on a terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from schedperf.lab.vm.session import News
from schedperf.model.text import clean_line, make_console
from schedperf_collectors.recorder.progress import format_duration

Show = Callable[[str, bool], None]


@contextlib.contextmanager
def telling(*, quiet: bool) -> Iterator[Callable[[News], None]]:
    """Yield a function that prints the events of a session on stderr, with a bar on a terminal.

    :param quiet: show warnings only
    """
    if quiet or not sys.stderr.isatty():
        yield _Teller(lambda line, _: click.echo(line, err=True), quiet=quiet).tell
        return
    with _bar() as (show, turn):
        yield _Teller(show, turn=turn).tell


@contextlib.contextmanager
def _bar() -> Iterator[tuple[Show, Callable[[News, str], None]]]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 # terminals only

    console = make_console(stderr=True)
    columns = (
        TextColumn("boot {task.fields[boot]}/{task.total:.0f}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}{task.description}"),
    )
    # The bar is removed at the end; messages stay.
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, visible=False, boot=0, left="")

        def turn(news: News, doing: str) -> None:
            progress.update(
                task,
                visible=True,
                total=news.boots,
                completed=news.boot - (news.what != "booted"),
                boot=news.boot,
                left=f"{_left(news)}, " if news.left_s else "",
                description=doing,
            )

        yield (lambda line, warns: console.print(line, style="yellow" if warns else "dim")), turn


class _Teller:
    """Formats events as lines of text.

    :param show: prints a line, given whether it is a warning
    :param turn: updates a progress bar, which replaces the line per run; None without a bar
    :param quiet: show warnings only
    """

    def __init__(
        self, show: Show, turn: Callable[[News, str], None] | None = None, *, quiet: bool = False
    ) -> None:
        self._show = show
        self._turn = turn
        self._quiet = quiet
        self._said: set[str] = set()

    def tell(self, news: News) -> None:
        """Print one event, or show it in the bar; some events print nothing."""
        doing, is_lasting = self._describe(news)
        if not doing:
            return
        warns = news.what in {"again", "warning"} or _kind(news) == "warning"
        if self._turn is not None:
            self._turn(news, f"{news.kernel}: {doing}")
        if warns or (not self._quiet and (is_lasting or self._turn is None)):
            clock = format_clock(news.spent_s)
            self._show(f"[{clock}] boot {news.boot}/{news.boots} {news.kernel}: {doing}", warns)

    def _describe(self, news: News) -> tuple[str, bool]:
        """Return the current activity ("" for none), and whether its line stays."""
        if news.what == "recording":
            return self._describe_event(news)
        if news.what == "booted":
            left = _left(news) if news.boot < news.boots else ""
            return ", ".join(part for part in ("done", left) if part), True
        if news.what == "again":
            return f"guest failed: {clean_line(news.text)}", True
        return ("booting", False) if news.what == "booting" else (clean_line(news.text), True)

    def _describe_event(self, news: News) -> tuple[str, bool]:
        event = news.event or {}
        kind = _kind(news)
        if kind == "run":
            said = clean_line(f"run {event.get('done')}/{event.get('total')} {event.get('said')}")
            return said, "failed" in said
        # Every boot repeats the same failures of collectors, so they are printed once.
        text = clean_line(str(event.get("text", "")))
        if kind not in {"note", "warning"} or text in self._said:
            return "", False
        self._said.add(text)
        return text, True


def format_clock(seconds: float) -> str:
    """Format the time since the start.

    >>> format_clock(65), format_clock(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _kind(news: News) -> object:
    return news.event.get("event") if news.event else None


def _left(news: News) -> str:
    return f"about {format_duration(news.left_s)} left" if news.left_s is not None else ""
