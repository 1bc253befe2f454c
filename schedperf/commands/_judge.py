# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer a recorder's questions: can its output be parsed, and are there enough runs for a verdict?

The recorder (``schedperf_collectors.recorder.analysis``) asks because it contains no analysis code.
Every recording asks the first question, while it runs. It is answered without the statistics, which
take long to import.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedperf.commands._answer import Answer
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.errors import SchedperfError, describe
from schedperf.runs.output import is_silent, why_unread
from schedperf.runs.printed import printed_by
from schedperf_collectors.recorder.analysis import CONTINUE, LOST, REFUSE

if TYPE_CHECKING:
    from schedperf.commands._looks import Looks
    from schedperf.commands._retest import Retests


class Judge:
    """Answers the questions of one recording.

    A question is what :class:`schedperf_collectors.recorder.analysis.Analysis` writes, an answer
    what it reads.
    """

    def __init__(self) -> None:
        self._looks: Looks | None = None
        self._retests: Retests | None = None

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, object]:
        """Answer one question: continue, stop, lost or refuse, with a text for the user.

        If an error occurs, the answer refuses a recording that has not begun ("begin", "retest").
        Later, the answer is "lost": a recording continues without interim analyses, and a retest is
        interrupted.
        """
        failure = REFUSE if question["ask"] in {"begin", "retest"} else LOST
        try:
            answer = self._reply(question)
        except SchedperfError as error:
            answer = Answer(kind=failure, text=str(error))
        except Exception as error:  # noqa: BLE001 # the recording is worth more than its looks
            answer = Answer(kind=failure, text=describe(error))
        return answer.to_json()

    def close(self) -> None:
        """Give back what a retest that has not ended holds."""
        if self._retests is not None:
            # If it fails, the lease ends by itself.
            with contextlib.suppress(SchedperfError):
                self._retests.close()

    def _reply(self, question: Mapping[str, Any]) -> Answer:
        asked = question["ask"]
        if asked == "first":
            bundle = open_bundle(Path(question["partial"]))
            return Answer(kind=CONTINUE, text=_why_no_first_result(bundle))
        if asked in {"retest", "retested"}:
            return self._retest(question)
        return self._look(question)

    def _retest(self, question: Mapping[str, Any]) -> Answer:
        # Imported here: other recordings need no history.
        from schedperf.commands._retest import Retests  # noqa: PLC0415

        retests = self._retests = self._retests or Retests()
        return retests.begin(question) if question["ask"] == "retest" else retests.look(question)

    def _look(self, question: Mapping[str, Any]) -> Answer:
        # Imported here: it takes longer to import than many a workload runs.
        from schedperf.commands._looks import Looks  # noqa: PLC0415

        looks = self._looks = self._looks or Looks()
        if question["ask"] == "begin":
            return looks.begin(question)
        return looks.check_host(question) if question["ask"] == "host" else looks.look(question)


def _why_no_first_result(bundle: Bundle) -> str:
    """Return why a recording's first successful run has no result; "" if it has one.

    The text also states how to get a result. The recording's first successful run is the last one
    in the bundle.

    :raises BundleError: the output of the run cannot be read
    """
    [side] = name_sides([bundle])
    # Earlier runs may belong to other recordings.
    run = [run for run in bundle.runs if run.succeeded][-1]
    printed = printed_by(side, run)
    if printed.failure is not None:
        return f"no result of the first run: {printed.failure}"
    if printed.numbers:
        return ""
    if printed.problems:
        return f"no result of the first run: {printed.problems[0]}"
    why = (
        "the workload prints nothing"
        if is_silent(bundle, run)
        else why_unread(has_rules=bool(run.metric_rules))
    )
    return (
        f"{why}, so the elapsed time is the only number; for a result, record time -p CMD, or use "
        "--metric 'name[unit,higher]=REGEX'"
    )
