# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer a request on a reporter's machine: ``sudo ./request.pyz``.

All state is in the bundles: whatever ends the program, the next run recovers the finished runs and
records those that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedperf_collectors.command_line.main import main as record
from schedperf_collectors.machine.errors import RecordError, explain, printable
from schedperf_collectors.recorder.doctor import examine_all
from schedperf_collectors.recorder.isolate import OK
from schedperf_collectors.recorder.journal import read_left
from schedperf_collectors.recorder.journal_folder import journal_folder, journals_in
from schedperf_collectors.recorder.options import Parser
from schedperf_collectors.recorder.recover import recover
from schedperf_collectors.recorder.sides import check_feature
from schedperf_collectors.recorder.stop import stop, writes
from schedperf_collectors.redaction.rules import Rules
from schedperf_collectors.request.ask import Ask
from schedperf_collectors.request.kernels import fill_slots, release_of, running_kernel
from schedperf_collectors.request.result import find_private, redact_file, write_result
from schedperf_collectors.request.steps import (
    Step,
    Workload,
    count_missing,
    plan_steps,
    read_workload,
)
from schedperf_collectors.request.text import Answer, describe, write_mail

# Bundles with profiles have some 10 MB per run, results a few kB.
LEAST_FREE_BYTES = 200 << 20
# Only this user may read the full recordings.
_PRIVATE = 0o700


@dataclass(frozen=True)
class _Request:
    """A request and its state on this machine.

    :param folder: directory of the recordings
    :param kernel: name of the running kernel
    """

    ask: Ask
    rules: Rules
    work: Workload
    folder: Path
    kernel: str

    @property
    def result(self) -> Path:
        """Return the path of the file that the reporter sends."""
        return self.folder.absolute().parent / f"{self.folder.absolute().name}.tar"

    def steps(self, kernel: str) -> Iterator[Step]:
        """Yield the recordings of a kernel."""
        return plan_steps(self.ask, self.folder, kernel)

    def recorded(self) -> list[str]:
        """Return the kernels whose runs without a switched feature are all recorded.

        :raises RecordError: a bundle cannot be read
        """
        names = [path.name[: -len(".tar")] for path in sorted(self.folder.glob("*.tar"))]
        return [
            name
            for name in names
            if release_of(name) is not None and not count_missing(next(self.steps(name)), self.work)
        ]


def main(ask: Ask, rules: Rules, arguments: Sequence[str]) -> int:
    """Record what is missing on the running kernel; with all kernels, write the result.

    :param arguments: of the command line, without the program's name
    :return: exit status
    """
    try:
        options = _parse(ask, arguments)
        folder = Path(options.output or ask.name)
        with _locked(folder):
            work, kernel = read_workload(ask.job), running_kernel()
            return _answer(_Request(ask, rules, work, folder, kernel), has_consent=options.yes)
    except RecordError as error:
        sys.stderr.write(f"request: error: {printable(str(error))}\n")
        return error.exit_status


def _parse(ask: Ask, arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(
        prog=Path(sys.argv[0]).name,
        description="Record what a maintainer asks for. Run it again after each boot or "
        "interruption: it goes on where it was.",
        allow_abbrev=False,
    )
    parser.add_argument("-y", "--yes", action="store_true", help="record without asking")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIRECTORY",
        help=f"keep the recordings here, and the result beside it [default: {ask.name}]",
    )
    return parser.parse_args(list(arguments))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the directory of the recordings, and hold its lock in the block.

    :raises RecordError: it cannot be created, or another process holds the lock
    """
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RecordError(f"{folder}: {explain(error)}; give another directory with -o") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise RecordError(f"{folder}: this request is running already; wait for its end") from error
    finally:
        os.close(descriptor)


def _answer(request: _Request, *, has_consent: bool) -> int:
    steps = list(request.steps(request.kernel))
    _recover(request.folder, steps)
    recorded = request.recorded()
    if request.kernel not in fill_slots(request.ask.kernels, [*recorded, request.kernel]):
        if not recorded:
            raise RecordError(
                f"this kernel, {os.uname().release}, is not asked for (expected "
                f"{' or '.join(request.ask.kernels)}); boot one of these, and run this again"
            )
        return _finish(request)
    todo = [(step, missing) for step in steps if (missing := count_missing(step, request.work))]
    blocked = dict(_blocked_features(request.ask))
    if any(step.feature not in blocked for step, _ in todo):
        _introduce(request)
        _check_machine(request)
        for feature, problem in blocked.items():
            _say(f"  without switching {feature}: {problem}")
        _ask_consent(has_consent=has_consent)
    for step, missing in todo:
        if step.feature not in blocked:
            _record(step.arguments(request.work, missing))
    return _finish(request)


def _recover(folder: Path, steps: Sequence[Step]) -> None:
    """Restore settings that a killed run has changed, and make bundles of its finished runs.

    :param steps: those of the running kernel; settings of another boot are gone
    :raises RecordError: a part cannot be recovered or restored
    """
    for step in steps:
        if _has_left_over(str(step.prefix)):
            for line in stop(journal_folder(), str(step.prefix)):
                _say(line)
    for partial in sorted(folder.glob("*.tar.partial")):
        path = partial.with_suffix("")
        runs = recover(path)
        if runs:
            _say(f"{path}: {runs} finished runs of an interrupted recording")


def _has_left_over(prefix: str) -> bool:
    for path in journals_in(journal_folder()):
        # Damaged journals of other recordings are not this program's concern.
        with contextlib.suppress(ValueError):
            left = read_left(path)
            if left is not None and not left.is_running and writes(left, prefix):
                return True
    return False


def _introduce(request: _Request) -> None:
    release = release_of(request.kernel) or request.kernel
    for line in describe(request.ask, request.work, release, request.result.name):
        _say(line)


def _check_machine(request: _Request) -> None:
    """Print what cannot be recorded here.

    :raises RecordError: a program is missing, or a disk is nearly full
    """
    for program in request.work.programs:
        if shutil.which(program) is None:
            raise RecordError(f"{program}: no such program; install it, and run this again")
    for place in (request.folder, Path(tempfile.gettempdir())):
        free = shutil.disk_usage(place).free
        if free < LEAST_FREE_BYTES:
            raise RecordError(
                f"{place}: {free / 1e6:.0f} MB free (expected {LEAST_FREE_BYTES / 1e6:.0f} MB); "
                "free space, or give another directory with -o or TMPDIR"
            )
    _say("")
    _say("Checking what can be recorded here ...")
    chosen = request.work.collectors
    names = {each.name for each in (*chosen.boot, *chosen.run, *chosen.after)}
    for each in examine_all({}, names):
        if each.result.status != OK:
            fix = f"; {each.result.remedy}" if each.result.remedy else ""
            _say(f"  without {each.collector.name}: {each.result.reason}{fix}")
    if os.geteuid() != 0:
        _say(f"  not root: the results are recorded; for the rest, sudo {sys.argv[0]}")


def _blocked_features(ask: Ask) -> Iterator[tuple[str, str]]:
    """Yield the features that cannot be switched here, with the reason."""
    for feature in ask.features:
        problem = _why_blocked(feature)
        if problem is not None:
            yield feature, problem


def _why_blocked(feature: str) -> str | None:
    try:
        check_feature(feature)
    except RecordError as error:
        return str(error)
    return None


def _ask_consent(*, has_consent: bool) -> None:
    """Ask whether to record.

    :raises RecordError: the user does not confirm, or stdin is not a terminal
    """
    if has_consent:
        return
    if not sys.stdin.isatty():
        raise RecordError(
            "nothing was recorded: stdin is not a terminal; add --yes to record unasked"
        )
    sys.stdout.write("\nRecord now? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RecordError("nothing was recorded, because the answer is no", 1)


def _record(arguments: Sequence[str]) -> None:
    """Run the recorder.

    :raises RecordError: it failed or was interrupted
    """
    status = record(arguments)
    if status:
        raise RecordError(
            "the recording ended early; finished runs are kept: run this again to go on", status
        )


def _finish(request: _Request) -> int:
    """Write the result if all kernels are recorded; otherwise print the next step."""
    slots = fill_slots(request.ask.kernels, request.recorded())
    kernels = [kernel for kernel in slots if kernel is not None]
    if len(kernels) == len(slots):
        _write_result(request, kernels)
        return 0
    pattern = request.ask.kernels[slots.index(None)]
    which = "another kernel" if pattern == "*" else f"a kernel whose release is {pattern}"
    names = ", ".join(release_of(kernel) or kernel for kernel in kernels)
    _say("")
    _say(f"Recorded: {len(kernels)} of {len(slots)} kernels{f' ({names})' if names else ''}.")
    _say(f"Next: boot {which}, and run this again: sudo {sys.argv[0]}")
    return 0


def _write_result(request: _Request, kernels: Sequence[str]) -> None:
    paths = [
        path
        for kernel in kernels
        for step in request.steps(kernel)
        for path in step.paths
        if path.exists()
    ]
    private = find_private(paths, request.rules)
    bundles = [redact_file(path, private) for path in paths]
    result = request.result
    answer = Answer(request.ask, request.work, tuple(kernels), tuple(bundles), result.name)
    text = private.remove_names(write_mail(answer))
    size = write_result(result, bundles, text)
    to = f" to {request.ask.reply_to}" if request.ask.reply_to else ""
    _say("")
    _say(f"All kernels are recorded. Send {result} ({size / 1e3:.0f} kB){to} with this text:")
    _say("")
    sys.stdout.write(text)


def _say(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    # The recorder writes to stderr in between.
    sys.stdout.flush()
