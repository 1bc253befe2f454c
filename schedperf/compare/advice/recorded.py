# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from a bundle how its side was recorded, for the choice of next steps.

A bundle is untrusted. Only names of collectors and files become parts of suggested commands;
``rerun`` itself reads what it runs, and checks it with the parsers of the recorder.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise, takewhile
from pathlib import PurePath
from typing import Literal, cast

from msgspec import Struct

from schedperf.compare.advice.intent import as_argument
from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.side import Side
from schedperf.runs.output import prints_nothing
from schedperf_collectors.contract import BUNDLE_SUFFIXES

# "boots" is `ab --kernel`.
Program = Literal["record", "ab", "vm", "boots"]

# A parameter that `schedperf vm` puts on a guest's kernel command line.
GUEST_MARK = "virtme"
# A file that a shell takes from its current directory: ./enter-cgroup.
LOCAL_FILE = re.compile(r"""(?<![^\s;&|()<>'"=])\.{1,2}/[^\s;&|()<>'"$`]+""")
_SCRIPT = re.compile(r"--(?:\w+-)?(?:setup|teardown|service)(?:=(?P<value>.*))?", re.DOTALL)
_WITH = re.compile(r"--with(?:=(?P<value>.*))?", re.DOTALL)
_COLLECTOR = re.compile(r"[a-z]\w{0,63}", re.ASCII)


class Recorded(Struct, frozen=True, kw_only=True):
    """How one side was recorded.

    :param program: the subcommand that recorded it; "boots" is ``ab --kernel``
    :param workloads: names of the workloads in the rows of the comparison
    :param runs: largest number of clean runs of a point in one boot, at least 1
    :param boots: largest number of boots that have runs of one workload
    :param words: the commands that recorded it without their workloads, or only their options if
        the commands were not stored; untrusted
    :param collectors: names that were given to ``--with``; () for the default ones
    :param captured: collectors that captured something
    :param unusable: collectors that were tried and captured nothing
    :param has_rules: whether it was recorded with --metric rules
    :param scripts: setups, services and teardowns; untrusted
    :param in_rounds: whether it has interleaved runs; appended runs would not be interleaved
    :param path: path of the bundle, as the user gave it
    :param prints_nothing: whether all output is empty
    :param omitted_bytes: bytes of output that were not stored, over all runs
    """

    program: Program
    workloads: tuple[str, ...]
    runs: int
    boots: int
    words: tuple[str, ...]
    collectors: tuple[str, ...]
    captured: frozenset[str]
    unusable: frozenset[str]
    has_rules: bool
    scripts: tuple[str, ...]
    in_rounds: bool
    path: str
    prints_nothing: bool
    omitted_bytes: int

    @property
    def stem(self) -> str:
        """Return the bundle's file name without its suffix: "base"."""
        return stem_of(self.path)

    @property
    def grows(self) -> bool:
        """Return whether runs can be appended to the bundle, judging by the suffix of its name."""
        return self.path.endswith(BUNDLE_SUFFIXES)

    @property
    def local_files(self) -> tuple[str, ...]:
        """Return the files that setups and workloads use from the current directory."""
        return find_local_files((*self.scripts, *self.workloads))


def find_local_files(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the files that commands use from the current directory, without duplicates."""
    return tuple(dict.fromkeys(name for text in texts for name in LOCAL_FILE.findall(text)))


def stem_of(path: str) -> str:
    """Return a bundle's file name without its suffix."""
    name = PurePath(path).name
    for suffix in BUNDLE_SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return PurePath(name).stem


def recorded_sides(sides: Sequence[Side]) -> Mapping[str, Recorded]:
    """Return how each side was recorded, by name; leave out sides that cannot be recorded again.

    These are imported bundles, those without a workload that is a valid shell command, and those
    whose path has unprintable characters.
    """
    # Advice is printed unescaped, so a path must contain only visible characters.
    read = (
        (side.name, _read(side.bundle)) for side in sides if str(side.bundle.path).isprintable()
    )
    return {name: recorded for name, recorded in read if recorded is not None}


def _read(bundle: Bundle) -> Recorded | None:
    runs = [run for run in bundle.runs if not run.warmup]
    workloads = tuple(dict.fromkeys(run.workload for run in runs))
    if bundle.imported is not None or not workloads or not all(map(_is_command, workloads)):
        return None
    words = _words(bundle)
    entries = [entry for entry in bundle.captures if entry.status != "ok"]
    captured = frozenset(entry.collector for entry in bundle.captures if entry.status == "ok")
    scripts = (bundle.setup, bundle.service, *_values(_SCRIPT, words))
    chosen = (name for value in _values(_WITH, words) for name in value.split(","))
    return Recorded(
        program=read_program(bundle),
        workloads=workloads,
        runs=max(count_runs(runs, name) for name in workloads),
        boots=max(len({run.boot for run in runs if run.workload == name}) for name in workloads),
        words=words,
        collectors=tuple(dict.fromkeys(filter(_COLLECTOR.fullmatch, chosen))),
        captured=captured,
        unusable=frozenset(entry.collector for entry in entries) - captured,
        has_rules=bool(bundle.metric_rules),
        scripts=tuple(dict.fromkeys(text for text in scripts if text)),
        in_rounds=any(run.round is not None for run in runs),
        path=as_argument(str(bundle.path)),
        prints_nothing=prints_nothing(bundle),
        omitted_bytes=sum(run.omitted_bytes for run in bundle.runs),
    )


def _is_command(workload: str) -> bool:
    try:
        return bool(shlex.split(workload))
    except ValueError:
        return False


def program_of(command: Sequence[str]) -> Program | None:
    """Return the program that a recorded command runs; None if it records nothing."""
    name = command[1] if len(command) > 1 else ""
    options = takewhile(lambda word: word != "--", command)
    if name == "ab" and any(word.partition("=")[0] == "--kernel" for word in options):
        return "boots"
    return cast("Program", name) if name in ("record", "ab", "vm") else None


def read_program(bundle: Bundle) -> Program:
    """Return the program that recorded a bundle; if its command was not stored, the likely one."""
    for recording in bundle.recordings[:1]:
        program = program_of(recording.command)
        if program is not None:
            return program
    # The recorder did not store its command.
    # `ab` may have run in a guest; the boots of `vm` have rounds too, but no sides.
    if any(run.side is not None for run in bundle.runs):
        return "ab"
    if any(GUEST_MARK in (boot.host.kernel.cmdline or "") for boot in bundle.boots):
        return "vm"
    has_rounds = any(run.round is not None for run in bundle.runs if not run.warmup)
    return "ab" if bundle.setup or has_rounds else "record"


def count_runs(runs: Sequence[Run], workload: str) -> int:
    """Return the largest number of clean runs of a workload's point in one boot; at least 1.

    Warm-up runs do not count.
    """
    counts: dict[tuple[int, str], int] = {}
    for run in runs:
        if run.workload == workload and run.kind == "clean" and not run.warmup:
            point = (run.boot, run.point_key)
            counts[point] = counts.get(point, 0) + 1
    return max(counts.values(), default=1)


def _words(bundle: Bundle) -> tuple[str, ...]:
    commands = [each.command for each in bundle.recordings]
    options = [takewhile(lambda word: word != "--", command) for command in commands]
    return tuple(chain.from_iterable(options or (each.options for each in bundle.rerun)))


def _values(option: re.Pattern[str], words: Sequence[str]) -> Iterator[str]:
    for word, following in pairwise((*words, "")):
        match = option.fullmatch(word)
        if match:
            yield following if match["value"] is None else match["value"]
