# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one collector in a separate process.

A collector that raises, crashes or hangs loses only its own capture. What it leaves running in its
process group is killed; if it is killed while it runs, so are all its descendants. The child
reports through one pipe that it is ready and how it ended, one JSON object per line. Through
another pipe it receives the orders to begin and to stop.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import shutil
import signal
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from schedperf_collectors.machine.errors import OUT_OF_SPACE
from schedperf_collectors.machine.orphans import kill_descendants
from schedperf_collectors.machine.process import describe_status, has_ended, kill_group, last_words
from schedperf_collectors.machine.signals import default_signals, signals
from schedperf_collectors.plugin import (
    ATTACHED,
    PREPARED,
    BootFunction,
    Capture,
    Collector,
    InvalidRun,
    RunFunction,
    Skipped,
)

# perf starts in 0.1 s; compiling BPF programs with bcc takes 20 s in an emulated guest, four times
# that if it shares a core.
STARTUP_LIMIT_S = 180.0
# perf writes its build ids at the end: up to half a minute with large files.
FINISH_LIMIT_S = 120.0

# A result is a status and a traceback; a longer message comes from a faulty collector.
_LONGEST_ANSWER_BYTES = 1 << 20

OK = "ok"
SKIPPED = "skipped"
FAILED = "failed"
_READY = "ready"


@dataclass(frozen=True)
class Result:
    """The result of one capture.

    :param status: "ok", "skipped" or "failed"
    :param reason: one line; None if ok
    :param remedy: how to fix it; None if ok or unknown
    :param hint: if ok, what it cannot capture here and why; None if nothing is missing
    :param detail: the traceback of a failure; None if there is none
    :param out_of_space: whether it failed because the disk is full
    :param timed_out: whether it was killed because it hung
    :param invalidates: whether the run is discarded for the same reason
    :param seconds: time that its steps took, without the workload, in s; None if it was not tried
    """

    status: str
    reason: str | None = None
    remedy: str | None = None
    hint: str | None = None
    detail: str | None = None
    out_of_space: bool = False
    timed_out: bool = False
    invalidates: bool = False
    seconds: float | None = None


def missing_programs(collector: Collector) -> Result | None:
    """Return the result for a collector whose programs are not on PATH; None if all are."""
    missing = [program for program in collector.needs if shutil.which(program) is None]
    if not missing:
        return None
    reason = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on PATH"
    remedy = f"run `apt-get install {collector.package}`" if collector.package else None
    return Result(SKIPPED, reason, remedy)


class Isolated:
    """One collector in its own process.

    :param log: file for the collector's output, outside the capture's directory
    :param startup_limit_s: time limit for a run collector to prepare, and again to begin, in s
    :param finish_limit_s: time limit for other collectors, and for a stopped run collector, to end,
        in s
    :ivar result: None until it has ended; if its programs are missing, set from the beginning
    """

    def __init__(
        self,
        collector: Collector,
        capture: Capture,
        log: Path,
        *,
        startup_limit_s: float = STARTUP_LIMIT_S,
        finish_limit_s: float = FINISH_LIMIT_S,
    ) -> None:
        self._startup_limit_s = startup_limit_s
        self._finish_limit_s = finish_limit_s
        self.collector = collector
        self._capture = capture
        self._log = log
        self._pid = 0
        self._hear = self._tell = -1
        self._heard = b""
        self._seconds = 0.0
        self.result: Result | None = missing_programs(collector)

    def start(self) -> None:
        """Start it; return when it is prepared (scope "run"), or has ended.

        :raises Interrupted: a signal came; the collector was killed
        """
        if self.result is not None:
            return
        began_s = time.monotonic()
        self._fork()
        around = self.collector.scope == "run"
        self._await(began_s + (self._startup_limit_s if around else self._finish_limit_s), began_s)

    def order(self) -> None:
        """Tell a run collector to take its next step: attach, begin, or stop.

        With several collectors, tell all of them before waiting for one.
        """
        if self.result is None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._tell, b"\n")

    def await_begun(self) -> None:
        """Wait until a run collector has attached or begun, or ended early.

        :raises Interrupted: a signal came; the collector was killed
        """
        if self.result is None:
            began_s = time.monotonic()
            self._await(began_s + self._startup_limit_s, began_s)

    def await_end(self) -> Result:
        """Wait until a stopped run collector has ended; return its result.

        :raises Interrupted: a signal came; the collector was killed
        """
        if self.result is None:
            began_s = time.monotonic()
            self._await(began_s + self._finish_limit_s, began_s)
            if self.result is None:
                self._end(
                    Result(
                        FAILED,
                        "the collector process sent no result (expected status and reason); "
                        "record again",
                    )
                )
        assert self.result is not None
        return self.result

    def kill(self) -> None:
        """Kill it and everything it started, immediately."""
        if self._pid:
            # Kill the child itself first: before it has made its group, it would continue and wait
            # for orders.
            if not has_ended(self._pid):
                kill_descendants(self._pid)
            os.kill(self._pid, signal.SIGKILL)
            kill_group(self._pid)
            os.waitpid(self._pid, 0)
            os.close(self._hear)
            os.close(self._tell)
            self._pid = 0

    def _fork(self) -> None:
        self._hear, answer = os.pipe()
        order, self._tell = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _child(self.collector, self._capture, answer, order, self._log)
        os.close(answer)
        os.close(order)

    def _await(self, deadline_s: float, began_s: float) -> None:
        """Wait for the child's next message; add the time since ``began_s``.

        The collector ends with a message other than "ready", a crash, or at the time limit.
        """
        try:
            answer = self._answer(deadline_s)
        except BaseException:
            self.kill()
            raise
        self._seconds += time.monotonic() - began_s
        if answer.get("status") != _READY:
            self._end(_read_result(answer))

    def _answer(self, deadline_s: float) -> Mapping[str, Any]:
        listen: tuple[int, ...] = (self._hear,)
        while b"\n" not in self._heard:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return {
                    "status": FAILED,
                    "reason": "the collector hung and was killed",
                    "timed_out": True,
                }
            # Checked before the pipe is read, so that the pipe has all output of an ended process.
            # End of file is not enough, because a forked child may keep the pipe open.
            ended = has_ended(self._pid)
            ready = signals.wait(0 if ended else left_s, *listen)
            signals.check()
            heard = os.read(self._hear, 65536) if ready else b""
            self._heard += heard
            if ready and not heard:
                listen = ()
            elif ended and not ready:
                return {"status": FAILED, "reason": self._describe_crash()}
            elif len(self._heard) > _LONGEST_ANSWER_BYTES:
                return {
                    "status": FAILED,
                    "reason": f"the collector's result exceeds {_LONGEST_ANSWER_BYTES} bytes",
                }
        line, _, self._heard = self._heard.partition(b"\n")
        return cast("Mapping[str, Any]", json.loads(line))

    def _describe_crash(self) -> str:
        status = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        assert status is not None
        code = status.si_status
        raw = code << 8 if status.si_code == os.CLD_EXITED else code
        return f"the collector crashed: {describe_status(raw)}{last_words(self._log)}"

    def _end(self, result: Result) -> None:
        self.kill()
        self.result = Result(**{**vars(result), "seconds": self._seconds})


def _read_result(answer: Mapping[str, Any]) -> Result:
    return Result(
        status=answer["status"],
        reason=answer.get("reason"),
        remedy=answer.get("remedy"),
        hint=answer.get("hint"),
        detail=answer.get("detail"),
        out_of_space=bool(answer.get("out_of_space")),
        timed_out=bool(answer.get("timed_out")),
        invalidates=bool(answer.get("invalidates")),
    )


def _child(collector: Collector, capture: Capture, answer: int, order: int, log: Path) -> NoReturn:
    """Run the collector in the forked child; never return."""
    try:
        _detach(log, keep=(answer, order))

        def say(words: Mapping[str, object]) -> None:
            os.write(answer, json.dumps(words).encode() + b"\n")

        say(_outcome(collector, capture, say, order))
    finally:
        os._exit(0)


def _detach(log: Path, keep: tuple[int, ...]) -> None:
    # Its own session keeps the terminal's Ctrl-C away and makes the group that is killed.
    os.setsid()
    default_signals()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable(2)
    # Close the bundle and the other collectors' pipes: holding their pipes open would hide the end
    # of the recorder from them.
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 # bare names are meant
        if descriptor not in (0, 1, 2, *keep):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _outcome(collector: Collector, capture: Capture, say: Any, order: int) -> Mapping[str, object]:
    hint = None
    try:
        if collector.scope == "run":
            steps = iter(cast("RunFunction", collector.function)(capture))
            hint = _step_through(steps, say, order, attaches=collector.attaches)
        else:
            cast("BootFunction", collector.function)(capture)
    except Skipped as skipped:
        return {"status": SKIPPED, "reason": skipped.reason, "remedy": skipped.remedy or None}
    except InvalidRun as invalid:
        return {
            "status": FAILED,
            "reason": invalid.reason,
            "remedy": invalid.remedy or None,
            "invalidates": True,
        }
    except BaseException as error:  # noqa: BLE001 # the one place where collectors are isolated
        return {
            "status": FAILED,
            "reason": _one_line(error),
            "detail": traceback.format_exc(),
            "out_of_space": isinstance(error, OSError) and error.errno in OUT_OF_SPACE,
        }
    return {"status": OK, "hint": " ".join(str(hint or "").split()) or None}


def _step_through(steps: Iterator[object], say: Any, order: int, *, attaches: bool) -> str | None:
    """Run a run collector step by step; return the generator's return value: its hint, or None.

    :raises RuntimeError: the number of its yields is wrong, or the recorder has ended
    """
    try:
        takes_more_steps = next(steps) == PREPARED
    except StopIteration:
        raise RuntimeError("the collector returned without a `yield`") from None
    _await_order(say, order)
    if attaches:
        if not takes_more_steps or next(steps, None) != ATTACHED:
            raise RuntimeError("the collector did not yield PREPARED and ATTACHED")
        _await_order(say, order)
    if takes_more_steps:
        try:
            next(steps)
        except StopIteration:
            raise RuntimeError("the collector returned before it started to capture") from None
    # Raises when the reader has closed the pipe, which ends the collector.
    say({"status": _READY})
    # From here on, end of file is an order to stop as well.
    os.read(order, 1)
    try:
        next(steps)
    except StopIteration as end:
        return cast("str | None", end.value)
    times = "three times" if attaches else "twice" if takes_more_steps else "once"
    raise RuntimeError(f"the collector executed `yield` more than {times}")


def _await_order(say: Any, order: int) -> None:
    """Report that a step is done, and wait until the next one may begin.

    :raises RuntimeError: the recorder has ended
    """
    say({"status": _READY})
    # End of file: the recorder was killed, so there is nothing to begin, although its other pipe
    # may still be open for a moment.
    if not os.read(order, 1):
        raise RuntimeError("the recorder has exited")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
