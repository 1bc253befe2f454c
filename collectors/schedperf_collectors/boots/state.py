# SPDX-License-Identifier: GPL-2.0-or-later
# ruff: noqa: UP045 # Python 3.9 reads these types at run time
"""Store the state of a recording over several boots: written before each step, read to continue.

The file is JSON, and is replaced as a whole. It may be damaged by a disk or an editor, so every
field is checked when it is read.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, get_args, get_origin, get_type_hints

from schedperf_collectors.boots.call import is_hook
from schedperf_collectors.boots.examine import AUTO
from schedperf_collectors.boots.plan import PlannedBoot, plan_boots
from schedperf_collectors.boots.retest import RetestState
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.kernel_files import Identity
from schedperf_collectors.machine.new_files import write_durably
from schedperf_collectors.recorder.boot_options import HOST, MOST_JOBS, NAME, RELEASE

STATE_VERSION = 2
STATE = "state.json"
# In the directory of the -o option.
FOLDER = "ab.boots"
_LONGEST_BYTES = 16 << 20

# Phases: PREPARE until the target is claimed and checked; CHOOSE to FETCH for each boot; at the
# end SEAL, HOME and OVER.
PREPARE = "prepare"
CHOOSE = "choose"
ARM = "arm"
BOOT = "boot"
RECORD = "record"
FETCH = "fetch"
HOME = "home"
SEAL = "seal"
OVER = "over"
PHASES = (PREPARE, CHOOSE, ARM, BOOT, RECORD, FETCH, HOME, SEAL, OVER)
_OF_ONE_BOOT = (ARM, BOOT, RECORD, FETCH)

_SESSION = re.compile(r"[0-9a-f]{1,64}\Z")
_MOST_COUNTED = 1_000_000
_MOST_IDS = (1 << 32) - 1
_OWNER_IDS = 2


@dataclass
class KernelState:
    """One kernel of the recording.

    :param identity: that of its existing bundles, or read at its first boot; None before
    :param failures: boots that failed
    :param gave_up: why this kernel is not booted any more; None as long as it is booted
    :param source: its commit, as for ``record --source``; None if not given
    :param incomplete: for each of its bundles, why earlier boots are missing; None if none is
    """

    name: str
    release: str
    identity: Optional[Identity] = None
    failures: int = 0
    gave_up: Optional[str] = None
    source: Optional[str] = None
    incomplete: list[Optional[str]] = field(default_factory=list)


@dataclass
class JobState:
    """One benchmark of the recording.

    :param name: that in the file of --jobs; "" for the only one, which has no file
    :param options: options for the recorder besides those of all jobs
    :param command: the workload, with placeholders
    :param recorded_as: the command that the user gave, or that records only this job
    :param failed: planned boots in which it could not be recorded
    :param problem: why it could not be recorded in the last of them; None if it always could
    """

    name: str
    options: list[str]
    command: list[str]
    recorded_as: list[str] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    problem: Optional[str] = None


@dataclass
class State:
    """The state of the whole recording.

    :param session: hexadecimal; shared by the runs of all boots
    :param target: ``ssh:HOST`` or ``ssh:HOST:PORT``; "" for this machine
    :param hook: name of the boot hook; in the phase PREPARE also ``auto``
    :param boots: planned boots of each kernel
    :param options: options for the recorder in each boot, see :func:`without_boots`
    :param jobs: what each boot records, in this order
    :param is_design: each boot records several settings (kernel x setting)
    :param settings: names of the settings; empty if there is only one
    :param is_append: boots are added to the bundles that exist
    :param output: absolute path of -o; ends with / for a directory
    :param boot_limit_s: time after which a boot has failed, in s
    :param settle_s: longest wait for an idle machine after a boot, in s; 0 not to wait
    :param owner: user and group id for the bundles; None to leave them unchanged
    :param power: program that power-cycles the target; None without one
    :param console: program that prints the target's console; None without one
    :param default: release that boots by default; None if it is not known
    :param phase: the step to execute next, one of PHASES
    :param next: index of the planned boot
    :param attempt: number of the attempt over all boots, which names its recording
    :param started: number of boots so far, including failed ones
    :param done: indices of the planned boots that are recorded
    :param before: boot id before the requested boot; while recording, that of the running boot
    :param ended: why it ended before all boots, or what the user must do; None otherwise
    :param status: exit status of the command
    :param job: index of the job that this boot records now, or that it records first
    :param boot_s: how long the last boot took until its bundles were copied, s; None if unknown
    :param retest: decides how many of the boots are made; None to make all
    """

    version: int
    session: str
    target: str
    hook: str
    kernels: list[KernelState]
    boots: int
    options: list[str]
    jobs: list[JobState]
    is_design: bool
    settings: list[str]
    output: str
    boot_limit_s: float
    settle_s: int
    owner: Optional[list[int]] = None
    power: Optional[str] = None
    console: Optional[str] = None
    default: Optional[str] = None
    phase: str = CHOOSE
    next: int = 0
    attempt: int = 0
    started: int = 0
    done: list[int] = field(default_factory=list)
    before: str = ""
    ended: Optional[str] = None
    status: int = 0
    is_append: bool = False
    job: int = 0
    boot_s: Optional[float] = None
    retest: Optional[RetestState] = None

    @property
    def plan(self) -> list[PlannedBoot]:
        """Return all planned boots, in their order."""
        return list(plan_boots(len(self.kernels), self.boots))

    def made(self, kernel: int) -> int:
        """Return the number of recorded boots of a kernel.

        :param kernel: its index
        """
        return sum(self.plan[number].kernel == kernel for number in self.done)

    def booted_name(self) -> str:
        """Return the id of the recording of a job in this attempt."""
        return f"{self.session}-{self.attempt}-{self.job}"

    def failures(self, kernel: int | None = None) -> list[str]:
        """Return which jobs could not be recorded in which number of boots, one text per job.

        :param kernel: index of the kernel; None for all
        """
        texts = []
        for job in self.jobs:
            failed = [each for each in job.failed if kernel in {None, self.plan[each].kernel}]
            if failed:
                boots = self.boots if kernel is not None else len(self.plan)
                texts.append(
                    f"{job.name}: not recorded in {len(failed)} of {boots} boots ({job.problem})"
                )
        return texts

    def bundles(self, kernel: int) -> list[str]:
        """Return the names of a kernel's bundles, without suffix: one per setting.

        :param kernel: index of the kernel
        """
        name = self.kernels[kernel].name
        return [f"{name}-{setting}" for setting in self.settings] or [name]


def is_folder(output: str) -> bool:
    """Return whether an output prefix (-o) is a directory."""
    return output.endswith("/") or Path(output).is_dir()


def folder_of(output: str) -> Path:
    """Return the directory with the state of a recording on another machine.

    :param output: its output prefix (-o)
    """
    whole = Path(output).absolute()
    return whole / FOLDER if is_folder(output) else Path(f"{whole}.boots")


class Store:
    """The file with the state.

    :param path: path in an existing directory
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, state: State) -> None:
        """Replace the file durably.

        :raises RecordError: it cannot be written
        """
        try:
            write_durably(self.path, (json.dumps(dataclasses.asdict(state), indent=1)).encode())
        except OSError as error:
            raise RecordError(f"{self.path}: {explain(error)}; free space and continue") from error

    def read(self) -> State:
        """Return the state.

        :raises RecordError: the file is missing, unreadable or damaged
        """
        try:
            with self.path.open("rb") as file:
                record = json.loads(file.read(_LONGEST_BYTES))
            state: State = _parse(State, record, "state")
            _check(state)
        except FileNotFoundError as error:
            raise RecordError(
                f"{self.path}: no such recording; start one with `schedperf ab --kernel`"
            ) from error
        except OSError as error:
            raise RecordError(f"{self.path}: {explain(error)}; make the file readable") from error
        except (ValueError, RecursionError) as error:
            raise RecordError(
                f"{self.path}: damaged state file ({str(error)[:200]}); remove it and record again"
            ) from error
        return state


def _check(state: State) -> None:
    if state.version != STATE_VERSION:
        raise ValueError(f"version {state.version}, expected {STATE_VERSION}")
    if state.phase not in PHASES:
        raise ValueError(f"unknown phase {state.phase[:40]!r}")
    if not 1 <= len(state.kernels) <= 64 or not 1 <= state.boots <= 10_000:  # noqa: PLR2004
        raise ValueError("number of kernels or boots out of range")
    _check_kernels(state)
    _check_jobs(state)
    _check_progress(state)
    _check_retest(state.retest)
    _check_texts(state)


def _check_kernels(state: State) -> None:
    """Check the kernels and the names of settings: these texts name files, or are printed.

    :raises ValueError: one is invalid
    """
    for kernel in state.kernels:
        _match(NAME, kernel.name, "name of a kernel")
        _match(RELEASE, kernel.release, "release")
        _check_printable(kernel.gave_up, "gave_up")
        _check_printable(kernel.source, "source")
        identity = kernel.identity
        for text in () if identity is None else dataclasses.astuple(identity):
            _check_printable(text, "identity")
        _check_range(kernel.failures, "failures")
        for reason in kernel.incomplete:
            _check_printable(reason, "incomplete")
    for setting in state.settings:
        _match(NAME, setting, "name of a setting")


def _check_jobs(state: State) -> None:
    if not 1 <= len(state.jobs) <= MOST_JOBS or not 0 <= state.job < len(state.jobs):
        raise ValueError("number of jobs, or job, out of range")
    for job in state.jobs:
        if job.name or len(state.jobs) > 1:
            _match(NAME, job.name, "name of a job")
        _check_printable(job.problem, "problem")
        if not job.command:
            raise ValueError("command: no words")
        if any(not 0 <= number < len(state.plan) for number in job.failed):
            raise ValueError("failed: planned boot out of range")


def _check_progress(state: State) -> None:
    planned = len(state.plan)
    if not 0 <= state.next < planned + (state.phase not in _OF_ONE_BOOT):
        raise ValueError(f"planned boot {state.next} out of range in phase {state.phase}")
    if any(not 0 <= number < planned for number in state.done):
        raise ValueError("done: planned boot out of range")
    if len(set(state.done)) != len(state.done):
        raise ValueError("done: a boot is there twice")
    for name in ("attempt", "started", "status", "settle_s", "boot_limit_s"):
        _check_range(getattr(state, name), name)
    _check_range(state.boot_s or 0.0, "boot_s")


def _check_retest(retest: RetestState | None) -> None:
    if retest is None:
        return
    looks = [0, *retest.looks]
    if len(looks) == 1 or any(after <= before for before, after in zip(looks, looks[1:])):
        raise ValueError("looks: expected increasing numbers of boots")
    for text in (retest.plan, retest.request):
        _check_printable(text, "retest")
        if not isinstance(json.loads(text), dict):
            raise ValueError("retest: expected an object")  # noqa: TRY004 # one kind of damage


def _check_texts(state: State) -> None:
    _match(_SESSION, state.session, "session")
    if not is_hook(state.hook) and (state.phase, state.hook) != (PREPARE, AUTO):
        raise ValueError(f"hook: invalid value {state.hook[:64]!a}")
    if state.target:
        _match(HOST, state.target, "target")
    if state.default is not None:
        _match(RELEASE, state.default, "default")
    _check_printable(state.ended, "ended")
    _check_printable(state.before, "before")
    if not state.output.startswith("/"):
        raise ValueError("output: not an absolute path")
    words = [*state.options, state.output, state.hook]
    for job in state.jobs:
        words += [*job.options, *job.command, *job.recorded_as]
    if any("\0" in word for word in [*words, state.power or "", state.console or ""]):
        raise ValueError("a text has a zero byte")
    if state.owner is not None and (
        len(state.owner) != _OWNER_IDS or any(not 0 <= each < _MOST_IDS for each in state.owner)
    ):
        raise ValueError("owner: expected a user and a group id")


def _match(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.match(text):
        raise ValueError(f"{what}: invalid value {text[:64]!a}")


def _check_printable(text: str | None, what: str) -> None:
    if text is not None and not text.isprintable():
        raise ValueError(f"{what}: control characters")


def _check_range(value: float, what: str) -> None:
    if not 0 <= value <= _MOST_COUNTED:
        raise ValueError(f"{what}: out of range")


def _parse(kind: Any, value: Any, where: str) -> Any:
    """Return a JSON value as a type of the state.

    :raises ValueError: it has another type
    """
    if dataclasses.is_dataclass(kind):
        return _parse_object(kind, value, where)
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise ValueError(f"{where}: expected a list")
        return [_parse(get_args(kind)[0], each, f"{where}[{i}]") for i, each in enumerate(value)]
    if type(None) in get_args(kind):
        return None if value is None else _parse(get_args(kind)[0], value, where)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{where}: expected {kind.__name__}")
    return value


def _parse_object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object")  # noqa: TRY004 # one kind of damage
    hints = get_type_hints(kind)
    missing = [
        each.name
        for each in dataclasses.fields(kind)
        if each.name not in value
        and each.default is dataclasses.MISSING
        and each.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"{where}: no {missing[0]}")
    return kind(**{name: _parse(hints[name], value[name], name) for name in hints if name in value})
