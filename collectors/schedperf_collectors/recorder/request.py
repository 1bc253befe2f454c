# SPDX-License-Identifier: GPL-2.0-or-later
"""Define what a session records: the request of the user, the sides, and the finished runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from schedperf_collectors.contract import boot_folder
from schedperf_collectors.recorder.bundle import BundleWriter, Existing
from schedperf_collectors.recorder.captures import Captured, Options
from schedperf_collectors.recorder.plan import CLEAN, INSTRUMENTED, PlannedRun, Point, Turn
from schedperf_collectors.recorder.service import Service, Watched
from schedperf_collectors.recorder.source import Source
from schedperf_collectors.workload import Outcome


@dataclass(frozen=True)
class Request:
    """What to record.

    :param template: the command, with placeholders
    :param points: points at which the command runs, at least one
    :param runs: clean runs of each point; with interim analyses, the maximum
    :param at_least: clean runs of each point before the first interim analysis; without interim
        analyses, the same as ``runs``
    :param instrumented: runs of each point with intrusive collectors; None for as many as
        ``at_least``
    :param warmup: runs of each point before all others that are not used
    :param seed: seed of the run order
    :param metrics: rules as in the manifest
    :param vary: paths of host.json that are meant to differ
    :param options: options of collectors, by name
    :param turn: position in a session of several recordings; None if this recording is a session by
        itself
    :param factors: level of each factor of a design, e.g. {"kernel": "new"}
    :param stop_file: the recording ends before the next run if this file exists; None for no file
    :param recorded_as: the command that the user gave
    :param source: the commit of the running kernel; None if not given
    :param machine: name that the site gives to machines of this kind; None if not given
    :param facts: what the user states about the recording, e.g. {"rack": "b12"}
    :param load: the command that runs beside the workload, with placeholders; None without one
    :param server: server of the workload whose tasks are accounted for; None without one
    :param shareable: the bundle has no kernel addresses, and all users may read it
    :param retest: plan of the retest that the boot belongs to; None for another recording
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
    turn: Turn | None = None
    factors: Mapping[str, str] = field(default_factory=dict)
    stop_file: Path | None = None
    recorded_as: tuple[str, ...] = ()
    source: Source | None = None
    machine: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    load: str | None = None
    server: str | None = None
    shareable: bool = False
    retest: Mapping[str, Any] | None = None


@dataclass
class Side:
    """One bundle being written, and the conditions of its runs.

    :param name: e.g. "base"; None with one side
    :param boot_number: number of the running boot in this bundle
    :param next_run: number of the next run of this boot
    :param existing: the bundle to which runs are added; None for a new one
    :param setup: shell command to run in the process that becomes the workload; None without one
    :param teardown: shell command that the environment runs after each run; "" for none
    :param service: program that runs during each run; None without one
    :param environment: returns a context that restores the machine after a run
    :param treatment: paths of host.json that are meant to differ
    :param factors: level of each factor that differs between the sides
    :param planned: planned runs of this session, warm-up excluded
    :param clean: stored clean runs of this session, warm-up excluded
    :param instrumented: stored instrumented runs of this session, warm-up excluded
    :param failed: how many of these runs failed
    :param discarded: how many of these runs must not be used
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
        """Return the number of runs that this session has stored, warm-up excluded."""
        return self.clean + self.instrumented

    def count(self, run: FinishedRun) -> None:
        """Count a run that was stored; for a warm-up run, only its number is used up."""
        self.next_run += 1
        if not run.planned.warmup:
            self.clean += run.planned.kind == CLEAN
            self.instrumented += run.planned.kind == INSTRUMENTED
            self.failed += run.discarded is None and not run.outcome.succeeded
            self.discarded += run.discarded is not None

    def captured(self, boot_id: str) -> frozenset[str]:
        """Return the collectors whose captures of this boot the bundle to add to has already."""
        if self.existing is None or boot_id not in self.existing.boots:
            return frozenset()
        folder = boot_folder(self.existing.boots[boot_id])
        runs = f"{folder}/runs/"
        entries = self.existing.manifest["captures"]
        paths = ((str(each.get("collector")), str(each.get("path"))) for each in entries)
        return frozenset(
            name
            for name, path in paths
            if f"{path}/".startswith(f"{folder}/") and not path.startswith(runs)
        )


@dataclass(frozen=True)
class FinishedRun:
    """One finished run that is not yet in the bundle.

    :param order: its index in the plan
    :param captured: captures of scope "run"
    :param later: captures of scope "after", made from ``captured``; they belong to the boot
    :param folder: directory of the workload's stdout and stderr
    :param left_out: bytes of stdout and stderr that are not stored, by name
    :param watched: its service and watches
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


def of_side(name: str | None) -> str:
    """Return " of base" for a message; "" if there is only one side."""
    return "" if name is None else f" of {name}"
