# SPDX-License-Identifier: GPL-2.0-or-later
"""Ask the analysis about the bundle that is being written.

The recorder is packed without the analysis, so its parent process answers: the recorder writes a
question and waits for the answer, each one JSON object per line::

    {"ask": "look", "runs": 4}
    {"answer": "continue", "text": "open: rate at groups=4", "warnings": []}

Other answers: ``stop``; ``lost``: no further answer is possible; ``refuse``: only before the first
run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.progress import Progress

CONTINUE, STOP, LOST, REFUSE = "continue", "stop", "lost", "refuse"

# An answer is one or two sentences.
LONGEST_ANSWER_BYTES = 64 << 10
_NO_ANSWER = "the comparison process has exited"


class Analysis:
    """A connection to the analysis in the parent process.

    :param descriptors: file descriptors to read answers from and write questions to
    """

    def __init__(self, descriptors: tuple[int, int], progress: Progress) -> None:
        self._read, self._write = descriptors
        self._progress = progress
        for descriptor in descriptors:
            # A workload left running must not keep the other end of the pipe waiting.
            os.set_inheritable(descriptor, False)  # noqa: FBT003 # its signature

    def ask(self, what: str, **values: object) -> Mapping[str, Any]:
        """Send a question, wait for the answer, and print its warnings.

        :param what: the question: "begin", "host", "first" or "look"
        :param values: further keys of the question
        :return: the answer, with "answer" and "text"; LOST if the parent process has exited, or
            its answer is invalid
        :raises Interrupted: a signal arrived while it waited
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
