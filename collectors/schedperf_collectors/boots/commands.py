# SPDX-License-Identifier: GPL-2.0-or-later
"""Start recordings over several boots (``ab --kernel``), and continue, show and stop them."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedperf_collectors.boots import agent, unit
from schedperf_collectors.boots.call import GUESTS, check_name
from schedperf_collectors.boots.engine import (
    AFTER_RUN,
    NOW,
    STOPPED,
    Engine,
    Rebooting,
    Target,
    ab_command,
    output_path,
)
from schedperf_collectors.boots.examine import AUTO, Examination, examine
from schedperf_collectors.boots.retest import Judge, begin_retest
from schedperf_collectors.boots.shell import Unreachable, parse_host
from schedperf_collectors.boots.state import (
    CHOOSE,
    FOLDER,
    OVER,
    PREPARE,
    RECORD,
    STATE,
    STATE_VERSION,
    JobState,
    KernelState,
    State,
    Store,
    folder_of,
    is_folder,
)
from schedperf_collectors.boots.target import Here, There, own_archive
from schedperf_collectors.contract import PLACEHOLDER, format_template
from schedperf_collectors.machine.errors import (
    TRY_AGAIN,
    Interrupted,
    RecordError,
    explain,
    printable,
)
from schedperf_collectors.machine.kernel_files import Identity
from schedperf_collectors.machine.signals import signals
from schedperf_collectors.recorder.analysis import Analysis
from schedperf_collectors.recorder.boot_options import (
    BOOT_LIMIT_S,
    BOOTS,
    SETTLE_S,
    without_boots,
)
from schedperf_collectors.recorder.bundle import Existing, check_output
from schedperf_collectors.recorder.options import descriptors
from schedperf_collectors.recorder.progress import Progress, count_of
from schedperf_collectors.recorder.record import examine_same
from schedperf_collectors.recorder.request import Request
from schedperf_collectors.recorder.source import format_source, named_sources, read_source

_STOP = "stop"
_LOG = "log"
_LOCK = "lock"
_FEWEST_KERNELS = 2
_IMAGE = "/boot/vmlinuz-"
# The engine asks between two steps; the recorder of a boot needs time to finish its bundles.
_STOPS_WITHIN_S = 180.0
_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True)
class PlannedJob:
    """A benchmark that each boot records.

    :param name: that in the file of --jobs; "" without a file
    :param options: options besides those of all jobs
    :param recorded_as: the command that records only this job
    :param request: what is recorded, without the commit of a kernel
    """

    name: str
    options: Sequence[str]
    recorded_as: Sequence[str]
    request: Request


def start(
    options: argparse.Namespace,
    arguments: Sequence[str],
    jobs: Sequence[PlannedJob],
    names: list[str],
) -> int:
    """Start a recording over several boots, and run it; return its exit status.

    With ``--resume``, the first reboot of this machine ends the call with exit status 0.

    :param options: the parsed options
    :param arguments: all options as given
    :param jobs: what each boot records, in this order; at least one
    :param names: names of the settings that each boot records; empty if there is only one
    :raises RecordError: it cannot start or continue, or has not recorded all boots
    """
    _check(options, arguments, jobs[0].request.template)
    target: Target = Here() if options.resume else There(parse_host(options.on))
    with signals:
        state = _new_state(options, arguments, jobs, names)
        folder = _folder(state)
        _refuse_unfinished(folder, state)
        _check_bundles(state, [job.request for job in jobs], force=options.force)
        analysis = _analysis(options.ask_fd, quiet=options.quiet)
        if options.retest is not None and analysis is not None:
            requests = [job.request for job in jobs]
            state.retest, job = begin_retest(analysis, options, requests)
            # Only the workload of the result is recorded.
            state.jobs = [state.jobs[job]]
            state.boots = state.retest.looks[-1]
        _contact(target)
        _write_first(folder, state)
    return _drive(folder, target, quiet=options.quiet, analysis=analysis)


def _analysis(ask_fd: tuple[int, int] | None, *, quiet: bool) -> Analysis | None:
    return None if ask_fd is None else Analysis(ask_fd, Progress(quiet=quiet))


def resume() -> int:
    """Continue after a boot of this machine; return the exit status. The systemd unit calls this.

    :raises RecordError: the recording cannot continue, or has not recorded all boots
    """
    return _drive(agent.HOME, Here(), quiet=False)


def parse_action(action: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``ab continue``, ``ab status`` or ``ab stop``.

    :param action: "continue", "status" or "stop"
    :return: ``output``, ``on`` and ``ask_fd``, each None if not given; ``now``, whether --now is
        given
    :raises RecordError: an argument is invalid
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output")
    parser.add_argument("--on")
    asking = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    asking.add_argument("--ask-fd", type=descriptors)
    asked, arguments = asking.parse_known_args(arguments)
    usage = f"ab {action} [-o PREFIX]"
    flags = [word for word in arguments if action == "stop" and word == "--now"]
    words = [word for word in arguments if word not in {"-h", "--help", *flags}]
    if len(words) % 2 or any(word.startswith("-") for word in words[1::2]):
        raise RecordError(f"ab {action} {' '.join(words)[:99]}: unexpected argument; use: {usage}")
    options, unknown = parser.parse_known_args(words)
    if unknown:
        raise RecordError(f"ab {action} {unknown[0][:100]}: unexpected argument; use: {usage}")
    options.now = bool(flags)
    options.ask_fd = asked.ask_fd
    return options


def act(action: str, options: argparse.Namespace) -> bool:
    """Run ``ab continue``, ``ab status`` or ``ab stop`` for a recording over several boots.

    :param action: "continue", "status" or "stop"
    :param options: of :func:`parse_action`
    :return: False if the caller must look for recordings that boot no kernel, because there is no
        recording over several boots, or (for "status", and for "stop" without -o) because it has
        ended
    :raises RecordError: the action failed; for "continue" and "status", -o names no such recording
    """
    if options.on is not None:
        _act_there(action, options.on)
        return True
    folder = agent.HOME if options.output is None else folder_of(options.output)
    store = Store(folder / STATE)
    # Without a state, `stop -o` means a recording that boots no kernel.
    if not store.path.exists() and (options.output is None or action == "stop"):
        return False
    state = store.read()
    # A finished recording here does not hide other recordings of this machine.
    if options.output is None and state.phase == OVER and action == "stop":
        return False
    if action == "status":
        for line in _describe(state, folder):
            sys.stdout.write(f"{line}\n")
        return state.phase != OVER
    target: Target = There(parse_host(state.target)) if state.target else Here()
    if action == "stop":
        _stop(state, folder, target, at_once=options.now)
        return True
    # If another program carries out a stop, this one does not interfere.
    with _locked(folder):
        (folder / _STOP).unlink(missing_ok=True)
    _drive(folder, target, quiet=False, analysis=_analysis(options.ask_fd, quiet=False))
    return True


def _act_there(action: str, on: str) -> None:
    """Print what a target is doing, or stop its recording and remove the bundles there.

    This is meant for a target whose controller no longer exists.

    :raises RecordError: the target cannot be reached, the action failed, or a recording is to be
        continued, which needs the controller's state
    """
    try:
        target = There(parse_host(on))
        look = target.act("look")
    except (ValueError, Unreachable) as error:
        raise RecordError(f"--on {on}: {error}") from error
    session = look["claim"]
    job = look["job"]["state"]
    if session is None:
        sys.stdout.write(f"{target.name}: no recording\n")
    elif action == "status":
        sys.stdout.write(f"{target.name}: {look['release']}, recording of this boot: {job}\n")
    elif action == "stop":
        target.act("stop")
        target.act("release", str(session))
        sys.stdout.write(f"{target.name}: freed; its bundles of this recording were removed\n")
    else:
        raise RecordError("ab continue --on: give -o PREFIX, where the controller has its state")


def _check(options: argparse.Namespace, arguments: Sequence[str], command: Sequence[str]) -> None:
    if options.output is None:
        raise RecordError("no output file; give -o PREFIX")
    _check_kernels(options)
    if options.boot == GUESTS:
        _refuse_guests(options, arguments, command)
    _check_target(options)


def _check_kernels(options: argparse.Namespace) -> None:
    if len(options.kernel) < _FEWEST_KERNELS and not options.append:
        raise RecordError(
            f"--kernel {options.kernel[0][0]}: one kernel given (expected two or more); add "
            "another --kernel NAME=REL, or --append to add boots of one kernel to its bundle"
        )
    for part, what in ((0, "name"), (1, "release")):
        given = [kernel[part] for kernel in options.kernel]
        for value in given:
            if given.count(value) > 1:
                raise RecordError(f"--kernel: {what} {value} given twice; give different kernels")
    for _, release in options.kernel:
        if "/" in release and options.boot != GUESTS:
            raise RecordError(
                f"--kernel {release}: invalid release (expected that of an installed kernel, e.g. "
                f"6.1.0-50-amd64; see `ls /lib/modules`); images boot with --boot {GUESTS} only"
            )


def _check_target(options: argparse.Namespace) -> None:
    if (options.on is None) == (not options.resume):
        raise RecordError(
            "--kernel: give either --on ssh:HOST (another machine boots) or --resume (this machine "
            "boots)"
        )
    if options.boot not in {None, AUTO}:
        check_name(options.boot)
    if options.resume and (options.power or options.console):
        raise RecordError("--power and --console: only valid with --on; omit them")


def _refuse_guests(
    options: argparse.Namespace, arguments: Sequence[str], command: Sequence[str]
) -> None:
    """Raise an error with the command that records in guests, which the recorder cannot boot."""
    if options.retest is not None:
        raise RecordError(
            f"--retest: cannot be combined with --boot {GUESTS}; omit --boot, or record a fixed "
            "number of boots with --boots"
        )
    if options.jobs is not None:
        raise RecordError(
            f"--jobs: cannot be combined with --boot {GUESTS}, because guests record one command "
            "per boot; give a command after --"
        )
    for name in ("feature", "setup", "teardown", "service"):
        if getattr(options, name):
            raise RecordError(
                f"--{name}: cannot be combined with --boot {GUESTS}, because guests record one "
                f"setting per command; omit --{name}, and use `schedperf vm --setup`"
            )
    words = [
        *(
            word
            for name, release in options.kernel
            for word in ("--kernel", f"{name}={release if '/' in release else _IMAGE + release}")
        ),
        *("--boots", str(options.boots or BOOTS)),
        *(
            word
            for name, source in options.source
            for word in ("--source", f"{name}={format_source(source)}")
        ),
        *("--output", options.output),
        *(["--add-boots"] if options.append else []),
        *without_boots(arguments),
    ]
    said = format_template(["schedperf", "vm", *words, "--", *command])
    raise RecordError(f"--boot {GUESTS}: guests are booted by `schedperf vm`; run: {said}")


def _new_state(
    options: argparse.Namespace,
    arguments: Sequence[str],
    jobs: Sequence[PlannedJob],
    names: list[str],
) -> State:
    output = str(Path(options.output).absolute())
    if is_folder(options.output):
        output += "/"
    if not Path(output).parent.is_dir():
        raise RecordError(f"{Path(output).parent}: no such directory; create it first")
    names_of_kernels = [name for name, _ in options.kernel]
    sources = {
        name: format_source(source)
        for name, source in named_sources(options.source, names_of_kernels).items()
    }
    return State(
        version=STATE_VERSION,
        session=uuid.uuid4().hex,
        target=options.on or "",
        hook=options.boot or AUTO,
        kernels=[
            KernelState(name, release, source=sources.get(name)) for name, release in options.kernel
        ],
        boots=options.boots or BOOTS,
        options=without_boots(arguments),
        jobs=[
            JobState(
                name=job.name,
                options=list(job.options),
                command=list(job.request.template),
                recorded_as=list(job.recorded_as),
            )
            for job in jobs
        ],
        is_design=bool(names),
        settings=names,
        output=output,
        boot_limit_s=options.boot_limit or BOOT_LIMIT_S,
        settle_s=SETTLE_S if options.settle is None else options.settle,
        owner=_owner(),
        power=_program(options.power),
        console=_program(options.console),
        is_append=options.append,
        phase=PREPARE,
    )


def _owner() -> list[int] | None:
    """Return user and group id of the user who called sudo; None without sudo."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if user.isdigit() and group.isdigit():
        return [int(user), int(group)]
    return None


def _program(path: str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


def _check_bundles(state: State, requests: Sequence[Request], *, force: bool) -> None:
    """Check the bundles to write, and read the kernels of those to which boots are added.

    :raises RecordError: a new bundle cannot be written, or boots cannot be added to an existing one
    """
    for index, kernel in enumerate(state.kernels):
        source = None if kernel.source is None else read_source(kernel.source)
        for name in state.bundles(index):
            path, reason = output_path(state, name), None
            if state.is_append and path.exists():
                for request in requests:
                    existing = examine_same(path, replace(request, source=source), Progress())
                kernel.identity = _kernel_of(existing, kernel)
                reason = existing.manifest.get("incomplete_reason")
            else:
                check_output(path, force=force)
            kernel.incomplete.append(None if reason is None else printable(str(reason)))


def _kernel_of(existing: Existing, kernel: KernelState) -> Identity:
    """Return the kernel of a bundle to which boots of a kernel are added.

    :raises RecordError: the bundle is of another kernel or of several, or names none
    """
    releases = ", ".join(dict.fromkeys(each.release for each in existing.kernels))
    if releases != kernel.release:
        raise RecordError(
            f"{existing.path}: has boots of {releases or 'an unknown kernel'} (expected "
            f"{kernel.release}, as --kernel {kernel.name}); give another -o or name"
        )
    identity = kernel.identity or existing.kernels[0]
    if not all(each.is_same_build(identity) for each in existing.kernels):
        raise RecordError(
            f"{existing.path}: boots of several builds of {kernel.release} (expected one); give "
            "another -o"
        )
    if not f"{identity.version}{identity.build_id}".isprintable():
        raise RecordError(f"{existing.path}: invalid version of its kernel; record a new bundle")
    return identity


def _contact(target: Target) -> None:
    """Check that the target answers and can be used; copy the recorder to another machine.

    :raises RecordError: this user is not root (``--resume``), systemd does not run here, the target
        does not answer, or another session has claimed it
    """
    if isinstance(target, Here):
        if os.geteuid() != 0:
            raise RecordError("--resume: needs root (it reboots this machine); use sudo")
        unit.check()
        return
    try:
        # The recorder there executes the following steps.
        target.install(own_archive())
    except Unreachable as error:
        raise RecordError(
            f"--on ssh:{target.name}: {error}; check with `ssh {target.name} true`", TRY_AGAIN
        ) from error


def _write_first(folder: Path, state: State) -> None:
    """Write the state of a new recording.

    It is written before the target is claimed, so that a killed controller can continue.

    :raises RecordError: there is an unfinished recording, or the state cannot be written
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{folder}: {explain(error)}; give another -o") from error
    with _locked(folder):
        # Another start may have been faster.
        _refuse_unfinished(folder, state)
        (folder / _STOP).unlink(missing_ok=True)
        Store(folder / STATE).write(state)


def _refuse_unfinished(folder: Path, state: State) -> None:
    """Reject a recording whose files belong to an unfinished one.

    :raises RecordError: there is one
    """
    store = Store(folder / STATE)
    if store.path.exists() and store.read().phase != OVER:
        raise RecordError(
            f"{folder}: unfinished recording; go on with `{ab_command('continue', state)}`, or end "
            f"it with `{ab_command('stop', state)}`"
        )


def _begin(folder: Path, target: Target) -> None:
    """Claim and check the target, and copy to it what the recording needs.

    If it fails, the target is released, and the files of the recording are removed. They are kept
    if the target does not answer or a signal interrupts, because it may be claimed: it may still
    carry out what was sent.

    :raises RecordError: another session has claimed the target, boots are held there, a check
        failed, or the target does not answer
    """
    store = Store(folder / STATE)
    state = store.read()
    try:
        _prepare(target, state)
        store.write(state)
    except Unreachable as error:
        raise RecordError(
            f"{target.name}: {error}; start it, then run `{ab_command('continue', state)}`",
            TRY_AGAIN,
        ) from error
    except Interrupted as error:
        raise RecordError(
            f"interrupted; go on with `{ab_command('continue', state)}`, or end the recording with "
            f"`{ab_command('stop', state)}`",
            error.exit_status,
        ) from error
    except BaseException:
        with contextlib.suppress(Unreachable):
            _abandon(folder, target, state)
        raise
    if target.is_here:
        _tell(
            folder,
            f"{count_of(len(state.plan), 'boot')}; this machine reboots now and goes on by itself; "
            "see: schedperf ab status",
            quiet=False,
        )


def _prepare(target: Target, state: State) -> None:
    """Claim and check the target, and copy the existing bundles to it; update the state.

    :raises RecordError: another session has claimed the target, boots are held there, or a check
        failed
    :raises Unreachable: the target does not answer
    """
    where = f"ssh:{target.name}" if not target.is_here else "--resume"
    free = ab_command("stop", state)
    who = f"{os.environ.get('SUDO_USER') or os.environ.get('USER') or 'root'} {where}"
    target.act("space")
    target.act("claim", state.session, who, free)
    examination = _examine(target, state)
    _check_programs(target, state)
    for index in range(len(state.kernels)):
        for name in state.bundles(index):
            path = output_path(state, name)
            if state.is_append and path.exists():
                target.store(name, path)
    if isinstance(target, Here):
        target.install(own_archive())
        unit.install()
    state.hook = examination.hook
    state.default = examination.default
    state.phase = CHOOSE


def _check_programs(target: Target, state: State) -> None:
    """Check that the programs of all jobs exist on the target.

    :raises RecordError: a program does not exist
    :raises Unreachable: the target does not answer
    """
    for job in state.jobs:
        # The values of placeholders are known to the recorder of the boot.
        if PLACEHOLDER.search(job.command[0]):
            continue
        if target.act("programs", job.command[0])["missing"]:
            where = f"--jobs: job {job.name}: " if job.name else ""
            raise RecordError(
                f"{where}{job.command[0]}: no such program on {target.name}; install it there or "
                "give its path"
            )


def _abandon(folder: Path, target: Target, state: State) -> None:
    """Release the target of a recording that has not begun, and remove the recording's files.

    :raises Unreachable: the target does not answer; the files are kept
    """
    with contextlib.suppress(RecordError):
        # The recorder may be that of another session.
        if isinstance(target, Here) and target.act("look")["claim"] == state.session:
            target.uninstall()
            unit.remove()
    with contextlib.suppress(RecordError):
        target.act("release", state.session)
    with contextlib.suppress(OSError):
        for name in (STATE, _STOP, _LOG, _LOCK):
            (folder / name).unlink(missing_ok=True)
        if not target.is_here:
            folder.rmdir()


def _examine(target: Target, state: State) -> Examination:
    running = target.act("look")
    if running["is_held"]:
        raise RecordError(f"{agent.HOLD} exists on {target.name}; remove it to allow boots")
    releases = [kernel.release for kernel in state.kernels]
    examination = examine(target.call, state.hook, releases, running["release"])
    _refuse(examination)
    return examination


def _refuse(examination: Examination) -> None:
    for kernel in examination.kernels:
        for problem in kernel.problems:
            more = examination.problems - 1
            others = f" ({more} more: see `schedperf doctor --boot`)" if more else ""
            remedy = f"; {problem.remedy}" if problem.remedy else ""
            raise RecordError(f"--kernel {kernel.release}: {problem.text}{remedy}{others}")
    if examination.armed is not None:
        raise RecordError(
            f"--boot {examination.hook}: a one-shot boot entry is already set "
            f"({examination.armed}); reboot, or cancel it"
        )


def _folder(state: State) -> Path:
    return agent.HOME if not state.target else folder_of(state.output)


def _drive(folder: Path, target: Target, *, quiet: bool, analysis: Analysis | None = None) -> int:
    """Run the recording to its end, or until this machine reboots; return the exit status.

    :param analysis: decides when the boots of a retest suffice; None if there is no retest, or to
        end one
    :raises RecordError: another program runs it, it cannot begin, it cannot continue now (the exit
        status is TRY_AGAIN), a signal interrupted it (with --on; else 0 is returned), or it has not
        recorded all boots
    """
    stop = folder / _STOP
    with _locked(folder), signals:
        if Store(folder / STATE).read().phase == PREPARE:
            _begin(folder, target)
        engine = Engine(
            Store(folder / STATE),
            target,
            functools.partial(_tell, folder, quiet=quiet),
            functools.partial(_asked_to_stop, stop),
            lambda: _finish_here(engine.state),
            judge=Judge(analysis),
        )
        try:
            engine.run()
        except Rebooting:
            return 0
        except Interrupted as error:
            if not target.is_here:
                raise RecordError(
                    f"interrupted; {target.name} finishes the recording of this boot; go on with: "
                    f"{engine.continue_command()}",
                    error.exit_status,
                ) from error
            return 0
        except RecordError as error:
            raise RecordError(str(error), TRY_AGAIN) from error
    return _conclude(engine.state)


def _conclude(state: State) -> int:
    """Print that all boots were recorded; return the exit status.

    :raises RecordError: boots are missing, or a one-shot boot entry could not be cancelled
    """
    said = [f"{kernel.name}: {kernel.gave_up}" for kernel in state.kernels if kernel.gave_up]
    if state.ended is not None:
        said.append(state.ended)
    names = [name for index in range(len(state.kernels)) for name in state.bundles(index)]
    paths = [str(path) for path in (output_path(state, name) for name in names) if path.exists()]
    kept = f"finished runs are in {', '.join(paths)}" if paths else "no run was finished"
    said += state.failures()
    if said:
        raise RecordError(
            f"{'; '.join(said)} ({len(state.done)} of {len(state.plan)} boots recorded); {kept}",
            state.status or 1,
        )
    sys.stderr.write(
        f"schedperf: {count_of(len(state.done), 'boot')} recorded in {', '.join(paths)}\n"
    )
    return state.status


def _finish_here(state: State) -> None:
    """Remove the unit, and change the owner of the bundles to the user who called sudo, if any."""
    unit.remove()
    if state.owner is not None:
        for index in range(len(state.kernels)):
            for name in state.bundles(index):
                with contextlib.suppress(OSError):
                    os.chown(output_path(state, name), *state.owner)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        file = (folder / _LOCK).open("ab")
    except OSError as error:
        raise RecordError(f"{folder}: {explain(error)}; give the -o of the recording") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RecordError(
                f"{folder}: another schedperf drives this recording; see: {_status_command(folder)}"
            ) from error
        yield


def _status_command(folder: Path) -> str:
    """Return the command that shows a recording, without reading its state."""
    output = [] if folder == agent.HOME else ["-o", _output_of(folder)]
    return shlex.join(["schedperf", "ab", "status", *output])


def _output_of(folder: Path) -> str:
    """Return the PREFIX of the recording whose state is in this folder."""
    return f"{folder.parent}/" if folder.name == FOLDER else str(folder.with_suffix(""))


def _tell(folder: Path, line: str, *, quiet: bool) -> None:
    if not quiet:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    with contextlib.suppress(OSError), (folder / _LOG).open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")


def _describe(state: State, folder: Path) -> Iterator[str]:
    total = len(state.plan)
    where = state.target or "this machine"
    if state.phase == OVER:
        yield f"{where}: ended; {len(state.done)} of {total} boots recorded"
    else:
        stopping = ", stopping" if (folder / _STOP).exists() else ""
        yield f"{where}: {state.phase}, {len(state.done)} of {total} boots recorded{stopping}"
    for index, kernel in enumerate(state.kernels):
        made = state.made(index)
        gave_up = f"; {kernel.gave_up}" if kernel.gave_up else ""
        yield f"{kernel.name} ({kernel.release}): {made} of {state.boots} boots{gave_up}"
    yield from _describe_jobs(state)
    if state.ended is not None:
        yield f"ended: {state.ended}"


def _describe_jobs(state: State) -> Iterator[str]:
    """Yield which job is recorded, what failed, and how long the other boots will take."""
    if state.phase == RECORD and len(state.jobs) > 1:
        name = state.jobs[state.job].name
        yield f"boot {state.next + 1}: job {state.job + 1} of {len(state.jobs)} ({name})"
    yield from state.failures()
    left = len(state.plan) - len(state.done)
    if state.boot_s is not None and state.phase != OVER and left and state.retest is None:
        minutes = round(state.boot_s * left / 60)
        took = f"the last boot took {state.boot_s / 60:.0f} min"
        yield f"about {minutes // 60} h {minutes % 60:02} min left ({took})"


def _asked_to_stop(stop: Path) -> str | None:
    """Return how the user asked to stop: NOW or AFTER_RUN; None if the user did not."""
    try:
        return NOW if stop.read_text(encoding="ascii", errors="replace") == NOW else AFTER_RUN
    except FileNotFoundError:
        return None


def _stop(state: State, folder: Path, target: Target, *, at_once: bool) -> int:
    """End the recording, by the program that runs it or by this one; return exit status 0.

    :param at_once: whether to end the current run, too; a second call always does so
    :raises RecordError: it could not be ended, or a one-shot boot entry could not be cancelled
    """
    if state.phase == OVER:
        sys.stdout.write("the recording has already ended\n")
        return 0
    stop = folder / _STOP
    is_second = stop.exists()
    try:
        stop.write_text(NOW if at_once or is_second else AFTER_RUN, encoding="ascii")
    except OSError as error:
        raise RecordError(f"{stop}: {explain(error)}; run as root, or free space") from error
    with signals:
        _await_driver(folder, stop)
        if _ended_before_it_began(folder, target):
            sys.stdout.write(f"ended; 0 of {len(state.plan)} boots recorded\n")
            return 0
    failure: RecordError | None = None
    if Store(folder / STATE).read().phase != OVER:
        try:
            _drive(folder, target, quiet=False)
        except RecordError as error:
            # The reason is this request; other reasons are printed below.
            failure = error
    ended = Store(folder / STATE).read()
    if ended.phase != OVER:
        again = f"run `{ab_command('stop', ended)}` again"
        if failure is None:
            raise RecordError(f"{folder}: not ended yet; {again}")
        text = str(failure) if " ab stop" in str(failure) else f"{failure}; {again}"
        raise RecordError(f"not ended: {text}", failure.exit_status)
    if ended.ended is not None and ended.ended.startswith(f"{STOPPED}; "):
        raise RecordError(ended.ended, ended.status or 1)
    sys.stdout.write(f"ended; {len(ended.done)} of {len(ended.plan)} boots recorded\n")
    return 0


def _ended_before_it_began(folder: Path, target: Target) -> bool:
    """End a recording that has not claimed and checked its target; return whether it was one.

    :raises RecordError: the target does not answer
    """
    state = Store(folder / STATE).read()
    if state.phase != PREPARE:
        return False
    with _locked(folder):
        try:
            _abandon(folder, target, state)
        except Unreachable as error:
            raise RecordError(
                f"not ended: {target.name}: {error}; run `{ab_command('stop', state)}` again",
                TRY_AGAIN,
            ) from error
    return True


def _await_driver(folder: Path, stop: Path) -> None:
    """Wait until no other program runs the recording.

    If the user asked to end the current run, too, wait at most ``_STOPS_WITHIN_S``.

    :raises Interrupted: a signal asks to terminate; the recording still stops
    """
    until: float | None = None
    while True:
        with contextlib.suppress(RecordError), _locked(folder):
            return
        if until is None and _asked_to_stop(stop) == NOW:
            until = time.monotonic() + _STOPS_WITHIN_S
        if until is not None and time.monotonic() > until:
            return
        signals.wait(_LOOK_AGAIN_S)
        signals.check()
