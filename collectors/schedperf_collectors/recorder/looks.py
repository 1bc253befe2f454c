# SPDX-License-Identifier: GPL-2.0-or-later
"""End a recording when every result is decided: ``--until-decided``.

After each block of runs, the recorder queries the analysis in its parent process, which is a
*look*. `record` compares its side with an existing bundle, `ab` compares its two sides with each
other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from schedperf_collectors.machine.errors import NotComparable, RecordError
from schedperf_collectors.recorder.analysis import CONTINUE, LOST, REFUSE, STOP, Analysis
from schedperf_collectors.recorder.plan import PlannedRun
from schedperf_collectors.recorder.progress import Progress


class Looks:
    """The interim analyses ("looks") of one recording.

    :param against: the bundle of the other side; None if both sides are recorded, in pairs
    :param first: runs of each point before the first look
    :ivar max_runs: maximum number of runs of each point
    """

    def __init__(
        self,
        analysis: Analysis,
        against: Path | None,
        first: int,
        max_runs: int,
        progress: Progress,
    ) -> None:
        self._analysis = analysis
        self._against = against
        self._units = "pairs" if against is None else "runs"
        self._sides: Mapping[str, object] = {}
        self._first = first
        self.max_runs = max_runs
        self._progress = progress
        self._digest: str | None = None
        self._taken: list[int] = []
        self._stopped: str | None = None
        self._is_lost = False

    @property
    def plan(self) -> Mapping[str, object]:
        """Return the plan, for each run.json.

        ``against`` is a digest of the other side's bundle; None if both sides are recorded.
        """
        return {"against": self._digest, "first": self._first, "max_runs": self.max_runs}

    @property
    def record(self) -> Mapping[str, object]:
        """Return the plan and its outcome, for the manifest."""
        return {**self.plan, "looks": self._taken, "stopped": self._stopped}

    def begin(
        self, *, workload: str, points: Sequence[str], metric: Sequence[Mapping[str, str]]
    ) -> None:
        """Request a check of the other side's bundle.

        :param workload: the command, with placeholders
        :param points: canonical texts of the points
        :param metric: rules as in the manifest
        :raises RecordError: it cannot be compared with this workload, or the analysis does not
            answer
        :raises Interrupted: a signal came
        """
        answer = self._analysis.ask(
            "begin",
            against=str(self._against),
            workload=workload,
            points=points,
            metric=metric,
            max_runs=self.max_runs,
        )
        if answer["answer"] != CONTINUE:
            raise RecordError(answer["text"])
        self._digest = answer.get("digest")

    def between(self, partials: Sequence[Path]) -> None:
        """Let the looks compare two bundles that are being written with each other.

        :param partials: their paths, base first
        """
        self._sides = {"sides": [str(path) for path in partials]}

    def check_host(self, partial: Path, vary: Sequence[str], boot_id: str) -> None:
        """Request a comparison of this machine with that of the other side.

        If the analysis does not answer, warn; all runs are then made.

        :param partial: the bundle being written, which already has its host.json
        :param vary: paths of host.json that are meant to differ
        :param boot_id: of the running boot
        :raises NotComparable: no verdict will be possible
        :raises Interrupted: a signal came
        """
        answer = self._analysis.ask("host", partial=str(partial), vary=vary, boot_id=boot_id)
        if answer["answer"] == REFUSE:
            raise NotComparable(answer["text"])
        if answer["answer"] == LOST:
            self._lose(answer["text"])

    def is_over(self, plan: Sequence[PlannedRun], order: int) -> bool:
        """Return whether the analysis ends the recording after this run.

        It is queried after each block, from the first look to ``max_runs``. If it does not answer,
        warn and return False, so that all runs are made.

        :param order: index of the run in the plan
        :raises Interrupted: a signal came
        """
        made = plan[order].block + 1
        ends_block = order + 1 == len(plan) or plan[order + 1].block == made
        is_due = ends_block and self._first <= made <= self.max_runs and not plan[order].warmup
        if not is_due or self._is_lost:
            return False
        answer = self._analysis.ask("look", runs=made, **self._sides)
        if answer["answer"] == LOST:
            self._lose(answer["text"])
            return False
        self._taken.append(made)
        text = answer["text"]
        if answer["answer"] == STOP:
            self._stopped = text
        elif made == self.max_runs:
            self._stopped = text = f"all {made} {self._units} were made; {text}"
        self._progress.note(f"interim test after {made} {self._units}: {text}")
        return bool(answer["answer"] == STOP)

    def _lose(self, text: str) -> None:
        self._is_lost = True
        self._stopped = f"no further interim tests: {text}"
        self._progress.warn(f"{self._stopped}; recording all {self.max_runs} {self._units}")
