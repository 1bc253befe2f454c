# SPDX-License-Identifier: GPL-2.0-or-later
"""Show a search on the terminal: what is being built and booted, and what is known."""

import shlex
import sys

import click

from schedperf.commands._bisect_text import (
    describe_left,
    describe_time,
    format_document,
    format_next,
    format_state,
)
from schedperf.inputs.git import Commit
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.judge import Range
from schedperf.lab.bisect.store import (
    AnyEvent,
    Booting,
    Building,
    Progress,
    Proving,
    Skipped,
    Store,
)
from schedperf.model.text import clean_line, cut
from schedperf_reports.words.quantities import format_change

# 75 is EX_TEMPFAIL of sysexits.h: run it again.
EXIT_STATUSES = {"named": 0, "no-change": 1, "withheld": 3, "more-boots": 75}
_LONGEST_SUBJECT = 40
# Below this chance, a warning says that no commit may be named.
_LIKELY = 0.5


class Screen:
    """Prints on stderr what happens in a search, and asks whether to go on.

    :param quiet: print warnings and the question only
    :param yes: do not ask
    """

    def __init__(self, span: Range, *, quiet: bool, yes: bool) -> None:
        self._commits = {commit.hash: commit for commit in span.commits}
        self._quiet = quiet
        self._yes = yes

    def tell(self, event: AnyEvent) -> None:
        """Print a line about an event."""
        if isinstance(event, Skipped):
            self._print(f"{self._name(event.commit)} cannot be tested: {event.reason}")
        elif self._quiet:
            return
        elif isinstance(event, Building):
            self._print(f"building {self._name(event.commit)}")
        elif isinstance(event, Booting):
            times = f"{event.boots} boot{'s' * (event.boots > 1)}"
            self._print(f"{times} of {self._name(event.commit)}")
        elif isinstance(event, Proving):
            self._print(f"proving {self._name(event.commit)}: {event.doing}")

    def show(self, document: BisectDocument, progress: Progress) -> None:
        """Print what the boots show so far: all of it on a terminal, else one line."""
        if self._quiet:
            return
        if sys.stderr.isatty():
            text = format_document(document)
            click.echo(f"\n{text}{format_state(document, progress, is_running=True)}", err=True)
        else:
            self._print(format_next(document))

    def confirm(self, document: BisectDocument, progress: Progress) -> bool:
        """Print what the search will cost, and ask whether to begin it."""
        assert document.next is not None
        assert document.change is not None
        left = document.next.left
        if left is not None:
            change = format_change(document.change.ratio)
            time = describe_time(left, progress)
            self._print(
                f"good and bad differ by {change}; the search: {describe_left(left)}; {time}"
            )
            if left.named < _LIKELY:
                self._print(
                    f"boots of one kernel vary too much for a search of {document.most_boots} "
                    "boots; give more --boots, or record longer runs"
                )
        if self._yes:
            return True
        if not sys.stdin.isatty():
            self._print("not confirmed; add --yes, and repeat the command to search")
            return False
        return click.confirm("Search?", default=True, err=True)

    def print_commands(self, document: BisectDocument, store: Store) -> None:
        """Print how to compare each named commit with its parent."""
        for named in document.named:
            paths = (store.bundle(each.hash) for each in (named.parent, named.commits[-1]))
            click.echo(f"schedperf compare {shlex.join(map(str, paths))}")

    def _print(self, line: str) -> None:
        click.echo(f"schedperf: {clean_line(line)}", err=True)

    def _name(self, commit: str) -> str:
        known = self._commits.get(commit, Commit(hash=commit, subject=""))
        return f'{known.short} ("{cut(known.subject, _LONGEST_SUBJECT)}")'
