# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a recording over several boots step by step; each step is written before it is executed.

A step can be repeated after a crash of this program, of the target, or both. Decisions use boot
ids and the monotonic clock, never the time of day.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable, Union

from schedperf_collectors.boots.agent import HOLD
from schedperf_collectors.boots.call import Called
from schedperf_collectors.boots.examine import UnreadEntry, describe_failure, parse_armed
from schedperf_collectors.boots.plan import MOST_FAILURES, most_boots
from schedperf_collectors.boots.retest import Judge
from schedperf_collectors.boots.scripts import COLD
from schedperf_collectors.boots.shell import Unreachable
from schedperf_collectors.boots.state import (
    ARM,
    BOOT,
    CHOOSE,
    FETCH,
    HOME,
    OVER,
    RECORD,
    SEAL,
    KernelState,
    State,
    Store,
)
from schedperf_collectors.boots.target import Here, There
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.kernel_files import Identity
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.analysis import CONTINUE, LOST, REFUSE
from schedperf_collectors.recorder.bundle import PRIVATE_MODE, SHAREABLE_MODE
from schedperf_collectors.recorder.plan import MOST_RUNS

Target = Union[Here, There]
Say = Callable[[str], None]

# How the user asks to stop: after the current run, or at once.
AFTER_RUN = "after the running run"
NOW = "now"
# The reason that is stored if the user asked to stop.
STOPPED = "stopped by the user"

# Exit status if a kernel does not boot and was given up.
DOES_NOT_BOOT = 3

_POLL_S = 2.0
# The end of a recording is noticed with a delay of at most this fraction of its duration, and of at
# most this time.
_LATE_PART = 0.25
_LATE_S = 30.0
# A target that is recording is expected to answer, but its network may be down for a while.
_REACH_S = 600.0
_TEMPORARY = 75
_TEMPORARY_TRIES = 10
_REBOOT_LIMIT_S = 20.0
_IDLE = 0.1
_BY_SIGNAL = 128
_CONSOLE_LINES = 3


def pause_s(running_s: float) -> float:
    """Return the time until the next poll of a machine that is recording, in s.

    Each poll is a login and a Python process on the machine, which disturb its runs.

    :param running_s: how long it has been recording, in s
    """
    return min(running_s * _LATE_PART, _LATE_S)


class Rebooting(Exception):
    """This machine is rebooting; its systemd unit will continue."""


class Engine:
    """Runs one recording.

    :param store: the file with its state
    :param say: called with one line per transition
    :param asked_to_stop: returns how the user asked to stop, NOW or AFTER_RUN; None if the user did
        not
    :param at_end: called at the end if this machine was the target, before its last reboot
    :param judge: decides when the boots of a retest suffice
    :raises RecordError: the state cannot be read
    """

    def __init__(
        self,
        store: Store,
        target: Target,
        say: Say,
        asked_to_stop: Callable[[], str | None],
        at_end: Callable[[], None] = lambda: None,
        *,
        judge: Judge | None = None,
    ) -> None:
        self._store = store
        self.state = store.read()
        self._target = target
        self._say = say
        self._asked_to_stop = asked_to_stop
        self._at_end = at_end
        self._judge = judge or Judge(None)
        self._settled_by: float | None = None
        # Boot id of the boot that has finished; its later jobs do not wait for an idle machine.
        self._settled_in: str | None = None
        self._running_since: float | None = None
        # When this program began the running boot; None if another one did.
        self._began: float | None = None
        self._finishing: str | None = None
        self._is_in_old_boot = False

    def run(self) -> None:
        """Run all steps to the end.

        :raises Rebooting: this machine is rebooting
        :raises RecordError: it cannot continue now; the state is kept
        :raises Interrupted: a signal requests termination; the state is kept
        """
        while self.state.phase != OVER:
            self.step()

    def step(self) -> None:
        """Run the next step, or end the recording if the user asked to stop.

        The errors are those of :meth:`run`.
        """
        signals.check()
        state = self.state
        if state.phase not in {FETCH, SEAL, HOME} and state.ended is None and self._is_to_end():
            self._end(STOPPED, 1)
            return
        steps = {
            CHOOSE: self._choose,
            ARM: self._arm,
            BOOT: self._boot,
            RECORD: self._record,
            FETCH: self._fetch,
            SEAL: self._seal,
            HOME: self._go_home,
        }
        try:
            steps[state.phase]()
        except UnreadEntry as error:
            # An entry that may still be set could boot a kernel again and again.
            self._end(str(error), 1)

    def _is_to_end(self) -> bool:
        """Return whether the user asked to stop and no run must be awaited."""
        asked = self._asked_to_stop()
        return asked == NOW or (asked is not None and not self._finishes_run())

    def _finishes_run(self) -> bool:
        """Let this boot's recording end after its current run.

        Return whether it is running, or has ended with exit status 0.
        """
        if self.state.phase != RECORD:
            return False
        name = self.state.booted_name()
        if not self._reach(lambda: self._target.act("finish"))["is_running"]:
            job = self._look()["job"]
            return bool(job["id"] == name and job["status"] == 0 and self._is_last_job)
        if self._finishing != name:
            self._finishing = name
            self._say(f"{self._where()}: finishing the running run; `ab stop --now` ends it")
        return True

    def _go(self, phase: str, **changes: Any) -> None:
        state = dataclasses.replace(self.state, phase=phase, **changes)
        self._store.write(state)
        self.state = state

    def _end(self, reason: str, status: int) -> None:
        """Stop the recorder; the next steps complete the bundles and boot the default kernel."""
        reason = _printable(reason)
        self._say(f"ending: {reason}")
        self._reach(lambda: self._target.act("stop"))
        self._go(SEAL, ended=reason, status=status)

    @property
    def _kernel(self) -> KernelState:
        return self.state.kernels[self.state.plan[self.state.next].kernel]

    @property
    def _is_last_job(self) -> bool:
        return self.state.job + 1 == len(self.state.jobs)

    def continue_command(self) -> str:
        """Return the command that continues the recording, or completes a requested stop."""
        action = "continue" if self._asked_to_stop() is None else "stop"
        return ab_command(action, self.state)

    def _where(self) -> str:
        state = self.state
        planned = state.plan[state.next]
        return f"boot {state.next + 1} of {len(state.plan)} ({state.kernels[planned.kernel].name})"

    def _what(self) -> str:
        """Return which job is recorded; "" if there is only one."""
        state = self.state
        if len(state.jobs) == 1:
            return ""
        return f" {state.jobs[state.job].name} (job {state.job + 1} of {len(state.jobs)})"

    # Choosing and booting

    def _choose(self) -> None:
        state = self.state
        alive = [kernel for kernel in state.kernels if kernel.gave_up is None]
        if len(alive) == 1 < len(state.kernels):
            self._end("1 kernel left (expected at least 2)", DOES_NOT_BOOT)
            return
        if not self._are_boots_needed():
            return
        state = self.state
        index = state.next
        while index < len(state.plan) and state.kernels[state.plan[index].kernel].gave_up:
            index += 1
        job = state.job if index == state.next else 0
        if index == len(state.plan):
            is_whole = len(alive) == len(state.kernels)
            status = DOES_NOT_BOOT if not is_whole else 1 if state.failures() else 0
            self._go(SEAL, next=index, job=job, status=status)
            return
        cap = most_boots(len(state.kernels), state.boots)
        if state.started >= cap:
            self._end(f"the cap of {cap} boots is reached; too many boots failed", 1)
            return
        if self._target.is_here and HOLD.exists():
            self._end(f"{HOLD} exists", 1)
            return
        self._reach(lambda: self._target.act("space"))
        self._began = time.monotonic()
        self._go(ARM, next=index, job=job)

    def _are_boots_needed(self) -> bool:
        """Return whether a retest goes on; if it does not, plan no more boots, or end.

        The first boot is only checked for the result. A look that a crash left without an outcome
        is taken again, at the same boots.

        :raises RecordError: there is no decision
        """
        state, retest = self.state, self.state.retest
        if retest is None:
            return True
        kernels = range(len(state.kernels))
        made = min(map(state.made, kernels))
        if len(state.done) != 1 and not retest.is_due(made):
            return True
        paths = [output_path(state, name) for kernel in kernels for name in state.bundles(kernel)]
        answer = self._judge.ask(retest, made, paths)
        text = _printable(answer["text"])
        if answer["answer"] == LOST:
            raise RecordError(
                f"no decision of the retest: {text}; then run `{self.continue_command()}`"
            )
        if answer["answer"] == REFUSE:
            self._end(text, 1)
            return False
        if made == 0:
            return True
        self._say(f"look at {made} boots per kernel: {text}")
        looked = dataclasses.replace(retest, looked=made)
        if answer["answer"] == CONTINUE:
            self._go(CHOOSE, retest=looked)
            return True
        self._go(SEAL, boots=made, retest=looked)
        return False

    def _arm(self) -> None:
        look = self._look()
        called = self._call_hook("arm", self._kernel.release)
        if called.status != 0:
            reason = f"the hook cannot select it: {describe_failure(called)}"
            if called.status == 1:
                self._fail(reason)
            else:
                self._end(f"--boot {self.state.hook}: {reason}", 1)
            return
        if self._armed() is None:
            # An unplanned boot in between, e.g. after a power cut, uses up the entry.
            if self._look()["boot_id"] != look["boot_id"]:
                self._go(CHOOSE, started=self.state.started + 1)
            else:
                self._end(f"--boot {self.state.hook}: no one-shot entry is set after `arm`", 1)
            return
        state = self.state
        self._go(BOOT, before=look["boot_id"], started=state.started + 1, attempt=state.attempt + 1)

    def _boot(self) -> None:
        look = self._look_soon()
        if look["boot_id"] == self.state.before:
            if self._armed() is None:
                self._call_hook("arm", self._kernel.release)
            self._say(f"{self._where()}: booting {self._kernel.release}")
            self._reboot()
            arrived = self._await_boot(self.state.before)
            if arrived is None:
                self._did_not_boot()
                return
            look = arrived
        self._check_boot(look)

    def _check_boot(self, look: Mapping[str, Any]) -> None:
        kernel = self._kernel
        identity = Identity(look["release"], look["version"], look["build_id"])
        left = self._armed()
        if left is not None:
            problem = self._cancel()
            if problem is None and identity.release != kernel.release:
                # After a power cut, GRUB does not replay the journal that contains the entry.
                self._fail(
                    f"{identity.release} booted instead of the one-shot entry ({left}), which was "
                    "still set, so it was cancelled"
                )
                return
            done = "so it was cancelled" if problem is None else f"and {problem}"
            self._end(
                f"the boot did not consume the one-shot entry ({left}), {done}; use another --boot "
                "hook (see `schedperf doctor --boot`)",
                1,
            )
            return
        if identity.release != kernel.release:
            self._fail(f"{identity.release} booted, expected {kernel.release}")
            return
        if kernel.identity is not None and not kernel.identity.is_same_build(identity):
            other = f"another build of {kernel.release} booted: {identity.version}"
            if self.state.is_append:
                self._end(
                    f"{kernel.name}: {other} (its bundle is of {kernel.identity.version}); record "
                    "it with another -o",
                    2,
                )
            else:
                self._fail(other)
            return
        kernels = list(self.state.kernels)
        kernels[self.state.plan[self.state.next].kernel] = dataclasses.replace(
            kernel, identity=identity
        )
        self._settled_by = None
        self._go(RECORD, kernels=kernels, before=look["boot_id"])

    def _did_not_boot(self) -> None:
        """Count a failed boot, and power-cycle a target that did not boot within the limit.

        :raises RecordError: no power program is given, it failed, or the target still does not boot
        """
        before = self.state.before
        absence = self._describe_absence()
        self._fail(f"{absence}{self._describe_console()}")
        if self.state.power is None:
            raise RecordError(
                f"{self._target.name}: {absence}; power-cycle it, then run "
                f"`{self.continue_command()}`"
            )
        called = self._target.call(f"command:{self.state.power}", ["cycle"])
        if called.status != 0:
            raise RecordError(
                f"--power {self.state.power}: cycle failed ({describe_failure(called)}); "
                f"power-cycle {self._target.name}, then run `{self.continue_command()}`"
            )
        self._say(f"{self._target.name}: power-cycled")
        if self._await_boot(before) is None:
            raise RecordError(
                f"{self._target.name}: power-cycled, but {self._describe_absence()}; start it, "
                f"then run `{self.continue_command()}`"
            )

    def _describe_absence(self) -> str:
        """Return what did not arrive in time: an answer, or an answer from a new boot."""
        limit = f"{self.state.boot_limit_s:.0f} s"
        if self._is_in_old_boot:
            return f"not rebooted within {limit}, it answers in the same boot"
        return f"no answer within {limit} after a boot"

    def _fail(self, reason: str) -> None:
        """Count a failed boot; after two failures, the kernel is not booted again."""
        state = self.state
        reason = _printable(reason)
        index = state.plan[state.next].kernel
        kernel = state.kernels[index]
        failures = kernel.failures + 1
        gave_up = f"did not boot: {reason}" if failures >= MOST_FAILURES else None
        kernels = list(state.kernels)
        kernels[index] = dataclasses.replace(kernel, failures=failures, gave_up=gave_up)
        self._say(f"{self._where()}: failed: {reason}")
        if gave_up is not None:
            self._say(f"{kernel.name}: given up after {failures} failed boots")
        self._go(CHOOSE, kernels=kernels)

    def _describe_console(self) -> str:
        if self.state.console is None:
            return ""
        called = self._target.call(f"command:{self.state.console}", ["last"])
        lines = ["".join(filter(str.isprintable, line)) for line in called.stdout.splitlines()]
        kept = [line.strip()[:200] for line in lines if line.strip()][-_CONSOLE_LINES:]
        if called.status is None:
            kept.append(f"the console program was {describe_failure(called)}")
        return f"; console: {' | '.join(kept)}" if kept else "; the console has no lines"

    # Recording

    def _record(self) -> None:
        look = self._look()
        job, name = look["job"], self.state.booted_name()
        if job["id"] != name:
            if look["boot_id"] != self.state.before:
                self._repeat("the machine rebooted")
            elif self._is_settled():
                self._start(name)
            return
        if job["state"] == "running":
            self._let_run()
        elif job["state"] == "lost":
            self._repeat("the recorder was killed, or the machine lost power")
        elif job["status"] == 0:
            self._end_job()
        elif job["status"] > _BY_SIGNAL or job["status"] < 0:
            self._repeat("the recorder was interrupted")
        else:
            self._fail_job(_printable(job["text"]))

    def _end_job(self, **changes: Any) -> None:
        """Go on with the next job of this boot, if any."""
        if self._is_last_job:
            self._go(FETCH, **changes)
        else:
            self._go(RECORD, job=self.state.job + 1, **changes)

    def _fail_job(self, reason: str) -> None:
        """Note that a job could not be recorded; end if none of this boot could be."""
        state = self.state
        jobs = list(state.jobs)
        job = jobs[state.job]
        jobs[state.job] = dataclasses.replace(job, failed=[*job.failed, state.next], problem=reason)
        failed = f"{self._where()}: the recording{self._what()} failed: {reason}"
        if self._is_last_job and all(state.next in each.failed for each in jobs):
            self._end(failed, 1)
            return
        bundles = state.bundles(state.plan[state.next].kernel)
        self._reach(lambda: self._target.act("recover", *bundles))
        self._say(failed)
        self._end_job(jobs=jobs)

    def _let_run(self) -> None:
        """Wait until the next poll of the recorder, a request to stop, or a signal."""
        now = time.monotonic()
        if self._running_since is None:
            self._running_since = now
        until = now + pause_s(now - self._running_since)
        while True:
            signals.wait(_POLL_S)
            if time.monotonic() >= until or signals.caught or self._asked_to_stop() is not None:
                return

    def _repeat(self, reason: str) -> None:
        bundles = self.state.bundles(self.state.plan[self.state.next].kernel)
        self._reach(lambda: self._target.act("recover", *bundles))
        self._say(f"{self._where()}: {reason}; finished runs are kept, the boot is repeated")
        self._go(CHOOSE)

    def _is_settled(self) -> bool:
        """Return whether the boot has finished and the machine is idle, or the wait timed out.

        Before False is returned, wait ``_POLL_S``. With ``settle_s`` 0, return at once.
        """
        if self.state.settle_s == 0 or self._settled_in == self.state.before:
            return True
        if self._settled_by is None:
            self._settled_by = time.monotonic() + self.state.settle_s
        now = self._reach(lambda: self._target.act("settle"))
        is_late = time.monotonic() > self._settled_by
        if is_late or (not now["is_starting"] and now["busy"] < _IDLE):
            self._settled_in = self.state.before
            if is_late:
                limit = f"{self.state.settle_s} s after the boot"
                self._say(f"{self._where()}: not idle within {limit}")
            return True
        signals.wait(_POLL_S)
        return False

    def _start(self, name: str) -> None:
        state = self.state
        planned = state.plan[state.next]
        own = state.jobs[state.job]
        number = state.attempt * len(state.jobs) + state.job
        turn = f"{state.session},{planned.round},{number * MOST_RUNS}"
        factor = ["--factor", f"kernel={self._kernel.name}"] if state.is_design else []
        known = {"kexec": "kexec", **dict.fromkeys(COLD, "cold")}.get(state.hook)
        method = [] if known is None else ["--set", f"host.boot={known}"]
        source = [] if self._kernel.source is None else ["--source", self._kernel.source]
        plan = [] if state.retest is None else ["--retest-plan", state.retest.plan]
        job = {
            "id": name,
            "boot_id": state.before,
            "name": self._kernel.name,
            "is_design": state.is_design,
            "bundles": state.bundles(planned.kernel),
            "options": [
                *state.options,
                *own.options,
                *method,
                *factor,
                "-q",
                *source,
                *plan,
                "--turn",
                turn,
                "--recorded-as",
                json.dumps(own.recorded_as),
            ],
            "command": own.command,
        }
        self._say(f"{self._where()}: recording{self._what()}")
        self._running_since = None
        self._reach(lambda: self._target.act("start", source=json.dumps(job).encode()))

    def _fetch(self) -> None:
        self._copy(self.state.plan[self.state.next].kernel)
        self._say(f"{self._where()}: done")
        state = self.state
        took_s = None if self._began is None else time.monotonic() - self._began
        self._go(CHOOSE, done=[*state.done, state.next], next=state.next + 1, job=0, boot_s=took_s)

    def _copy(self, kernel: int) -> None:
        for name in self.state.bundles(kernel):
            self._fetch_to(name, output_path(self.state, name))

    def _fetch_to(self, name: str, path: Path) -> None:
        # The recorder on the target runs as root, whatever user runs this.
        mode = SHAREABLE_MODE if "--shareable" in self.state.options else PRIVATE_MODE
        if self.state.is_append and path.exists():
            # Added boots never widen who may read a bundle.
            mode &= path.stat().st_mode
        self._reach(lambda: self._target.fetch(name, path, mode))

    # The end

    def _seal(self) -> None:
        """Mark in each bundle whether it has all its boots, and copy the bundles a last time."""
        state = self.state
        reasons: dict[str, str | None] = {}
        for index in range(len(state.kernels)):
            made = state.made(index)
            why = state.kernels[index].gave_up or state.ended
            names = state.bundles(index)
            if made == state.boots:
                # Boots that were missing before stay so.
                lost = "; ".join(state.failures(index)) or None
                before = itertools.chain(state.kernels[index].incomplete, itertools.repeat(None))
                reasons.update((name, lost or reason) for name, reason in zip(names, before))
            else:
                reason = f"{why} after {made} of {state.boots} boots"
                reasons.update(dict.fromkeys(names, reason))
        self._reach(lambda: self._target.act("seal", source=json.dumps(reasons).encode()))
        present = self._reach(lambda: self._target.act("list", *reasons))
        for name in reasons:
            if present[name] is not None:
                self._fetch_to(name, output_path(state, name))
        self._go(HOME, before=self._look()["boot_id"])

    def _go_home(self) -> None:
        """Cancel the one-shot entry, boot the machine's default kernel, and release the machine.

        It is not rebooted if its default kernel is running or unknown, or if the entry could not be
        cancelled.

        :raises Rebooting: this machine is the target, and it reboots
        :raises RecordError: the target did not answer or did not boot within the limit, or the hook
            could not reboot it
        """
        state = self.state
        look = self._look()
        problem = self._cancel()
        if problem is not None:
            self._note_uncancelled(problem)
        is_home = state.default is None or look["release"] == state.default
        if state.default is None:
            self._say(f"the default kernel is not known; {look['release']} keeps running")
        elif problem is not None and not is_home:
            self._say(f"not rebooting into the default kernel; {look['release']} keeps running")
        if self._target.is_here:
            self._at_end()
            self._reach(lambda: self._target.act("release", state.session))
            self._go(OVER)
            if not is_home and problem is None:
                self._say(f"rebooting into the default kernel {state.default}")
                self._reboot()
            return
        if not is_home and problem is None and look["boot_id"] == state.before:
            self._say(f"rebooting {self._target.name} into the default kernel {state.default}")
            self._reboot()
            if self._await_boot(state.before) is None:
                raise RecordError(
                    f"{self._target.name}: {self._describe_absence()}; all bundles are complete; "
                    f"start it, then run `{self.continue_command()}`"
                )
            look = self._look()
            if look["release"] != state.default:
                self._say(f"{look['release']} booted, expected the default {state.default}")
        self._reach(lambda: self._target.act("release", state.session))
        self._go(OVER)

    def _cancel(self) -> str | None:
        """Cancel the one-shot entry; return a description of the failure.

        None means that `disarm` succeeded and that no entry is set. A failure of `disarm` is
        returned even if no entry is set.
        """
        called = self._call_hook("disarm")
        try:
            left = self._armed()
            entry = None if left is None else f"the entry {left} is still set"
        except UnreadEntry as error:
            entry = error.problem.text
        if called.status != 0:
            entry = entry or "no entry is set"
            return f"`disarm` failed ({describe_failure(called)}): {entry}"
        return None if entry is None else f"`disarm` succeeded, but {entry}"

    def _note_uncancelled(self, problem: str) -> None:
        """Record for the final report that a later boot may boot another kernel."""
        line = (
            f"--boot {self.state.hook}: {problem}; make sure that none is set before "
            f"{self._target.name} boots again"
        )
        self._say(line)
        ended = "; ".join(filter(None, (self.state.ended, line)))
        self.state = dataclasses.replace(self.state, ended=ended, status=1)

    # The target

    def _look(self) -> Mapping[str, Any]:
        look: Mapping[str, Any] = self._reach(lambda: self._target.act("look"))
        return look

    def _look_soon(self) -> Mapping[str, Any]:
        """Return what the verb ``look`` returns, even if the target is still booting."""
        limit_s = max(_REACH_S, self.state.boot_limit_s)
        look: Mapping[str, Any] = self._reach(lambda: self._target.act("look"), limit_s)
        return look

    def _reach(self, do: Callable[[], Any], limit_s: float | None = None) -> Any:
        """Call a function that needs the target, and return its result; retry until it answers.

        :param do: raises Unreachable if the target does not answer
        :param limit_s: time limit in s; None for the limit of a running target
        :raises RecordError: no answer within the limit, or the function failed
        :raises Interrupted: a signal requests termination
        """
        limit_s = _REACH_S if limit_s is None else limit_s
        until = time.monotonic() + limit_s
        is_first = True
        while True:
            try:
                return do()
            except Unreachable as error:
                if is_first:
                    is_first = False
                    self._say(
                        f"{self._target.name}: no answer ({_printable(str(error))}); trying again "
                        f"for up to {limit_s:.0f} s"
                    )
                if time.monotonic() > until:
                    raise RecordError(
                        f"{self._target.name}: not reachable for {limit_s:.0f} s ({error}); start "
                        f"it, then run `{self.continue_command()}`"
                    ) from error
            signals.wait(_POLL_S)
            signals.check()

    def _call_hook(self, *arguments: str) -> Called:
        """Call the hook; try up to ``_TEMPORARY_TRIES`` times if it reports a temporary failure."""
        for _ in range(_TEMPORARY_TRIES):
            called: Called = self._reach(lambda: self._target.call(self.state.hook, arguments))
            if called.status != _TEMPORARY:
                break
            signals.wait(_POLL_S)
            signals.check()
        return called

    def _armed(self) -> str | None:
        """Return the one-shot entry that is set; None if there is none.

        :raises UnreadEntry: the hook failed
        """
        return parse_armed(self.state.hook, self._call_hook("armed"))

    def _reboot(self) -> None:
        """Request a reboot.

        :raises Rebooting: this machine is the one that reboots
        :raises RecordError: the hook failed
        """
        try:
            called = self._target.call(self.state.hook, ["reboot"], _REBOOT_LIMIT_S)
        except Unreachable:
            # The connection may break before the answer arrives.
            return
        if called.status not in {0, None} and called.status > 0:
            raise RecordError(
                f"--boot {self.state.hook}: reboot failed ({describe_failure(called)}); reboot "
                f"{self._target.name}, then run `{self.continue_command()}`"
            )
        if self._target.is_here:
            raise Rebooting

    def _await_boot(self, before: str) -> Mapping[str, Any] | None:
        """Wait until the target answers in a boot other than ``before``.

        Return what the verb ``look`` returns there; None at the time limit.
        """
        self._is_in_old_boot = False
        until = time.monotonic() + self.state.boot_limit_s
        while time.monotonic() < until:
            signals.wait(_POLL_S)
            signals.check()
            try:
                look = self._target.act("look")
            except (Unreachable, RecordError):
                # sshd may answer before file systems are mounted.
                self._is_in_old_boot = False
                continue
            self._is_in_old_boot = look["boot_id"] == before
            if not self._is_in_old_boot:
                return look
        return None


def _printable(text: str) -> str:
    """Remove unprintable characters from a reason, because parts of it come from the target."""
    return "".join(filter(str.isprintable, text))


def ab_command(action: str, state: State) -> str:
    """Return the shell command that continues, shows or stops a recording.

    :param action: "continue", "status" or "stop"
    """
    output = ["-o", state.output] if state.target else []
    return shlex.join(["schedperf", "ab", action, *output])


def output_path(state: State, name: str) -> Path:
    """Return the path to which a bundle is copied from the target.

    :param name: one of :meth:`State.bundles`
    """
    if state.output.endswith("/"):
        return Path(state.output, f"{name}.tar")
    return Path(f"{state.output}-{name}.tar")
