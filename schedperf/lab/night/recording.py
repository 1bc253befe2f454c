# SPDX-License-Identifier: GPL-2.0-or-later
"""Record kernels by ``ab --kernel``, and continue a recording that was interrupted."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.lab.night.context import Context, Failed
from schedperf.lab.night.job import Job, jobs_file, recording_options
from schedperf.lab.night.state import NightError, NightKernel
from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import explain

JOBS = "jobs.json"
_LARGEST_BYTES = 16 << 20
_OVER = "over"
_USAGE = 2


class Boots(Struct, frozen=True, kw_only=True):
    """The progress of a recording of ``ab --kernel``.

    :param done: finished boots of all kernels
    :param total: planned boots of all kernels
    :param is_over: whether the recording has ended, with or without all boots
    """

    done: int
    total: int
    is_over: bool


class _Kernel(Struct, frozen=True):
    name: str


class _Recording(Struct, frozen=True):
    phase: str
    boots: int
    done: tuple[int, ...]
    kernels: tuple[_Kernel, ...]


class Refused(NightError):
    """The recorder refuses to record this, whenever it is asked."""

    exit_status = 1


def read_boots(prefix: Path) -> Boots | None:
    """Return the progress of the recording with this output prefix.

    :return: None if it has not begun, or its state cannot be read
    """
    path = Path(f"{prefix}.boots", "state.json")
    try:
        content = read_regular(path, _LARGEST_BYTES, "the state of a recording")
        recording = decode(content, _Recording, str(path))
    except InputError:
        return None
    return Boots(
        done=len(recording.done),
        total=recording.boots * len(recording.kernels),
        is_over=recording.phase == _OVER,
    )


def boot_options(context: Context, *, more: bool = True) -> list[str]:
    """Return the options of ``ab`` that say how the machine boots.

    :param more: also those that ``bisect run`` lacks
    """
    machine = context.machine
    optional = {
        "--machine": machine.recorded_name,
        "--boot-limit": machine.boot_limit,
        "--settle": machine.settle,
        "--power": machine.power,
        "--console": machine.console,
    }
    words = ["--boot", machine.boot, "--on", machine.reach]
    for option, value in optional.items():
        if value is not None and (more or option != "--machine"):
            words += [option, str(value)]
    return words


def record_kernels(
    context: Context,
    name: str,
    prefix: Path,
    *,
    kernels: Iterable[NightKernel],
    jobs: Sequence[Job],
    options: Sequence[str],
    watch: Callable[[], None] = lambda: None,
) -> str:
    """Boot kernels alternately and record them; continue an unfinished recording.

    :param name: name of the log
    :param prefix: output prefix
    :param options: more options of ``ab``, e.g. for the number of boots
    :param watch: called about every 2 s while it runs; if it raises, the recording is killed
    :return: the number of recorded boots, in words
    :raises NotNow: the machine may not be used now
    :raises NightError: the recording failed; :class:`Failed` if it cannot be continued, and
        :class:`Refused` if it did not begin
    """
    context.check_hours()
    if read_boots(prefix) is None:
        words = _command(context, prefix, kernels, jobs, options)
    else:
        words = ["ab", "continue", "-o", str(prefix)]
    stopped: list[str] = []

    def look() -> None:
        """Stop the recording when the permitted hours end or the disk is nearly full."""
        watch()
        try:
            context.check_hours()
            context.check_space()
        except NightError as error:
            if not stopped and read_boots(prefix) is not None:
                stopped.append(str(error))
                context.commands.schedperf("stop", ["ab", "stop", "-o", str(prefix)])

    status = context.commands.schedperf(name, words, look, limit_s=None)
    made = read_boots(prefix)
    counted = "no boot" if made is None else f"{made.done} of {made.total} boots"
    if stopped:
        raise Failed(f"{stopped[0]} ({counted} recorded, in {prefix.parent})")
    if status == _USAGE and made is None:
        raise Refused(context.commands.last_error(name))
    if status != 0:
        _judge_end(context, name, made, counted)
    return counted


def free(context: Context, prefix: Path) -> None:
    """Stop a recording that goes on, so that the machine boots its default kernel."""
    boots = read_boots(prefix)
    if boots is not None and not boots.is_over:
        context.commands.schedperf("stop", ["ab", "stop", "-o", str(prefix)])


def _command(
    context: Context,
    prefix: Path,
    kernels: Iterable[NightKernel],
    jobs: Sequence[Job],
    options: Sequence[str],
) -> list[str]:
    words = ["ab", "-o", str(prefix)]
    for kernel in kernels:
        words += ["--kernel", f"{kernel.name}={kernel.release}"]
        source = context.source(kernel.release)
        if source is not None:
            words += ["--source", f"{kernel.name}={source}"]
    words += [*options, *boot_options(context)]
    if len(jobs) == 1:
        return [*words, *recording_options(jobs[0]), "--", *jobs[0].run]
    path = prefix.with_name(JOBS)
    try:
        write_durably(path, jobs_file(jobs))
    except OSError as error:
        raise NightError(f"{path}: {explain(error)}; see `df`") from error
    return [*words, "--jobs", str(path)]


def _judge_end(context: Context, name: str, made: Boots | None, counted: str) -> None:
    """Note why a recording failed if all its boots are recorded nevertheless.

    :param counted: the number of recorded boots, in words
    :raises NightError: boots are missing; :class:`Failed` if the recording cannot continue
    """
    text = context.commands.last_error(name)
    if made is not None and made.is_over and made.done == made.total:
        context.night.note(f"{name}: {text}")
        return
    # A recording that is over does not go on.
    kind = Failed if made is not None and made.is_over else NightError
    raise kind(text if counted in text else f"{text} ({counted} recorded)")
