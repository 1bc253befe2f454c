# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide which commands record bundles again, where their output goes, and what is missing."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from schedperf.commands._rerun_commands import (
    Boots,
    Changes,
    Command,
    Recording,
    names_of_sides,
    read_recording,
    record_boots,
    record_in_guests,
    record_in_turns,
    record_side,
    show,
    works_of_boots,
)
from schedperf.compare.advice.intent import as_argument
from schedperf.compare.advice.recorded import Program
from schedperf.compare.comparability import blocking_fields, flatten_host
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import Side, name_sides
from schedperf.model.errors import InputError
from schedperf.model.host import has_other_kernel, read_host
from schedperf.model.text import clean_line, join_names, list_some
from schedperf_collectors.contract import PLACEHOLDER, temporary_prefix
from schedperf_collectors.host import describe_host
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import Capture

DEFAULT_FOLDER = "rerun"
FEWEST_SIDES = 2
# Number of fields that a note lists.
MOST_FIELDS = 4
# Groups of host.json that no setup changes.
FIXED_GROUPS = ("kernel.", "cpu.", "topology.", "memory.", "virtualisation.")

Host = Mapping[str, object]


class Request(Struct, frozen=True, kw_only=True):
    """What the user asked for.

    :param paths: the bundles, base first
    :param kernels: images for guests, by the names of the bundles; empty without guests
    :param append: add runs to the given bundles
    :param output: directory for new bundles; None for ``rerun``, ``rerun-2`` ...
    :param every_side: plan the commands of all sides, even of those whose kernel is not booted
    """

    paths: tuple[Path, ...]
    changes: Changes
    kernels: Mapping[str, str]
    append: bool
    output: Path | None
    every_side: bool


class Plan(Struct, frozen=True, kw_only=True):
    """The commands to run, and what the user must know about them.

    :param folder: directory of the new bundles; None if runs are appended
    :param notes: what the user should know before they run, one line each
    :param missing: what the commands need and this machine lacks, one clause each
    :param afterwards: what to do when all commands have ended, one line each
    """

    commands: tuple[Command, ...]
    folder: Path | None
    notes: tuple[str, ...]
    missing: tuple[str, ...]
    afterwards: tuple[str, ...]


class _Candidate(Struct, frozen=True, kw_only=True):
    """One bundle, and what this machine lacks to record it.

    :param target: path of the bundle to write, or to add to
    :param steps: what has to be done first: "boot 6.12-tip (build id 3f2a…)"; () if nothing has to
        be done
    """

    recording: Recording
    side: Side
    target: str
    steps: tuple[str, ...]

    @property
    def host(self) -> Host:
        """Return host.json of the first boot."""
        return self.side.bundle.host_fields


def make_plan(request: Request) -> Plan:
    """Return the plan that records the bundles again.

    :raises InputError: a bundle cannot be read or recorded again; the bundles or options do not fit
        each other; the output exists; or another kernel must be booted before any side is recorded
    """
    bundles = [open_bundle(path) for path in request.paths]
    recordings = [read_recording(bundle) for bundle in bundles]
    program = _choose_program(request, recordings, bundles)
    if program == "vm":
        return _plan_guests(request, recordings)
    if program == "boots":
        return _plan_boots(request, recordings)
    here = describe_this_machine()
    are_interleaved = program == "ab"
    names = [
        recording.path if request.append else name
        for recording, name in zip(
            recordings, _file_names(recordings, are_interleaved=are_interleaved), strict=True
        )
    ]
    steps = [
        () if are_interleaved else tuple(_steps(each, bundles, here, request)) for each in bundles
    ]
    folder = None if request.append else _folder(request.output, names, are_apart=any(steps))
    sides = [
        _Candidate(
            recording=_of_kernel(recording, side, here, step),
            side=side,
            target=name if folder is None else as_argument(str(folder / name)),
            steps=step,
        )
        for recording, side, name, step in zip(
            recordings, name_sides(bundles), names, steps, strict=True
        )
    ]
    if are_interleaved:
        recorded = sides
        commands = tuple(_in_turns(sides, request))
    else:
        is_new = folder is not None
        recorded = sides if request.every_side else _choose_ready(sides, is_new=is_new)
        commands = tuple(
            _record(side, index, request) for side in recorded for index in _indices(side)
        )
    return Plan(
        commands=commands,
        folder=folder,
        notes=tuple(_notes(recorded, here, request)),
        missing=tuple(_missing([side.recording for side in recorded])),
        # `schedperf ab` ends with the command that compares.
        afterwards=() if are_interleaved else tuple(_afterwards(sides)),
    )


def _of_kernel(recording: Recording, side: Side, here: Host, steps: Sequence[str]) -> Recording:
    """Return a recording without its commit if a different kernel runs and no steps are needed.

    :param here: host.json of this machine
    :param steps: what has to be done first, e.g. to boot the recorded kernel
    """
    if steps or not has_other_kernel(side.bundle.host_fields, here):
        return recording
    return replace(recording, source="")


def describe_this_machine() -> Host:
    """Return host.json of this machine, without executing anything from a bundle."""
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        capture = Capture(Path(folder), os.getpid(), {})
        # Convert the values as JSON would: tuples become lists, and numeric keys become strings.
        fields: Host = json.loads(json.dumps(describe_host(System(), capture)))
    return fields


def _choose_program(
    request: Request, recordings: Sequence[Recording], bundles: Sequence[Bundle]
) -> Program:
    programs = {recording.program for recording in recordings}
    if request.kernels or programs == {"vm"}:
        return "vm"
    if programs == {"boots"}:
        return "boots"
    if "vm" in programs:
        raise InputError(
            "some of the bundles were recorded in guests and some were not (expected all or none); "
            "give --kernel NAME=IMAGE for each bundle, to record all of them in guests"
        )
    if request.changes.boots is not None:
        raise InputError(
            "--boots: only valid for guests and for bundles of `ab --kernel`; add --kernel "
            "NAME=IMAGE for each bundle, to record in guests"
        )
    hosts = [bundle.host_fields for bundle in bundles]
    is_one_kernel = not any(has_other_kernel(hosts[0], host) for host in hosts)
    if "ab" not in programs or len(bundles) == 1 or request.append or not is_one_kernel:
        return "record"
    if len(bundles) > FEWEST_SIDES and names_of_sides(recordings) is None:
        raise InputError(
            f"{len(bundles)} bundles given (expected {FEWEST_SIDES}, because schedperf ab "
            "recorded them as base and new); give base and one new side"
        )
    return "ab"


def _file_names(recordings: Sequence[Recording], *, are_interleaved: bool) -> list[str]:
    """Return the names of the new bundles, each different."""
    sides = names_of_sides(recordings) if are_interleaved else None
    if sides is not None:
        return [f"{side}.tar" for side in sides]
    names: list[str] = []
    for recording in recordings:
        numbered = (f"{recording.stem}-{number}.tar" for number in count(2))
        candidates = chain([f"{recording.stem}.tar"], numbered)
        names.append(next(name for name in candidates if name not in names))
    return names


def _folder(output: Path | None, names: Sequence[str], *, are_apart: bool) -> Path:
    """Return the directory of the new bundles.

    :param are_apart: whether a side will be recorded later, so that some bundles may exist already
    :raises InputError: bundles exist in ``output``, but must not
    """
    enough = all if are_apart else any
    if output is not None:
        existing = [output / name for name in names if (output / name).exists()]
        if existing and (not are_apart or len(existing) == len(names)):
            raise InputError(f"{existing[0]} already exists; give another directory with -o")
        return output
    candidates = (
        Path(DEFAULT_FOLDER if number == 1 else f"{DEFAULT_FOLDER}-{number}") for number in count(1)
    )
    return next(path for path in candidates if not enough((path / name).exists() for name in names))


def _steps(
    bundle: Bundle, bundles: Sequence[Bundle], here: Host, request: Request
) -> Iterator[str]:
    """Yield what has to be done before this side can be recorded on this machine."""
    host = bundle.host_fields
    are_kernels = any(has_other_kernel(host, other.host_fields) for other in bundles)
    if (are_kernels or request.append) and has_other_kernel(host, here):
        yield f"boot {_name_kernel(host)}"
    if bundle.setup or bundle.service or are_kernels or len(bundles) == 1:
        return
    # One kernel, no setup and no service: the user set what differs.
    recorded, fields = flatten_host(host), flatten_host(here)
    for path in bundle.treatment:
        values = {repr(flatten_host(other.host_fields).get(path)) for other in bundles}
        if len(values) > 1 and fields.get(path) != recorded.get(path):
            yield f"set {path} to {clean_line(str(recorded.get(path)))}"


def _name_kernel(host: Host) -> str:
    kernel = read_host(host).kernel
    build_id = f"build id {kernel.build_id}" if kernel.build_id else kernel.version
    known = f" ({build_id})" if build_id else ""
    return clean_line(f"{kernel.release or 'its kernel'}{known}")


def _choose_ready(sides: Sequence[_Candidate], *, is_new: bool) -> list[_Candidate]:
    ready = [side for side in sides if not side.steps]
    chosen = [side for side in ready if not (is_new and Path(side.target).exists())]
    if chosen:
        return chosen
    done = f"{', '.join(side.target for side in ready)}: already recorded; " if ready else ""
    raise InputError(f"{done}{_join_steps(sides)}, then repeat this command")


def _join_steps(sides: Sequence[_Candidate]) -> str:
    names: dict[str, list[str]] = {}
    for side in sides:
        if side.steps:
            names.setdefault(join_names(side.steps), []).append(side.recording.stem)
    if len(names) == 1:
        return next(iter(names))
    return ", or ".join(f"{steps} for {join_names(who)}" for steps, who in names.items())


def _indices(side: _Candidate) -> range:
    return range(len(side.recording.workloads))


def _record(side: _Candidate, index: int, request: Request) -> Command:
    return record_side(
        side.recording,
        side.recording.workloads[index],
        side.target,
        request.changes,
        append=request.append or index > 0,
    )


def _in_turns(sides: Sequence[_Candidate], request: Request) -> Iterator[Command]:
    recordings = [side.recording for side in sides]
    for index, work in enumerate(_common(recordings)):
        yield record_in_turns(
            recordings,
            recordings[0].workloads[work],
            [side.target for side in sides],
            request.changes,
            append=request.append or index > 0,
        )


def _common(recordings: Sequence[Recording]) -> list[int]:
    """Return the indexes, in base, of the workloads that all sides have.

    :raises InputError: there is none
    """
    names = [{work.given.name for work in recording.workloads} for recording in recordings]
    common = [
        place
        for place, work in enumerate(recordings[0].workloads)
        if all(work.given.name in each for each in names)
    ]
    if not common:
        raise InputError(
            "the bundles have no workload in common (expected the same command on all sides); "
            "record them again one by one"
        )
    return common


def _plan_guests(request: Request, recordings: Sequence[Recording]) -> Plan:
    lacking = [r.stem for r in recordings if r.stem not in request.kernels]
    if lacking:
        needed = " ".join(f"--kernel {name}=IMAGE" for name in lacking)
        raise InputError(f"the kernel image of {lacking[0]} is not in the bundle; add {needed}")
    if len(request.kernels) < FEWEST_SIDES:
        raise InputError("one kernel given (expected at least two); give --kernel NAME=IMAGE twice")
    # Base comes first, whatever the order of the options.
    names = dict.fromkeys((*(r.stem for r in recordings), *request.kernels))
    kernels = {name: request.kernels[name] for name in names}
    files = [f"{name}.tar" for name in kernels]
    if request.append:
        folder = _folder_of_guests(recordings)
    else:
        folder = _folder(request.output, files, are_apart=False)
    base = recordings[0]
    commands = tuple(
        record_in_guests(
            base,
            base.workloads[work],
            kernels,
            request.changes,
            output=str(folder),
            append=request.append or index > 0,
        )
        for index, work in enumerate(_common(recordings))
    )
    images = (
        f"{clean_line(image)}: no such file (expected the kernel image of {clean_line(name)}); "
        "build or copy it"
        for name, image in kernels.items()
        if not Path(image).is_file()
    )
    return Plan(
        commands=commands,
        folder=None if request.append else folder,
        notes=(),
        missing=(*images, *_missing(recordings)),
        # `schedperf vm` ends with the command that compares.
        afterwards=(),
    )


def _plan_boots(request: Request, recordings: Sequence[Recording]) -> Plan:
    """Return the plan for bundles of `ab --kernel`: one command that boots all their kernels.

    :raises InputError: runs are to be added, the bundles are of several commands, or the new
        bundles exist already
    """
    if request.append:
        raise InputError(
            "--append: boots of `ab --kernel` are added by `schedperf ab --append`; leave out "
            "--append to record new bundles"
        )
    base = recordings[0]
    boots = base.boots
    given = {each.workloads[0].given for each in recordings}
    if boots is None or len(given) > 1:
        raise InputError(
            f"{base.path}: recorded by another `ab --kernel` command than the other bundles "
            "(expected the bundles of one); record them again one by one"
        )
    folder = _folder(request.output, [f"{name}.tar" for name in boots.names], are_apart=False)
    command = record_boots(recordings, boots, request.changes, output=as_argument(str(folder)))
    is_here = boots.target is None
    where = "this machine" if boots.target is None else boots.target.removeprefix("ssh:")
    when = "after the last boot (see `schedperf ab status`): " if is_here else ""
    kept = works_of_boots(base)
    added = [clean_line(each.given.name) for each in base.workloads if each not in kept]
    return Plan(
        # The recording continues on another machine, or after this one has rebooted.
        commands=(replace(command, paths=()),) if is_here else (command,),
        folder=folder,
        notes=(
            f"the command reboots {where}",
            *(f"{name}: not recorded again, because another command added it" for name in added),
        ),
        missing=tuple(_missing_of_boots(recordings, boots)),
        afterwards=(f"{when}{show('compare', *command.paths)}",),
    )


def _missing_of_boots(recordings: Sequence[Recording], boots: Boots) -> Iterator[str]:
    for path in boots.programs:
        if not Path(path).is_file():
            yield f"{clean_line(path)}: no such file (called for the boots); copy it there"
    # The workload runs on the target machine.
    if boots.target is None:
        yield from _missing(recordings)


def _folder_of_guests(recordings: Sequence[Recording]) -> Path:
    folders = {PurePath(recording.path).parent for recording in recordings}
    if len(folders) > 1 or not all(r.path.endswith(".tar") for r in recordings):
        raise InputError(
            "--append: some bundles are compressed or in different directories (expected .tar "
            "files in one directory); leave out --append to record new bundles"
        )
    return Path(folders.pop())


def _notes(recorded: Sequence[_Candidate], here: Host, request: Request) -> Iterator[str]:
    if any(side.steps for side in recorded):
        yield _join_steps(recorded)
    texts: dict[str, list[str]] = {}
    for side in recorded:
        for text in _notes_on_machine(side, here, request):
            texts.setdefault(text, []).append(side.recording.stem)
    for text, names in texts.items():
        yield f"{join_names(names)}: {text}"
    if any(read_host(side.host).virtualisation.emulated for side in recorded):
        yield "the bundles were recorded under emulation, so runs may be too short on this machine"


def _notes_on_machine(side: _Candidate, here: Host, request: Request) -> Iterator[str]:
    host = side.host
    words = {word for work in side.recording.workloads for word in work.given.workload}
    fields = blocking_fields(host, here, treatment=side.side.bundle.treatment, programs=words)
    # The setup and the service set other fields; neither has run yet.
    is_fixed = FIXED_GROUPS if side.recording.has_setting else ("",)
    differing = [path for path in fields if path.startswith(is_fixed)]
    listed = list_some(differing, MOST_FIELDS)
    if differing and request.append and not side.steps:
        raise InputError(
            f"{side.recording.path}: recorded on a machine with different {listed}; leave out "
            "--append to record new bundles"
        )
    if differing:
        yield f"recorded on a machine with different {listed}"
    if has_other_kernel(host, here) and not side.steps:
        yield f"recorded on {_name_kernel(host)}; the running kernel is {_name_kernel(here)}"


def _missing(recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield what setups and workloads need and this machine lacks."""
    users: dict[str, list[str]] = {}
    for recording in recordings:
        for file in dict.fromkeys((*recording.local_files, *recording.program_files)):
            if not Path(file).exists():
                users.setdefault(file, []).append(recording.stem)
    for file, names in users.items():
        place = "the current directory" if file.startswith(".") else "the same path"
        needed = join_names(dict.fromkeys(names))
        yield (
            f"{clean_line(file)}: no such file (needed by {clean_line(needed)}); copy it from the "
            f"original machine to {place}"
        )
    programs = dict.fromkeys(w.given.workload[0] for r in recordings for w in r.workloads)
    for program in programs:
        if program not in users and not PLACEHOLDER.search(program) and not shutil.which(program):
            yield f"{clean_line(program)}: no such program; install it or add it to PATH"


def _afterwards(sides: Sequence[_Candidate]) -> Iterator[str]:
    waiting = [side for side in sides if side.steps and not Path(side.target).exists()]
    appended = [side for side in sides if side.steps and side.target == side.recording.path]
    if waiting or appended:
        yield clean_line(f"{_join_steps(waiting or appended)}, then repeat this command")
        return
    if len(sides) == 1:
        if sides[0].target != sides[0].recording.path:
            yield show("compare", sides[0].recording.path, sides[0].target)
        return
    yield show("compare", *(side.target for side in sides))
