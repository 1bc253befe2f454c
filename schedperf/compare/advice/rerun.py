# SPDX-License-Identifier: GPL-2.0-or-later
"""Derive the commands that record each side again, from how it was recorded.

A bundle records what was run and how often; its text is untrusted. A command is therefore
taken apart and quoted anew word by word, and one that cannot be read as plain words, or that holds
what a terminal would not show, is not repeated at all.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from schedperf.bundle.open import Bundle, Run
from schedperf.runs.side import Side
from schedperf_collectors.contract import BUNDLE_SUFFIXES, format_template
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import make_parser

Program = Literal["record", "ab", "vm"]

# Of one bundle; the commands for more of them are a script, and no advice.
MOST_WORKLOADS = 3
# What `record` adds without being asked; a bundle that has others was asked for them.
BY_CHOICE = ("bpf_pelt", "bpf_placement", "perf_c2c", "perf_mem", "task_sched")
# What a guest of `schedperf vm` has on its kernel's command line.
GUEST_MARK = "virtme"
# Of `schedperf vm`.
GUEST_DEFAULTS: Mapping[str, str] = {"--cpus": "4", "--nodes": "2", "--memory": "4G"}
# What a shell takes from the directory in which it stands: ./enter-cgroup.
LOCAL_FILE = re.compile(r"""(?<![^\s;&|()<>'"=])\.{1,2}/[^\s;&|()<>'"$`]+""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One command that a bundle holds runs of.

    :param name: as the rows of the comparison call it
    :param words: the command, with placeholders: ("hackbench", "-g", "{groups}")
    :param points: values for ``--point``: ("groups=1,4",)
    """

    name: str
    words: tuple[str, ...]
    points: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What it takes to record one side again.

    :param program: which command made it
    :param workloads: those that can be repeated
    :param rules: for ``--metric``
    :param collectors: for ``--with``; () for those that are taken anyway
    :param unusable: collectors that were tried and did not work on the machine
    :param setup: of ``ab``: the shell script that put the side's setting in force; "" for none
    :param guest: of ``vm``: options for a guest of the same size
    :param vary: for ``--vary``
    :param in_rounds: whether runs of both sides are pairs, which runs that are added are not
    :param boots: that the bundle holds runs of
    :param runs: clean runs of a point in one boot
    :param path: of the bundle, as the user gave it
    """

    program: Program
    workloads: tuple[Workload, ...]
    rules: tuple[str, ...]
    collectors: tuple[str, ...]
    unusable: frozenset[str]
    setup: str
    guest: tuple[str, ...]
    vary: tuple[str, ...]
    in_rounds: bool
    boots: int
    runs: int
    path: str

    def named(self, word: str) -> str:
        """Return the name of another bundle beside this one: ``base.tar`` to ``base-pelt.tar``."""
        path = PurePath(self.path)
        stem = path.name
        for suffix in BUNDLE_SUFFIXES:
            stem = stem.removesuffix(suffix)
        return as_argument(str(path.with_name(f"{stem}-{word}.tar")))

    @property
    def guest_options(self) -> tuple[str, ...]:
        """Return the options of a guest of the same size, where it was recorded in one."""
        return self.guest if self.program == "vm" else ()

    @property
    def grows(self) -> bool:
        """Can runs be appended to the bundle?"""
        return self.path.endswith(BUNDLE_SUFFIXES)

    @property
    def local_files(self) -> tuple[str, ...]:
        """Return what setup and workloads take from the directory in which they are run."""
        texts = (self.setup, *(" ".join(work.words) for work in self.workloads))
        return tuple(dict.fromkeys(name for text in texts for name in LOCAL_FILE.findall(text)))


def recordings_of(sides: Sequence[Side]) -> Mapping[str, Recording]:
    """Return how each side was recorded, by name; without those that cannot be repeated."""
    recordings = {side.name: _recording_of(side.bundle) for side in sides}
    return {name: recording for name, recording in recordings.items() if recording is not None}


def _recording_of(bundle: Bundle) -> Recording | None:
    runs = [run for run in bundle.runs if not run.warmup]
    recording = Recording(
        program=_program(bundle, runs),
        workloads=tuple(_workloads(bundle, runs)),
        rules=tuple(
            f"{rule.name}[{rule.unit},{rule.better}]={rule.regex}" for rule in bundle.metric_rules
        ),
        collectors=_collectors(bundle),
        unusable=frozenset(entry.collector for entry in bundle.captures) - _captured(bundle),
        setup=bundle.setup or "",
        guest=tuple(_guest_options(bundle)),
        vary=bundle.treatment,
        in_rounds=any(run.round is not None for run in runs),
        boots=len(bundle.boots),
        runs=_runs_of_a_point(runs),
        path=as_argument(str(bundle.path)),
    )
    return recording if recording.workloads and _is_accepted(recording) else None


def _is_accepted(recording: Recording) -> bool:
    # What a bundle says must be what the recorder takes, and what a reader sees.
    texts = (*recording.rules, *recording.vary, recording.setup, recording.path)
    parser = make_parser("record", "schedperf")
    try:
        for work in recording.workloads:
            parser.parse_args(
                ["-o", "again.tar", *_vary(recording), *_options(recording, work, None)]
            )
    except RecordError:
        return False
    return all(map(str.isprintable, texts))


def as_argument(path: str) -> str:
    """Return a file as a command takes it: one that is called -x.tar looks like an option."""
    return f"./{path}" if path.startswith("-") else path


def _program(bundle: Bundle, runs: Sequence[Run]) -> Program:
    # `ab` may have run inside of a guest; the boots of `vm` have rounds too, but no sides.
    if bundle.setup or any(run.side is not None for run in runs):
        return "ab"
    if any(GUEST_MARK in (boot.host.kernel.cmdline or "") for boot in bundle.boots):
        return "vm"
    return "ab" if any(run.round is not None for run in runs) else "record"


def _guest_options(bundle: Bundle) -> Iterator[str]:
    host = bundle.boots[0].host if bundle.boots else None
    if host is None:
        return
    memory = host.memory.total_bytes
    # The kernel keeps a few percent for itself.
    size = None if memory is None else f"{-(-memory // (1 << 30))}G"
    nodes = None if host.topology.nodes is None else len(host.topology.nodes)
    sizes = {"--cpus": host.cpu.count_online, "--nodes": nodes, "--memory": size}
    for option, value in sizes.items():
        if value and str(value) != GUEST_DEFAULTS[option]:
            yield from (option, str(value))


def _workloads(bundle: Bundle, runs: Sequence[Run]) -> Iterator[Workload]:
    for name in bundle.workload:
        words = _words(name)
        points = [run.point for run in runs if run.workload == name]
        values: dict[str, dict[str, None]] = {}
        for point in points:
            for parameter, value in point.items():
                values.setdefault(parameter, {})[value] = None
        settings = tuple(f"{parameter}={','.join(chosen)}" for parameter, chosen in values.items())
        if words and points and all(map(str.isprintable, settings)):
            yield Workload(name=name, words=words, points=settings)


def _words(command: str) -> tuple[str, ...]:
    # () for what is not a list of plain words.
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    return tuple(words) if all(map(str.isprintable, words)) else ()


def _collectors(bundle: Bundle) -> tuple[str, ...]:
    names = {entry.collector for entry in bundle.captures}
    if not names & {"schedstat", "perf_stat", "perf_profile", "system_counters", *BY_CHOICE}:
        return ("none",)
    chosen = tuple(name for name in BY_CHOICE if name in _captured(bundle))
    return ("default", *chosen) if chosen else ()


def _captured(bundle: Bundle) -> set[str]:
    # One that this machine cannot run ends the recording that asks for it by name.
    return {entry.collector for entry in bundle.captures if entry.status == "ok"}


def _runs_of_a_point(runs: Sequence[Run]) -> int:
    counts: dict[tuple[int, str, str], int] = {}
    for run in runs:
        if run.kind == "clean":
            point = (run.boot, run.workload, run.point_key)
            counts[point] = counts.get(point, 0) + 1
    return max(counts.values(), default=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Base and one new side, recorded by the same program.

    :param workloads: those that are to be recorded again, at most ``MOST_WORKLOADS``
    """

    base: Recording
    new: Recording
    workloads: tuple[Workload, ...]

    def again(
        self,
        word: str,
        *,
        runs: int | None = None,
        boots: int | None = None,
        collectors: Sequence[str] | None = None,
    ) -> tuple[str, ...]:
        """Return the commands that record both sides into new bundles and compare these.

        :param word: what the names of the new bundles end with
        :param runs: of each point, in each boot; None: as many as there are
        :param boots: of each kernel, where they are booted in guests; None: as many as there are
        :param collectors: for ``--with``; None: as they were
        """
        number = self.base.runs if runs is None else runs
        if self.base.program == "vm":
            times = self.base.boots if boots is None else boots
            return self.in_guests(word, runs=number, boots=times, collectors=collectors)
        paths = self._named(word)
        if self.base.program == "ab":
            made = tuple(self._in_turns(word, number, collectors))
        else:
            made = (
                *self._one_side(self.base, paths[0], number, collectors),
                *self._one_side(self.new, paths[1], number, collectors),
            )
        return (*made, join("compare", *paths))

    def _named(self, word: str) -> tuple[str, str]:
        # A command that takes ./enter-cgroup from the current directory puts its bundles there too.
        paths = (self.base.named(word), self.new.named(word))
        base, new = (as_argument(PurePath(path).name) for path in paths)
        is_bound = bool(self.base.local_files or self.new.local_files)
        is_absolute = any(PurePath(path).is_absolute() for path in paths)
        return paths if not is_bound or is_absolute or base == new else (base, new)

    def append(self, runs: int) -> tuple[str, ...] | None:
        """Return the commands that add runs to both bundles; None where that cannot be done.

        What ``ab`` recorded gets runs outside of its rounds, which only another boot makes of use:
        see :meth:`append_boot`.
        """
        are_pairs = self.base.in_rounds or self.new.in_rounds
        return None if are_pairs else self.append_boot(runs)

    def append_boot(self, runs: int) -> tuple[str, ...] | None:
        """Return the commands that add runs of another boot; None where that cannot be done.

        ``ab`` adds nothing to a bundle, so each side is recorded by itself.
        """
        if self.base.program == "vm" or not (self.base.grows and self.new.grows):
            return None
        made = (
            _record(side, work, ("--append", side.path), runs, None)
            for side in (self.base, self.new)
            for work in self.workloads
        )
        return (*made, join("compare", self.base.path, self.new.path))

    def beside(self, side: Recording, word: str, *others: Recording) -> tuple[str, ...]:
        """Return the commands that record one side into a new bundle and compare it with others.

        :param word: what the name of the new bundle ends with
        :param others: base first; they stay as they are
        """
        path = side.named(word)
        compare = join("compare", *(recording.path for recording in others), path)
        return (*self._one_side(side, path, side.runs, None), compare)

    def _one_side(
        self, side: Recording, path: str, runs: int, collectors: Sequence[str] | None
    ) -> Iterator[str]:
        for index, work in enumerate(self.workloads):
            yield _record(side, work, ("--append" if index else "-o", path), runs, collectors)

    def in_guests(
        self,
        word: str,
        *,
        runs: int,
        boots: int,
        collectors: Sequence[str] | None = None,
        kernels: Sequence[str] = ("base", "new"),
    ) -> tuple[str, ...]:
        """Return the commands that boot the kernels interleaved, record each boot, and compare.

        :param kernels: what they are called, base first; their images are words in capitals
        """
        names = [f"{kernel}-{word}" for kernel in kernels]
        images = [
            part
            for name, kernel in zip(names, kernels, strict=True)
            for part in ("--kernel", f"{name}={kernel.upper()}_BZIMAGE")
        ]
        counts = (*self.base.guest_options, "--boots", str(boots), "-n", str(runs))
        made = (
            join(
                "vm", *images, *(("--add-boots",) if index else ()), *counts, *_vary(self.base),
                *_options(self.base, work, collectors), "--", *work.words,
            )
            for index, work in enumerate(self.workloads)
        )  # fmt: skip
        return (*made, join("compare", *(f"{name}.tar" for name in names)))

    def _in_turns(self, word: str, runs: int, collectors: Sequence[str] | None) -> Iterator[str]:
        # What then differs is the treatment without being said. It has no --append, so each
        # further command gets bundles of its own.
        setups = (("--base-setup", self.base.setup), ("--new-setup", self.new.setup))
        given = [part for option, setup in setups if setup for part in (option, setup)]
        for index, work in enumerate(self.workloads):
            base, new = self._named(f"{word}{index + 1}" if index else word)
            yield join(
                "ab", "--base", base, "--new", new, *given,
                "-n", str(runs), *_options(self.base, work, collectors), "--", *work.words,
            )  # fmt: skip


def _record(
    side: Recording,
    work: Workload,
    target: Sequence[str],
    runs: int,
    collectors: Sequence[str] | None,
) -> str:
    given = (*_vary(side), *_options(side, work, collectors))
    command = join("record", *target, "-n", str(runs), *given, "--", *work.words)
    # `record` has no setup. The setup may move its own process, so the recorder takes its place.
    return shlex.join(("sh", "-c", f"{side.setup} && exec {command}")) if side.setup else command


def _vary(side: Recording) -> list[str]:
    return [word for path in side.vary for word in ("--vary", path)]


def _options(side: Recording, work: Workload, collectors: Sequence[str] | None) -> Iterator[str]:
    chosen = side.collectors if collectors is None else collectors
    if chosen:
        yield from ("--with", ",".join(chosen))
    for point in work.points:
        yield from ("--point", point)
    for rule in side.rules:
        yield from ("--metric", rule)


def join(*words: str) -> str:
    """Return a command of schedperf for a shell; placeholders of points stay as people write them.

    >>> join("record", "-o", "my base.tar", "--", "hackbench", "-g", "{groups}")
    "schedperf record -o 'my base.tar' -- hackbench -g {groups}"
    """
    return f"schedperf {format_template(words)}"
