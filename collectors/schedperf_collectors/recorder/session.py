# SPDX-License-Identifier: GPL-2.0-or-later
"""Record one session: make the planned runs, and store each in the bundle of its side."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from typing import Callable

from schedperf_collectors.contract import (
    boot_folder,
    run_folder,
)
from schedperf_collectors.machine.errors import (
    LARGER_TMPDIR,
    NO_SPACE,
    NotComparable,
    RecordError,
    Stopped,
    explain,
)
from schedperf_collectors.machine.process import Notice, SetupFailed, last_words
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.plugin import Capture
from schedperf_collectors.recorder.analysis import CONTINUE, Analysis
from schedperf_collectors.recorder.captures import (
    CannotCapture,
    Captured,
    Chosen,
    RunCaptures,
    Staging,
    capture_after,
    capture_boot,
    captures_left_out,
    check_named,
    check_reachable,
    try_run_collectors,
)
from schedperf_collectors.recorder.documents import Documents
from schedperf_collectors.recorder.ending import Refused, finish
from schedperf_collectors.recorder.isolate import OK, SKIPPED
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.output import describe_left_out, shorten_output
from schedperf_collectors.recorder.plan import (
    CLEAN,
    Counts,
    PlannedRun,
    fill,
    fill_options,
)
from schedperf_collectors.recorder.progress import (
    Progress,
    describe_outcome,
    note_missing,
)
from schedperf_collectors.recorder.request import FinishedRun, Request, Side, of_side
from schedperf_collectors.recorder.service import ServiceFailed, Watched
from schedperf_collectors.workload import run_workload

# In shorter runs, process start and exit and the timer tick are a large part.
SHORT_S = 0.5

# The reason in the manifest of a bundle that is being written.
_KILLED = "the recorder was killed"

# Errors after which a bundle without a new run is discarded, or left as it was.
_WORTHLESS = (SetupFailed, ServiceFailed, NotComparable, CannotCapture)


class Session:
    """The runs of one recording, of one side or several.

    :param dropped: captures of collectors that are not used: ``--shareable`` leaves them out, or
        they were skipped or hung in their trial
    :param looks: interim analyses that decide whether the runs so far are enough; None for a fixed
        number of runs
    :param analysis: checks the first run; None to skip the check
    :param note_cgroup: called with the lines of each workload's /proc/PID/cgroup
    """

    def __init__(
        self,
        request: Request,
        *,
        chosen: Chosen,
        dropped: Sequence[Captured],
        sides: Sequence[Side],
        staging: Staging,
        progress: Progress,
        looks: Looks | None = None,
        note_cgroup: Notice = lambda _: None,
        analysis: Analysis | None = None,
    ) -> None:
        self._analysis = analysis
        self.request = request
        self.note_cgroup = note_cgroup
        self.chosen = chosen
        self.staging = staging
        self.progress = progress
        self._dropped = dropped
        self._looks = looks
        self._sides = {side.name: side for side in sides}
        self._documents = Documents(request, looks)
        self._succeeded = False
        self._stored = 0
        self._warned: set[str] = set()

    def execute(self, plan: Sequence[PlannedRun], prepare: Callable[[], None]) -> None:
        """Make all runs and write the bundles, also after an error.

        If a setup, a service, a named collector or the check of the other side fails before the
        first run is stored, new bundles are removed and existing ones are restored.

        :param prepare: runs the collectors of scope "boot", and stores their captures
        :raises RecordError: recording was stopped; the bundles contain every finished run
        """
        for planned in plan:
            self._sides[planned.side].planned += not planned.warmup
        stopped: RecordError | None = None
        try:
            prepare()
            self._make_all(plan)
        except RecordError as error:
            stopped = error
        except OSError as error:
            stopped = Refused(explain(error))
        if isinstance(stopped, _WORTHLESS) and not self._stored:
            for side in self._sides.values():
                side.writer.discard()
            raise stopped
        finish(self._sides.values(), self._documents, self.progress, stopped)

    def store_boot(self, side: Side, captures: Sequence[Captured]) -> None:
        """Write the captures of this boot into a side's bundle.

        Entries of the collectors that are not used, and the preliminary manifest, are written, too.

        :raises OSError: a file cannot be read or written
        :raises RecordError: a file was truncated while it was copied
        """
        folder = boot_folder(side.boot_number)
        for captured in captures:
            side.writer.add_captured(folder, captured)
        for captured in self._dropped:
            side.writer.add_captured(folder, captured)
        side.writer.commit()
        side.writer.keep_manifest(self._documents.manifest(side, _KILLED, has_ended=False))

    def _make_all(self, plan: Sequence[PlannedRun]) -> None:
        self.progress.planned(plan, is_budget=self._looks is not None)
        # Warm-up and the first block run every point once.
        first = sum(1 for planned in plan if planned.warmup or planned.block == 0)
        for order, planned in enumerate(plan):
            signals.check()
            if self.request.stop_file is not None and self.request.stop_file.exists():
                raise Stopped
            self.progress.begin(order)
            with Staging(self.staging.path) as staging:
                made = self._make(order, planned, staging)
                self.progress.end(order, made.outcome, made.discarded)
                if made.succeeded and not self._succeeded:
                    self._look_at_first(made)
                self._succeeded |= made.succeeded
                if not self._succeeded and order + 1 >= first:
                    said = "was " if made.discarded else ""
                    said += describe_outcome(made.outcome, made.discarded)
                    said += last_words(staging.path / "stderr")
                    raise RecordError(f"no run of the workload succeeded; the last run {said}")
            if self._looks is not None and self._looks.is_over(plan, order):
                for side in self._sides.values():
                    side.planned = side.made
                return

    def _look_at_first(self, run: FinishedRun) -> None:
        """Warn early about problems that would make the results of this workload useless."""
        wall_s = run.outcome.wall_s
        if wall_s is not None and wall_s < SHORT_S:
            self.progress.note(
                f"the run took {wall_s:.2g} s: runs shorter than {SHORT_S:g} s vary much, because "
                "they consist of the start and end of processes; give the workload more to do"
            )
        if self._analysis is not None:
            partial = self._sides[run.planned.side].writer.names.partial
            answer = self._analysis.ask("first", partial=str(partial))
            if answer["answer"] == CONTINUE and answer["text"]:
                self.progress.note(answer["text"])

    def _make(self, order: int, planned: PlannedRun, staging: Staging) -> FinishedRun:
        side = self._sides[planned.side]
        command = fill(self.request.template, planned.point)
        all_options = fill_options(self.request.options, planned.point)
        options = {**all_options.get("workload", {}), "command": shlex.join(command)}
        if side.setup is not None:
            options["setup"] = side.setup
        capture = Capture(staging.path, os.getpid(), options)
        collectors = self.chosen.clean if planned.kind == CLEAN else self.chosen.run
        with (
            self.watched(side, staging) as watched,
            side.environment(),
            RunCaptures(collectors, staging, all_options) as captures,
        ):

            def begin() -> None:
                captures.begin()
                watched.begin()

            try:
                outcome = run_workload(capture, self.note_cgroup, begin)
            except SetupFailed as error:
                raise SetupFailed(f"setup{of_side(side.name)} failed: {error}") from error
            watched.end()
            captured = captures.stop()
        discarded = watched.why_discard() or _why_invalid(captured)
        killed = watched.killed_warning()
        if killed is not None:
            self._warn_once(killed)
        if outcome.left_behind:
            self._warn_once(left_behind_warning(outcome.left_behind), about=f"left by {command}")
        hung = {each.collector.name: each.result for each in captured if each.result.timed_out}
        for name, result in hung.items():
            self.progress.warn(f"{name}: {result.reason}; the next runs are recorded without it")
        self.chosen = self.chosen.without(hung.keys())
        later = self._capture_after(side, staging, captured)
        self._check_space(staging, [*captured, *later])
        rules = [rule["regex"] for rule in self.request.metrics]
        left_out = shorten_output(staging.path, rules)
        if left_out:
            said = describe_left_out(left_out, has_rules=bool(rules))
            self._warn_once(said, about=str(sorted(left_out)))
        made = FinishedRun(
            order, planned, command, outcome, captured, later, staging.path, left_out, watched,
            discarded,
        )  # fmt: skip
        self._store(side, made)
        return made

    def watched(self, side: Side, staging: Staging) -> Watched:
        """Return the service of a side, not yet started, and the watches of a run."""
        return Watched(side.name, side.service, staging.folder(), self.request.options)

    def _warn_once(self, text: str, about: str | None = None) -> None:
        """Print only once a warning that applies to many runs; run.json of each has the details.

        :param about: key of equivalent warnings; None to use the text itself
        """
        if (about or text) not in self._warned:
            self._warned.add(about or text)
            self.progress.warn(text)

    def _capture_after(
        self, side: Side, staging: Staging, captured: Sequence[Captured]
    ) -> list[Captured]:
        """Run collectors of scope "after" on an instrumented run's captures.

        Return [] if no intrusive collector has captured files. Later runs do without collectors
        that were skipped or hung.
        """
        if not any(capture.collector.intrusive and capture.files for capture in captured):
            return []
        later = []
        for collector in self.chosen.after:
            folder = f"{boot_folder(side.boot_number)}/{collector.place}/"
            present = frozenset(
                entry["path"][len(folder) :]
                for entry in side.writer.entries
                if entry["path"].startswith(folder)
            )
            capture = capture_after(collector, staging, self.request.options, captured, present)
            note_missing(capture, self.progress)
            later.append(capture)
        # A collector that is skipped or hangs would take time after every run.
        dropped = {
            capture.collector.name
            for capture in later
            if capture.result.status == SKIPPED or capture.result.timed_out
        }
        self.chosen = self.chosen.without(dropped)
        return later

    @staticmethod
    def _check_space(staging: Staging, captured: Sequence[Captured]) -> None:
        if staging.is_full() or any(capture.result.out_of_space for capture in captured):
            raise Refused(f"{tempfile.gettempdir()}: {NO_SPACE}", LARGER_TMPDIR)

    def _store(self, side: Side, run: FinishedRun) -> None:
        writer = side.writer
        name = run_folder(side.boot_number, side.next_run)
        entries = [
            writer.add(f"{name}/stdout", run.folder / "stdout", "workload", run.outcome.wall_s),
            writer.add(f"{name}/stderr", run.folder / "stderr", "workload"),
        ]
        if side.service is not None:
            entries.append(writer.add(f"{name}/service.txt", run.watched.output, "service"))
        for captured in run.captured:
            entries += writer.add_captured(name, captured)
        for captured in run.later:
            writer.add_captured(boot_folder(side.boot_number), captured)
        writer.add(f"{name}/run.json", self._documents.run(side, run, entries), "record")
        writer.commit()
        side.count(run)
        self._stored += 1


def _why_invalid(captured: Sequence[Captured]) -> str | None:
    """Return a collector's reason why a run's conditions were not met; None if they were."""
    reasons = (each.result.reason for each in captured if each.result.invalidates)
    return next(reasons, None)


def left_behind_warning(names: Sequence[str]) -> str:
    """Return the warning about processes that a run left running.

    :param names: their names
    """
    shown = ", ".join(dict.fromkeys(names))
    return (
        f"the workload left {len(names)} process(es) running: {shown}; the recorder kills them "
        "after the run; make the workload wait for them, because they are not measured"
    )


def capture_boots(session: Session, pid: int, names: Sequence[str] | None = None) -> list[Captured]:
    """Run the collectors of scope "boot".

    :param pid: a process in the workload's cgroup and with its CPU mask
    :param names: names of the collectors to run; None for all
    :raises CannotCapture: a collector that the user named did not work
    :raises Interrupted: a signal came
    """
    captures = []
    for collector in session.chosen.boot:
        if names is None or collector.name in names:
            session.progress.note(f"capturing {collector.name}")
            captured = capture_boot(collector, session.staging, pid, session.request.options)
            check_named(session.chosen, captured)
            note_missing(captured, session.progress)
            captures.append(captured)
    return captures


def settle(
    request: Request, chosen: Chosen, staging: Staging, progress: Progress
) -> tuple[Chosen, tuple[Captured, ...], Counts]:
    """Try the run collectors once, remove those that would never capture, and plan how many runs.

    A collector that is skipped here would be skipped in every run, and one that hangs would use
    its time limit in every run. One that fails in another way is tried again in each run. A
    collector that stands in for another one is removed without a message if that one works.

    :return: ``chosen`` without the skipped and hung collectors; the captures of the collectors that
        are not used, which are these and those that ``--shareable`` leaves out; the numbers of runs
        (no instrumented ones if no intrusive collector remains)
    :raises CannotCapture: a collector that the user named did not work, or no run would use it
    :raises Interrupted: a signal came
    """
    options = fill_options(request.options, request.points[0])
    tried = try_run_collectors(chosen.run, staging, options) if chosen.run else []
    left_out = captures_left_out(chosen)
    dropped = tuple(
        capture for capture in tried if capture.result.status == SKIPPED or capture.result.timed_out
    )
    for capture in (*left_out, *tried):
        check_named(chosen, capture)
        note_missing(capture, progress)
    working = {each.collector.name for each in tried if each.result.status == OK}
    spare = {
        each.name
        for each in chosen.run
        if each.instead_of in working and each.name not in chosen.named
    }
    usable = chosen.without(spare | {capture.collector.name for capture in dropped})
    check_reachable(usable, request.instrumented)
    instrumented = request.at_least if request.instrumented is None else request.instrumented
    if not usable.intrusive:
        if chosen.intrusive or request.instrumented:
            progress.note(
                "no instrumented runs: none of the selected collectors is intrusive and "
                "works on this machine"
            )
        instrumented = 0
    return usable, (*left_out, *dropped), Counts(request.runs, instrumented, request.warmup)
