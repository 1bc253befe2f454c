# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the JSON documents of a bundle: run.json of each run, and the manifest."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from schedperf_collectors import __version__
from schedperf_collectors.contract import (
    BUNDLE_FORMAT,
    BUNDLE_VERSION,
    format_template,
    point_key,
    read_boot_id,
)
from schedperf_collectors.recorder.bundle import Entry
from schedperf_collectors.recorder.looks import Looks
from schedperf_collectors.recorder.plan import PlannedRun, Turn, fill
from schedperf_collectors.recorder.programs import describe_programs
from schedperf_collectors.recorder.request import FinishedRun, Request, Side
from schedperf_collectors.recorder.source import agree, agree_facts
from schedperf_collectors.workload import utc_now

# More rounds in one recording than fit into one boot.
_ROUNDS_PER_TURN = 1000

_MINUTE_S = 60.0


class Documents:
    """The JSON documents that describe one session: run.json of each run, and the manifests.

    :param looks: interim analyses; None for a fixed number of runs
    """

    def __init__(self, request: Request, looks: Looks | None) -> None:
        self._request = request
        self._looks = looks
        self._id = uuid.uuid4().hex
        self._created = utc_now()
        self._began_s = time.monotonic()
        self._programs = describe_programs(fill(request.template, request.points[0]))
        self._boot_id = read_boot_id()

    def run(self, side: Side, run: FinishedRun, entries: Sequence[Entry]) -> bytes:
        """Return run.json of the next run of a side.

        :param entries: entries of its files, and of its captures without files
        """
        planned, turn = run.planned, self._request.turn
        record = {
            "boot": side.boot_number,
            "run": side.next_run,
            "boot_id": self._boot_id,
            "workload": format_template(self._request.template),
            "command": run.command,
            "label": side.label,
            "setup": side.setup or None,
            "service": run.watched.describe(),
            "discarded": run.discarded,
            "load": self._request.load,
            "server": self._request.server,
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
            "seed": self._request.seed,
            "sequential": None if self._looks is None else self._looks.plan,
            "retest": self._request.retest,
            **vars(run.outcome),
            "output_left_out": run.left_out,
            "metric": self._request.metrics,
            "captures": entries,
        }
        return (json.dumps(record, indent=1) + "\n").encode()

    def manifest(
        self, side: Side, reason: str | None, *, has_ended: bool = True
    ) -> Mapping[str, object]:
        """Return the manifest of a side's bundle, which continues the one that it had before.

        :param reason: why planned runs are missing; None if none is
        :param has_ended: whether the recording has ended, so that its duration is known
        :raises RecordError: the existing bundle declares another source or machine
        """
        minutes = round((time.monotonic() - self._began_s) / _MINUTE_S, 2) if has_ended else None
        old: Mapping[str, Any] = side.existing.manifest if side.existing else {}
        request = self._request
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
            "server": request.server,
            "metric": _merge(old.get("metric"), request.metrics),
            "source": agree(path, "--source", old.get("source"), request.source),
            "machine": agree(path, "--machine", old.get("machine"), request.machine),
            "facts": agree_facts(path, old.get("facts"), request.facts),
            "recordings": self._recordings(old.get("recordings"), minutes),
            # Runs that are added later do not undo the interim analyses.
            "sequential": old.get("sequential") if self._looks is None else self._looks.record,
            "retest": old.get("retest", request.retest),
            "complete": reason is None and old.get("complete", True) is True,
            "incomplete_reason": reason or old.get("incomplete_reason"),
            "planned_runs": side.planned + (old.get("planned_runs") or 0),
        }

    def _recordings(self, old: Any, minutes: float | None) -> list[Mapping[str, object]]:
        """Return earlier recordings and this one; the boots of one command are one recording.

        :param old: the list in the bundle's manifest; another value for none
        :param minutes: duration of this recording; None if it has not ended
        """
        before = list(old) if isinstance(old, list) else []
        this = {"command": list(self._request.recorded_as), "programs": self._programs}
        same = [i for i, each in enumerate(before) if _is_same(each, this)]
        if self._request.turn is None or not same:
            return [*before, {**this, "minutes": minutes}]
        spent = before[same[-1]].get("minutes")
        if isinstance(spent, (int, float)) and minutes is not None:
            minutes = round(spent + minutes, 2)
        # Each boot records the jobs of a file in turn.
        before[same[-1]] = {**this, "minutes": minutes}
        return before

    def _factors(self, side: Side) -> Mapping[str, str]:
        return {**self._request.factors, **side.factors}


def _is_same(recording: object, this: Mapping[str, object]) -> bool:
    """Return whether an earlier recording has this command and these programs."""
    return isinstance(recording, dict) and all(recording.get(key) == this[key] for key in this)


def _round(planned: PlannedRun, turn: Turn | None) -> int | None:
    """Return the number of a run's round in its session; None for a single recording of one side.

    In a session of several recordings, a recording of one side is a single round. A recording of
    several sides has its own rounds, whose numbers are unique in the session.

    :param turn: position of this recording in its session; None if it is the only one
    """
    if turn is None or planned.round is None:
        return planned.round if turn is None else turn.round
    return turn.round * _ROUNDS_PER_TURN + planned.round


def _merge(old: Sequence[Any] | None, new: Sequence[Any]) -> list[Any]:
    """Return the union of both without duplicates, in order."""
    merged: list[Any] = []
    for value in [*(old or ()), *new]:
        if value not in merged:
            merged.append(value)
    return merged
