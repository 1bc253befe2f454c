# SPDX-License-Identifier: GPL-2.0-or-later
"""Record one session: make the planned runs, each into its side's bundle."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, NoReturn

from schedperf_collectors import __version__
from schedperf_collectors.contract import (
    BUNDLE_FORMAT,
    BUNDLE_VERSION,
    boot_folder,
    format_template,
    point_key,
    run_folder,
)
from schedperf_collectors.machine.errors import (
    LARGER_TMPDIR,
    NO_SPACE,
    Interrupted,
    NotComparable,
    RecordError,
    Stopped,
    explain,
)
from schedperf_collectors.machine.process import Notice, SetupFailed, last_words
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.plugin import Capture
from schedperf_collectors.recorder.bundle import BundleWriter, Entry, Existing
from schedperf_collectors.recorder.captures import (
    CannotCapture,
    Captured,
    Chosen,
    Options,
    RunCaptures,
    Staging,
    capture_after,
    capture_boot,
    check_named,
    check_reachable,
    try_run_collectors,
)
from schedperf_collectors.recorder.isolate import SKIPPED
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.output import describe_left_out, shorten_output
from schedperf_collectors.recorder.plan import (
    CLEAN,
    INSTRUMENTED,
    Counts,
    PlannedRun,
    Point,
    Turn,
    fill,
    fill_options,
)
from schedperf_collectors.recorder.programs import describe_programs
from schedperf_collectors.recorder.progress import (
    Progress,
    count_of,
    format_size,
    say_missing,
    say_outcome,
)
from schedperf_collectors.recorder.service import Service, ServiceFailed, Watched
from schedperf_collectors.recorder.source import Source, agree
from schedperf_collectors.workload import Outcome, run_workload, utc_now

# More rounds in one recording than anybody makes in one boot.
_ROUNDS_PER_TURN = 1000

_MINUTE_S = 60.0

# Errors after which a bundle without a new run is discarded, or left as it was.
_WORTHLESS = (SetupFailed, ServiceFailed, NotComparable, CannotCapture)


# The program `ab --kernel` of a rerun.
BY_BOOTS = "boots"


@dataclass(frozen=True)
class Rerun:
    """How to record this again.

    :param program: "record", "ab", "vm" or "boots"
    :param options: its options, without those of the workload, the runs and the files
    """

    program: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Request:
    """What to record.

    :param template: the command, with placeholders
    :param runs: clean runs of each point
    :param at_least: runs made before the first look
    :param instrumented: runs with intrusive collectors; None: as many as ``at_least``
    :param metrics: rules as in the manifest
    :param vary: paths of host.json that are meant to differ
    :param rerun: the command that was given, and its options that nothing else in the bundle shows
    :param turn: None if this recording is a session by itself
    :param factors: level of each factor of a design, e.g. {"kernel": "new"}
    :param recorded_as: the command that the user gave
    :param source: the commit of the running kernel; None if not given
    :param machine: name that the site gives to machines of this kind; None if not given
    :param load: the command that runs beside the workload, with placeholders; None without one
    """

    template: tuple[str, ...]
    points: tuple[Point, ...]
    runs: int
    at_least: int
    instrumented: int | None
    warmup: int
    seed: int
    metrics: tuple[Mapping[str, str], ...]
    vary: tuple[str, ...]
    options: Options
    rerun: Rerun
    turn: Turn | None = None
    factors: Mapping[str, str] = field(default_factory=dict)
    stop_file: Path | None = None
    recorded_as: tuple[str, ...] = ()
    source: Source | None = None
    machine: str | None = None
    load: str | None = None


@dataclass
class Side:
    """One bundle being written, and what applies while its runs are made.

    :param name: e.g. "base"; None with one side
    :param environment: a context that restores the machine after each run
    :param setup: shell command to run in the process that becomes the workload; None without one
    :param teardown: shell command that the environment runs after each run; "" for none
    :param service: program that runs during each run; None without one
    :param boot_number: number of the running boot in this bundle
    :param next_run: number of the next run of this boot
    :param planned: planned runs, warm-up excluded
    """

    name: str | None
    writer: BundleWriter
    label: str
    boot_number: int = 0
    next_run: int = 0
    existing: Existing | None = None
    setup: str | None = None
    teardown: str = ""
    service: Service | None = None
    environment: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    treatment: tuple[str, ...] = ()
    factors: Mapping[str, str] = field(default_factory=dict)
    planned: int = 0
    clean: int = 0
    instrumented: int = 0
    failed: int = 0
    discarded: int = 0

    @property
    def made(self) -> int:
        """Return the number of runs in the bundle, warm-up excluded."""
        return self.clean + self.instrumented

    def has_boot(self, boot_id: str) -> bool:
        """Return whether the bundle that runs are added to has runs of this boot."""
        return self.existing is not None and boot_id in self.existing.boots


@dataclass(frozen=True)
class _Finished:
    """One finished run, before it is in the bundle.

    :param later: captures of scope "after", made from ``captured``; they belong to the boot
    :param folder: directory of the workload's stdout and stderr
    :param left_out: bytes of stdout and stderr that are not kept
    :param watched: its service, and what watched it
    :param discarded: why it must not be used; None if it may be used
    """

    order: int
    planned: PlannedRun
    command: Sequence[str]
    outcome: Outcome
    captured: Sequence[Captured]
    later: Sequence[Captured]
    folder: Path
    left_out: Mapping[str, int]
    watched: Watched
    discarded: str | None

    @property
    def succeeded(self) -> bool:
        """Return whether its measurements are valid."""
        return self.outcome.succeeded and self.discarded is None


class Session:
    """The runs of one recording, of one side or several.

    :param dropped: run collectors that failed their trial
    :param looks: decide whether the runs so far are enough; None: fixed number of runs
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
    ) -> None:
        self.request = request
        self.note_cgroup = note_cgroup
        self.chosen = chosen
        self.staging = staging
        self.progress = progress
        self._dropped = dropped
        self._looks = looks
        self._sides = {side.name: side for side in sides}
        self._id = uuid.uuid4().hex
        self._created = utc_now()
        self._began_s = time.monotonic()
        self._programs = describe_programs(fill(request.template, request.points[0]))
        self._boot_id = read_boot_id()
        self._succeeded = False
        self._stored = 0
        self._warned: set[str] = set()

    def execute(self, plan: Sequence[PlannedRun], prepare: Callable[[], None]) -> None:
        """Make all runs and write the bundles, also after an error.

        :param prepare: runs the collectors of scope "boot"
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
            stopped = _Refused(explain(error))
        if isinstance(stopped, _WORTHLESS) and not self._stored:
            for side in self._sides.values():
                side.writer.discard()
            raise stopped
        self._finish(stopped)

    def store_boot(self, side: Side, captures: Sequence[Captured]) -> None:
        """Write the captures of this boot into a side's bundle."""
        folder = boot_folder(side.boot_number)
        for captured in captures:
            side.writer.add_captured(folder, captured)
        for captured in self._dropped:
            side.writer.add_captured(folder, captured)
        side.writer.commit()
        side.writer.keep_manifest(self._manifest(side, "the recorder was killed"))

    def _make_all(self, plan: Sequence[PlannedRun]) -> None:
        self.progress.planned(plan, is_budget=self._looks is not None)
        # Warm-up and the first block run everything once.
        first = sum(1 for planned in plan if planned.warmup or planned.block == 0)
        for order, planned in enumerate(plan):
            signals.check()
            if self.request.stop_file is not None and self.request.stop_file.exists():
                raise Stopped
            self.progress.begin(order)
            with Staging(self.staging.path) as staging:
                made = self._make(order, planned, staging)
                self._succeeded |= made.succeeded
                self.progress.end(order, made.outcome, made.discarded)
                if not self._succeeded and order + 1 >= first:
                    said = "was " if made.discarded else ""
                    said += say_outcome(made.outcome, made.discarded)
                    said += last_words(staging.path / "stderr")
                    raise RecordError(f"no run of the workload succeeded; the last run {said}")
            if self._looks is not None and self._looks.is_over(plan, order):
                side = self._sides[planned.side]
                side.planned = side.made
                return

    def _make(self, order: int, planned: PlannedRun, staging: Staging) -> _Finished:
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
        killed = watched.say_killed()
        if killed is not None:
            self._warn_once(killed)
        if outcome.left_behind:
            self._warn_once(say_left_behind(outcome.left_behind))
        hung = {each.collector.name for each in captured if each.result.timed_out}
        self.chosen = self.chosen.without(hung)
        later = self._capture_after(side, staging, captured)
        self._check_space(staging, [*captured, *later])
        rules = [rule["regex"] for rule in self.request.metrics]
        left_out = shorten_output(staging.path, rules)
        if left_out:
            said = describe_left_out(left_out, has_rules=bool(rules))
            self._warn_once(said, about=str(sorted(left_out)))
        made = _Finished(
            order, planned, command, outcome, captured, later, staging.path, left_out, watched,
            discarded,
        )  # fmt: skip
        self._store(side, made)
        return made

    def watched(self, side: Side, staging: Staging) -> Watched:
        """Return the service of a side, not yet started, and what watches a run."""
        return Watched(side.name, side.service, staging.folder(), self.request.options)

    def _warn_once(self, text: str, about: str | None = None) -> None:
        """Warn of what each run may do; run.json has it of each.

        :param about: texts about the same thing are one warning; None: equal texts
        """
        if (about or text) not in self._warned:
            self._warned.add(about or text)
            self.progress.warn(text)

    def _capture_after(
        self, side: Side, staging: Staging, captured: Sequence[Captured]
    ) -> list[Captured]:
        """Run collectors of scope "after" on an instrumented run's captures."""
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
            say_missing(capture, self.progress)
            later.append(capture)
        # A collector that does not work or hangs would cost time after every run.
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
            raise _Refused(f"{tempfile.gettempdir()}: {NO_SPACE}", LARGER_TMPDIR)

    def _store(self, side: Side, run: _Finished) -> None:
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
        writer.add(f"{name}/run.json", _to_json(self._run_json(side, run, entries)), "record")
        writer.commit()
        side.next_run += 1
        self._stored += 1
        if not run.planned.warmup:
            side.clean += run.planned.kind == CLEAN
            side.instrumented += run.planned.kind == INSTRUMENTED
            side.failed += run.discarded is None and not run.outcome.succeeded
            side.discarded += run.discarded is not None

    def _run_json(
        self, side: Side, run: _Finished, entries: Sequence[Entry]
    ) -> Mapping[str, object]:
        planned, turn = run.planned, self.request.turn
        return {
            "boot": side.boot_number,
            "run": side.next_run,
            "boot_id": self._boot_id,
            "workload": format_template(self.request.template),
            "command": run.command,
            "label": side.label,
            "setup": side.setup or None,
            "service": run.watched.describe(),
            "discarded": run.discarded,
            "load": self.request.load,
            "treatment": side.treatment,
            "tool_version": __version__,
            "point": planned.point,
            "point_key": point_key(dict(planned.point)),
            "kind": planned.kind,
            "warmup": planned.warmup,
            "block": planned.block,
            "round": _round(planned, turn),
            "side": side.name,
            "factors": self._factors(side),
            "order": run.order if turn is None else turn.first_order + run.order,
            "session": self._id if turn is None else turn.session,
            "seed": self.request.seed,
            "sequential": None if self._looks is None else self._looks.plan,
            **vars(run.outcome),
            "output_left_out": run.left_out,
            "metric": self.request.metrics,
            "captures": entries,
        }

    def _factors(self, side: Side) -> Mapping[str, str]:
        return {**self.request.factors, **side.factors}

    def _finish(self, stopped: RecordError | None) -> None:
        paths: list[str] = []
        lost: OSError | None = None
        is_empty = not any(side.made for side in self._sides.values())
        if is_empty and stopped is not None and self._would_replace():
            self._keep_old(stopped)
        for side in self._sides.values():
            try:
                paths.append(str(self._close(side, stopped)))
            except OSError as error:  # noqa: PERF203 # one lost bundle leaves the other
                lost = error
                paths.append(f"{side.writer.names.partial} (without a manifest)")
        if stopped is not None or lost is not None:
            made = sum(side.made for side in self._sides.values())
            planned = sum(side.planned for side in self._sides.values())
            cause = stopped or _Refused(explain(lost or OSError()))
            said = f"finished runs are in {', '.join(paths)}" if made else "no run was finished"
            raise RecordError(_join(_reason(cause, made, planned), cause, said), cause.exit_status)

    def _would_replace(self) -> bool:
        return any(
            side.existing is None and side.writer.names.path.exists()
            for side in self._sides.values()
        )

    def _keep_old(self, stopped: RecordError) -> NoReturn:
        """Discard bundles without a run, which would replace those of an earlier recording."""
        planned = sum(side.planned for side in self._sides.values())
        for side in self._sides.values():
            side.writer.discard()
        kept = ", ".join(str(side.writer.names.path) for side in self._sides.values())
        said = f"no run was finished, so --force does not replace {kept}"
        raise RecordError(_join(_reason(stopped, 0, planned), stopped, said), stopped.exit_status)

    def _close(self, side: Side, stopped: RecordError | None) -> Path:
        side.writer.rollback()
        reason = None if stopped is None else _reason(stopped, side.made, side.planned)
        minutes = round((time.monotonic() - self._began_s) / _MINUTE_S, 2)
        path = side.writer.finish(self._manifest(side, reason, minutes))
        if path != side.writer.names.path:
            self.progress.warn(
                f"not enough space to compress {side.writer.names.path}; the uncompressed bundle "
                f"is {path}"
            )
        counts = f"{side.clean} clean, {side.instrumented} instrumented"
        failed = f", {side.failed} failed" if side.failed else ""
        failed += f", {side.discarded} discarded" if side.discarded else ""
        size = format_size(path.stat().st_size)
        self.progress.saved(f"{path}: {count_of(side.made, 'run')} ({counts}){failed}, {size}")
        return path

    def _manifest(
        self, side: Side, reason: str | None, minutes: float | None = None
    ) -> Mapping[str, object]:
        old: Mapping[str, Any] = side.existing.manifest if side.existing else {}
        request = self.request
        points = [point_key(dict(point)) for point in request.points]
        path = side.writer.names.path
        return {
            "format": BUNDLE_FORMAT,
            "version": dict(zip(("major", "minor"), BUNDLE_VERSION)),
            "tool_version": __version__,
            "label": old.get("label", side.label),
            "created": old.get("created", self._created),
            "workload": _merge(old.get("workload"), [format_template(request.template)]),
            "points": _merge(old.get("points"), points),
            "treatment": _merge(old.get("treatment"), side.treatment),
            "factors": old.get("factors", self._factors(side)),
            "setup": old.get("setup", side.setup or None),
            "service": old.get("service", side.service.command if side.service else None),
            "load": request.load,
            "metric": _merge(old.get("metric"), request.metrics),
            "rerun": self._rerun(side, old),
            "source": agree(path, "--source", old.get("source"), request.source),
            "machine": agree(path, "--machine", old.get("machine"), request.machine),
            "recordings": self._recordings(old.get("recordings"), minutes),
            # Runs added later do not undo the looks.
            "sequential": old.get("sequential") if self._looks is None else self._looks.record,
            "complete": reason is None and old.get("complete", True) is True,
            "incomplete_reason": reason or old.get("incomplete_reason"),
            "planned_runs": side.planned + (old.get("planned_runs") or 0),
        }

    def _recordings(self, old: Any, minutes: float | None) -> list[Mapping[str, object]]:
        """Return the recordings so far and this one; the boots of one command are one."""
        before = list(old) if isinstance(old, list) else []
        this = {"command": list(self.request.recorded_as), "programs": self._programs}
        last = before[-1] if before and isinstance(before[-1], dict) else {}
        if self.request.turn is None or any(last.get(key) != this[key] for key in this):
            return [*before, {**this, "minutes": minutes}]
        spent = last.get("minutes")
        if isinstance(spent, (int, float)) and minutes is not None:
            minutes = round(spent + minutes, 2)
        return [*before[:-1], {**this, "minutes": minutes}]

    def _rerun(self, side: Side, old: Mapping[str, Any]) -> list[Mapping[str, object]]:
        """Return how each workload was recorded the first time."""
        entries = list(old.get("rerun") or [])
        workload = format_template(self.request.template)
        rerun = self.request.rerun
        is_of_boots = rerun.program == BY_BOOTS
        # A boot that was cut off before its first run ended leaves runs without this entry.
        if workload in (old.get("workload") or []) and (entries or not is_of_boots):
            return entries
        # Those of boots have the teardowns of all settings.
        teardown = ["--teardown", side.teardown] if side.teardown and not is_of_boots else []
        options = [*rerun.options, *teardown]
        return [*entries, {"workload": workload, "program": rerun.program, "options": options}]


class _Refused(RecordError):
    """An error of the system, e.g. a full disk.

    :param remedy: what to do; "" if the message about the finished runs is enough
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def _why_invalid(captured: Sequence[Captured]) -> str | None:
    """Return why a run was not made under its conditions, by a collector; None if it was."""
    reasons = (each.result.reason for each in captured if each.result.invalidates)
    return next(reasons, None)


def say_left_behind(names: Sequence[str]) -> str:
    """Return the warning about processes that a run left running."""
    shown = ", ".join(dict.fromkeys(names))
    return (
        f"the workload left {len(names)} process(es) running: {shown}; the recorder kills them "
        "after the run; make the workload wait for them, because they are not measured"
    )


def capture_boots(session: Session, pid: int, names: Sequence[str] | None = None) -> list[Captured]:
    """Run the collectors of scope "boot".

    :param pid: a process in the workload's cgroup and with its CPU mask
    :param names: only these collectors
    :raises CannotCapture: a collector that the user named did not work
    """
    captures = []
    for collector in session.chosen.boot:
        if names is None or collector.name in names:
            session.progress.note(f"capturing {collector.name}")
            captured = capture_boot(collector, session.staging, pid, session.request.options)
            check_named(session.chosen, captured)
            say_missing(captured, session.progress)
            captures.append(captured)
    return captures


def of_side(name: str | None) -> str:
    """Return " of base" for a message; "" where there is one side."""
    return "" if name is None else f" of {name}"


def read_boot_id() -> str:
    """Return the id of the running boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _reason(cause: RecordError, made: int, planned: int) -> str:
    if isinstance(cause, (Interrupted, Stopped, _Refused)):
        return f"{cause} after {made} of {count_of(planned, 'run')}"
    return f"stopped after {made} of {count_of(planned, 'run')}: {cause}"


def _join(reason: str, cause: RecordError, said: str) -> str:
    remedy = cause.remedy if isinstance(cause, _Refused) else ""
    return "; ".join(filter(None, (reason, remedy, said)))


def _round(planned: PlannedRun, turn: Turn | None) -> int | None:
    """Return the round of a run in its session.

    Runs of one side are one round per recording; several sides make rounds of their own, which get
    numbers that no other recording of the session has.
    """
    if turn is None or planned.round is None:
        return planned.round if turn is None else turn.round
    return turn.round * _ROUNDS_PER_TURN + planned.round


def _merge(old: Sequence[Any] | None, new: Sequence[Any]) -> list[Any]:
    """Return both without duplicates, in order."""
    merged: list[Any] = []
    for value in [*(old or ()), *new]:
        if value not in merged:
            merged.append(value)
    return merged


def _to_json(record: Mapping[str, object]) -> bytes:
    return (json.dumps(record, indent=1) + "\n").encode()


def settle(
    request: Request, chosen: Chosen, staging: Staging, progress: Progress
) -> tuple[Chosen, tuple[Captured, ...], Counts]:
    """Try the run collectors once; return those that work and the number of runs.

    A collector that is skipped here would be skipped in every run, and one that hangs would use
    its time limit in every run.

    :return: working collectors, dropped collectors, numbers of runs
    :raises CannotCapture: a collector that the user named did not work
    """
    options = fill_options(request.options, request.points[0])
    tried = try_run_collectors(chosen.run, staging, options) if chosen.run else []
    dropped = tuple(
        capture for capture in tried if capture.result.status == SKIPPED or capture.result.timed_out
    )
    for capture in tried:
        check_named(chosen, capture)
        say_missing(capture, progress)
    usable = chosen.without({capture.collector.name for capture in dropped})
    check_reachable(usable, request.instrumented)
    instrumented = request.at_least if request.instrumented is None else request.instrumented
    if not usable.intrusive:
        if chosen.intrusive or request.instrumented:
            progress.note(
                "no instrumented runs: none of the selected collectors is intrusive and "
                "works on this machine"
            )
        instrumented = 0
    return usable, dropped, Counts(request.runs, instrumented, request.warmup)
