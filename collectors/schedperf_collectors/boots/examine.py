# SPDX-License-Identifier: GPL-2.0-or-later
"""Check with a boot hook, without booting, that kernels can be booted once and safely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from schedperf_collectors.boots.call import COMMAND, LIMIT_S, Call, Called
from schedperf_collectors.boots.scripts import COLD
from schedperf_collectors.contract import cut
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.boot_options import RELEASE

AUTO = "auto"

_FAILED = 1
_TEMPORARY = 75
# Maximum number of lines of one check; further ones are ignored.
_MOST_LINES = 50
_MOST_LETTERS = 300


@dataclass(frozen=True)
class Problem:
    """A check that failed.

    :param remedy: what to do; "" if the hook printed none
    """

    text: str
    remedy: str


class UnreadEntry(RecordError):
    """It could not be determined whether a one-shot entry is set.

    :param called: the call of the hook that failed
    :ivar problem: the same failure, as a failed check
    """

    def __init__(self, hook: str, called: Called) -> None:
        remedy = "try again later" if called.status == _TEMPORARY else "mend the hook's `armed`"
        text = f"could not read whether a one-shot entry is set ({describe_failure(called)})"
        super().__init__(f"--boot {hook}: {text}; {remedy}", 1)
        self.problem = Problem(text, remedy)


@dataclass(frozen=True)
class Kernel:
    """The checks of one kernel.

    :param passed: checks that passed, one line each
    :param problems: checks that failed
    """

    release: str
    passed: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Examination:
    """The checks of a machine.

    :param hook: the hook that was used
    :param rejected: for ``auto``: hooks that were tried before, and why they were not chosen
    :param default: release that boots by default; None if unknown
    :param armed: the one-shot entry that is set; None if there is none, or if it could not be read,
        which is then a problem of the kernels
    """

    hook: str
    rejected: tuple[tuple[str, str], ...]
    default: str | None
    armed: str | None
    kernels: tuple[Kernel, ...]

    @property
    def problems(self) -> int:
        """Return the number of failed checks."""
        return sum(len(kernel.problems) for kernel in self.kernels)


def check_release(release: str) -> None:
    """Check the form of a kernel release.

    :raises RecordError: it is invalid
    """
    if not RELEASE.match(release):
        raise RecordError(
            f"--kernel: invalid release {release[:64]!r} (expected e.g. 6.1.0-50-amd64); "
            "see `ls /lib/modules`"
        )


def examine(call: Call, hook: str, releases: Sequence[str], running: str) -> Examination:
    """Check kernels with a boot hook.

    ``auto`` uses the first hook of ``COLD`` whose checks succeed; if none does, the first one that
    applies to this machine.

    :param releases: releases of the kernels; if empty, the kernel that boots by default is checked,
        or the running one if the hook does not know the default
    :param running: release of the running kernel
    :raises RecordError: a release is invalid, the hook cannot be executed, or (``auto``) no hook
        applies to this machine
    """
    for release in releases:
        check_release(release)
    if hook != AUTO:
        return _examine_with(call, hook, releases, running, ())
    return _choose(call, releases, running)


def _choose(call: Call, releases: Sequence[str], running: str) -> Examination:
    rejected: list[tuple[str, str]] = []
    failed: list[Examination] = []
    for hook in COLD:
        applies = call(hook, ["applies"])
        if applies.status != 0:
            reason = next(_lines(applies.stderr), "no reason given").partition(";")[0]
            rejected.append((hook, reason))
            continue
        examination = _examine_with(call, hook, releases, running, tuple(rejected))
        if not examination.problems:
            return examination
        rejected.append((hook, _count(examination.problems)))
        failed.append(examination)
    if failed:
        return failed[0]
    reasons = "; ".join(f"{hook}: {reason}" for hook, reason in rejected)
    raise RecordError(
        f"--boot auto: no boot loader can be used ({reasons}); "
        f"use --boot kexec or --boot {COMMAND}PATH",
        1,
    )


def _count(problems: int) -> str:
    return f"{problems} problem{'s' * (problems != 1)}"


def _examine_with(
    call: Call,
    hook: str,
    releases: Sequence[str],
    running: str,
    rejected: tuple[tuple[str, str], ...],
) -> Examination:
    default = read_default(call, hook)
    kernels = [
        _check(call, hook, release) for release in dict.fromkeys(releases or [default or running])
    ]
    armed = None
    try:
        armed = read_armed(call, hook)
    except UnreadEntry as error:
        # A kernel that failed its own checks is never booted.
        kernels = [
            kernel if kernel.problems else replace(kernel, problems=(error.problem,))
            for kernel in kernels
        ]
    return Examination(hook, rejected, default, armed, tuple(kernels))


def read_default(call: Call, hook: str) -> str | None:
    """Return the release that boots by default; None if the hook does not know it or fails."""
    called = call(hook, ["default"])
    release = next(_lines(called.stdout), "")
    return release if called.status == 0 and RELEASE.match(release) else None


def read_armed(call: Call, hook: str) -> str | None:
    """Return the one-shot entry that is set; None if there is none.

    :raises UnreadEntry: the hook failed
    """
    return parse_armed(hook, call(hook, ["armed"]))


def parse_armed(hook: str, called: Called) -> str | None:
    """Return the one-shot entry that ``armed`` printed; None if there is none.

    :raises UnreadEntry: the call failed
    """
    if called.status != 0:
        raise UnreadEntry(hook, called)
    return next(_lines(called.stdout), None)


def arm(call: Call, hook: str, release: str) -> None:
    """Select a kernel for the next boot only.

    :raises RecordError: the hook failed
    """
    called = call(hook, ["arm", release])
    if called.status != 0:
        raise RecordError(f"--boot {hook}: arm {release} failed: {describe_failure(called)}", 1)


def describe_failure(called: Called) -> str:
    """Return why a call failed, in one line."""
    if called.status is None:
        return f"killed after {LIMIT_S:.0f} s"
    last = list(_lines(called.stderr))[-1:]
    return last[0] if last else f"exit status {called.status}"


def _check(call: Call, hook: str, release: str) -> Kernel:
    called = call(hook, ["check", release])
    problems = [_problem(line) for line in _lines(called.stderr)]
    if called.status == 0:
        # A hook may print warnings to stderr; its exit status determines whether the check passed.
        problems = []
    elif called.status is None:
        problems.append(Problem(f"the hook was killed after {LIMIT_S:.0f} s", "mend the hook"))
    elif called.status == _TEMPORARY:
        problems.append(Problem("the hook cannot check now (exit status 75)", "try again later"))
    elif called.status != _FAILED or not problems:
        problems.append(Problem(f"the hook failed (exit status {called.status})", "mend the hook"))
    return Kernel(release, tuple(_lines(called.stdout)), tuple(problems))


def _problem(line: str) -> Problem:
    text, _, remedy = line.partition("; ")
    return Problem(text, remedy)


def _lines(text: str) -> Iterator[str]:
    """Yield the first ``_MOST_LINES`` lines of a hook's output that are not empty.

    They have no control characters and at most ``_MOST_LETTERS`` characters.
    """
    lines = ("".join(filter(str.isprintable, line)).strip() for line in text.splitlines())
    kept = [cut(line, _MOST_LETTERS) for line in lines if line]
    return iter(kept[:_MOST_LINES])
