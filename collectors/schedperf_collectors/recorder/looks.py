# SPDX-License-Identifier: GPL-2.0-or-later
"""End a recording as soon as every result is decided: ``--until-decided``.

The recorder is packed without the analysis, so its parent process compares: after each block of
runs the recorder writes a question and waits for the answer, each one JSON object per line::

    {"ask": "look", "runs": 4}
    {"answer": "continue", "text": "open: rate at groups=4", "warnings": []}

Other answers: ``stop``; ``lost``: no further look is possible; ``refuse``: only before the first
run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf_collectors.machine.errors import NotComparable, RecordError
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.plan import PlannedRun
from schedperf_collectors.recorder.progress import Progress

CONTINUE, STOP, LOST, REFUSE = "continue", "stop", "lost", "refuse"

# An answer is one or two sentences.
LONGEST_ANSWER_BYTES = 64 << 10
_NO_ANSWER = "the comparison process has exited"


class Looks:
    """The looks of one recording.

    :param descriptors: file descriptors to read answers from and write questions to
    :param against: the bundle of the other side
    :param first: runs of each point before the first look
    :ivar max_runs: most runs of each point
    """

    def __init__(
        self,
        descriptors: tuple[int, int],
        against: Path,
        first: int,
        max_runs: int,
        progress: Progress,
    ) -> None:
        self._read, self._write = descriptors
        self._against = against
        self._first = first
        self.max_runs = max_runs
        self._progress = progress
        self._digest: str | None = None
        self._taken: list[int] = []
        self._stopped: str | None = None
        self._is_lost = False
        for descriptor in descriptors:
            # A workload left running must not keep the other end waiting.
            os.set_inheritable(descriptor, False)  # noqa: FBT003 # its signature

    @property
    def plan(self) -> Mapping[str, object]:
        """Return the plan, for each run.json."""
        return {"against": self._digest, "first": self._first, "max_runs": self.max_runs}

    @property
    def record(self) -> Mapping[str, object]:
        """Return the plan and its outcome, for the manifest."""
        return {**self.plan, "looks": self._taken, "stopped": self._stopped}

    def begin(
        self, *, workload: str, points: Sequence[str], metric: Sequence[Mapping[str, str]]
    ) -> None:
        """Ask to check the other side's bundle.

        :raises RecordError: it cannot be compared with this workload
        """
        answer = self._ask(
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

    def check_host(self, partial: Path, vary: Sequence[str]) -> None:
        """Ask to compare this machine with that of the other side.

        :param partial: the bundle being written, which already has its host.json
        :param vary: paths of host.json that are meant to differ
        :raises NotComparable: no verdict will be possible
        """
        answer = self._ask("host", partial=str(partial), vary=vary)
        if answer["answer"] == REFUSE:
            raise NotComparable(answer["text"])
        if answer["answer"] == LOST:
            self._lose(answer["text"])

    def is_over(self, plan: Sequence[PlannedRun], order: int) -> bool:
        """Return whether the recording ends after this run; look if the run ends a block."""
        made = plan[order].block + 1
        ends_block = order + 1 == len(plan) or plan[order + 1].block == made
        is_due = ends_block and self._first <= made <= self.max_runs and not plan[order].warmup
        if not is_due or self._is_lost:
            return False
        answer = self._ask("look", runs=made)
        if answer["answer"] == LOST:
            self._lose(answer["text"])
            return False
        self._taken.append(made)
        text = answer["text"]
        if answer["answer"] == STOP:
            self._stopped = text
        elif made == self.max_runs:
            self._stopped = text = f"all {made} runs were made; {text}"
        self._progress.note(f"interim test after {made} runs: {text}")
        return bool(answer["answer"] == STOP)

    def _lose(self, text: str) -> None:
        self._is_lost = True
        self._stopped = f"no further interim tests: {text}"
        self._progress.warn(f"{self._stopped}; recording all {self.max_runs} runs")

    def _ask(self, what: str, **values: object) -> Mapping[str, Any]:
        """Send a question and wait for the answer.

        :raises Interrupted: a signal came while it waited
        """
        try:
            os.write(self._write, json.dumps({"ask": what, **values}).encode() + b"\n")
            answer = json.loads(self._read_line())
            for warning in answer["warnings"]:
                self._progress.warn(str(warning))
            return {**answer, "answer": str(answer["answer"]), "text": str(answer["text"])}
        except (OSError, ValueError, TypeError, KeyError):
            return {"answer": LOST, "text": _NO_ANSWER}

    def _read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and len(line) < LONGEST_ANSWER_BYTES:
            ready = signals.wait(None, self._read)
            signals.check()
            if ready:
                data = os.read(self._read, LONGEST_ANSWER_BYTES)
                if not data:
                    raise BrokenPipeError
                line += data
        return line
