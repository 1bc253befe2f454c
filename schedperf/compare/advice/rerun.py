# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from bundles how each side was recorded, and make the commands that record it again.

A bundle is untrusted, and these commands are meant to be run. So only what the recorder's own
parsers accept is taken from it, word by word; the words are never given to a shell again, except
for setups, which are shell commands; and ``show`` makes every character of a command visible.
"""

import os
import re
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import asdict

from schedperf.bundle.manifest import Rerun
from schedperf.bundle.open import Bundle, Run
from schedperf.compare.advice.booting import (
    Booting,
    check_sources,
    option_words,
    parse_booted,
    read_booting,
)
from schedperf.model.comparison import BASE, FIRST_NEW
from schedperf.model.errors import BundleError
from schedperf.runs.output import omitted_bytes, prints_nothing
from schedperf.runs.side import Side
from schedperf_collectors.contract import BUNDLE_SUFFIXES, format_template
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.plugin import all_collectors
from schedperf_collectors.recorder.options import Parser, is_side_name, make_parser
from schedperf_collectors.recorder.plan import check_placeholders, cross_points
from schedperf_collectors.recorder.source import format_source

# "boots" is `ab --kernel`.
Program = Literal["record", "ab", "vm", "boots"]

# What a bundle has besides captures of collectors.
BESIDE = frozenset({"record", "import"})
# What a guest of `schedperf vm` has on its kernel's command line, and the parameters that
# virtme-ng or schedperf put there.
GUEST_MARK = "virtme"
GUEST_PARAMETERS = (
    *("nr_open", "console", "earlyprintk", "quiet", "loglevel", "panic"),
    *("rootfstype", "rootflags", "raid", "ro", "rw", "init"),
)
# Options of `schedperf vm` for its guests, and their defaults.
GUEST_OPTIONS: Mapping[str, str] = {
    "--cpus": "4",
    "--nodes": "2",
    "--threads": "1",
    "--memory": "4G",
    "--kernel-args": "",
    "--setup": "",
}
GUEST_INSTRUMENTED = 1
WARMUP = 1
# What a shell takes from the directory in which it stands: ./enter-cgroup.
LOCAL_FILE = re.compile(r"""(?<![^\s;&|()<>'"=])\.{1,2}/[^\s;&|()<>'"$`]+""")
# A program with its whole path, where a command begins.
PROGRAM_FILE = re.compile(r"""(?:^|[;&|(\n])\s*(?:exec\s+|\.\s+)?(/[^\s;&|()<>'"$`]+)""")


class Options(Struct, frozen=True, kw_only=True):
    """The options of a recording, beside workload, runs and files.

    :param collectors: for ``--with``; () for the default ones
    :param instrumented: instrumented runs of a point, in each boot; None: as many as clean ones
    :param settings: for ``--set``
    :param load: for ``--with-load``
    :param guest: of ``vm``: options for a guest like the recorded one
    :param booting: of ``ab --kernel``: what it boots
    """

    collectors: tuple[str, ...] = ()
    instrumented: int | None = None
    warmup: int = WARMUP
    settings: tuple[str, ...] = ()
    load: str = ""
    pelt_loader: str | None = None
    timeout: str | None = None
    teardown: str = ""
    guest: tuple[str, ...] = ()
    booting: Booting | None = None


class Workload(Struct, frozen=True, kw_only=True):
    """One command that a bundle holds runs of.

    :param name: as the rows of the comparison call it
    :param words: the command, with placeholders: ("hackbench", "-g", "{groups}")
    :param points: values for ``--point``: ("groups=1,4",)
    :param runs: clean runs of a point in one boot
    :param boots: boots with runs of it
    """

    name: str
    words: tuple[str, ...]
    points: tuple[str, ...]
    runs: int
    boots: int
    options: Options


class Recording(Struct, frozen=True, kw_only=True):
    """What it takes to record one side again.

    :param program: which command made it
    :param rules: for ``--metric``
    :param unusable: collectors that were tried and did not work on the machine
    :param setup: the shell command that put the side's setting in force; "" for none
    :param service: the command of the program that ran during each run; "" for none
    :param vary: for ``--vary``
    :param side: its name in the recording by `ab`; None in others
    :param in_rounds: whether runs of both sides are pairs, which runs that are added are not
    :param path: of the bundle, as the user gave it
    :param prints_nothing: whether all output is empty
    :param omitted_bytes: of the output of all runs
    :param source: its commit for ``--source``, as JSON; "" if not known
    :param machine: for ``--machine``; "" if not known
    """

    program: Program
    workloads: tuple[Workload, ...]
    rules: tuple[str, ...]
    unusable: frozenset[str]
    setup: str
    service: str
    vary: tuple[str, ...]
    label: str
    side: str | None
    in_rounds: bool
    path: str
    prints_nothing: bool
    omitted_bytes: int
    source: str = ""
    machine: str = ""

    @property
    def has_setting(self) -> bool:
        """Return whether a setup or a service makes the machine what the side measured."""
        return bool(self.setup or self.service)

    @property
    def stem(self) -> str:
        """Return the bundle's file name without its suffix: "base"."""
        return stem_of(self.path)

    @property
    def runs(self) -> int:
        """Return the clean runs of a point in one boot."""
        return max(work.runs for work in self.workloads)

    @property
    def boots(self) -> int:
        """Return the boots with runs of a workload."""
        return max(work.boots for work in self.workloads)

    @property
    def collectors(self) -> tuple[str, ...]:
        """Return the names that were given to ``--with``; () for the default ones."""
        return tuple(dict.fromkeys(name for w in self.workloads for name in w.options.collectors))

    @property
    def grows(self) -> bool:
        """Can runs be appended to the bundle?"""
        return self.path.endswith(BUNDLE_SUFFIXES)

    @property
    def scripts(self) -> tuple[str, ...]:
        """Return the setup, and what runs after the runs."""
        guests = (_value_after("--setup", work.options.guest) for work in self.workloads)
        teardowns = (work.options.teardown for work in self.workloads)
        texts = (self.setup, self.service, *guests, *teardowns)
        return tuple(dict.fromkeys(filter(None, texts)))

    @property
    def local_files(self) -> tuple[str, ...]:
        """Return what setup and workloads take from the directory in which they are run."""
        texts = (*self.scripts, *(" ".join(work.words) for work in self.workloads))
        return tuple(dict.fromkeys(name for text in texts for name in LOCAL_FILE.findall(text)))

    @property
    def program_files(self) -> tuple[str, ...]:
        """Return the programs that setup and teardown name with their whole path."""
        return tuple(dict.fromkeys(n for t in self.scripts for n in PROGRAM_FILE.findall(t)))


def stem_of(path: str) -> str:
    """Return a bundle's file name without its suffix."""
    name = PurePath(path).name
    for suffix in BUNDLE_SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return PurePath(name).stem


def _value_after(option: str, words: Sequence[str]) -> str:
    return words[words.index(option) + 1] if option in words else ""


def recordings_of(sides: Sequence[Side]) -> Mapping[str, Recording]:
    """Return how each side was recorded, by name; without those that cannot be repeated."""
    recordings = {}
    for side in sides:
        # Advice is printed as it is, so a path must be what a reader sees.
        with suppress(BundleError):
            recording = read_recording(side.bundle)
            if recording.path.isprintable():
                recordings[side.name] = recording
    return recordings


def read_recording(bundle: Bundle) -> Recording:
    """Return how a bundle was recorded.

    :raises BundleError: it cannot be recorded again
    """
    if bundle.imported is not None:
        raise BundleError(
            f"{bundle.path}: imported from {bundle.imported.format} (expected a bundle that "
            "schedperf recorded)",
            f"record it again with {bundle.imported.format}",
        )
    try:
        recording = _read(bundle)
        for command in _as_recorded(recording):
            _check_words(command)
    except (RecordError, ValueError) as error:
        problem = f"{bundle.path}: rerun cannot repeat this recording ({error})"
        raise BundleError(problem, "run the original record command yourself") from error
    return recording


def _read(bundle: Bundle) -> Recording:
    runs = [run for run in bundle.runs if not run.warmup]
    program = _program(bundle, runs)
    workloads = tuple(_workloads(bundle, program))
    if not workloads:
        raise RecordError("the bundle has no runs")
    return Recording(
        program=program,
        workloads=workloads,
        rules=tuple(
            f"{rule.name}[{rule.unit},{rule.better}]={rule.regex}" for rule in bundle.metric_rules
        ),
        unusable=frozenset(entry.collector for entry in bundle.captures) - _captured(bundle),
        setup=bundle.setup or "",
        service=bundle.service or "",
        vary=bundle.treatment,
        label=bundle.label,
        side=next((run.side for run in runs if run.side is not None), None),
        in_rounds=any(run.round is not None for run in runs),
        path=as_argument(str(bundle.path)),
        prints_nothing=prints_nothing(bundle),
        omitted_bytes=sum(omitted_bytes(bundle, run) for run in bundle.runs),
        source=_source(bundle),
        machine=bundle.machine or "",
    )


def _source(bundle: Bundle) -> str:
    if bundle.source is None:
        return ""
    fields = asdict(bundle.source)
    return format_source({key: value for key, value in fields.items() if value})


def _as_recorded(recording: Recording) -> Iterator["Command"]:
    # What a bundle says must be what the recorder takes.
    parser = make_parser("record", "schedperf")
    for work in recording.workloads:
        command = record_side(recording, work, "again.tar", Changes())
        options = parser.parse_args(list(command.before))
        cross_points(options.point)
        words = [*work.words, *shlex.split(work.options.load)]
        check_placeholders(words, [name for name, _ in options.point])
        yield command


def _check_words(command: "Command") -> None:
    for word in command.words:
        os.fsencode(word)
        if "\0" in word:
            raise RecordError("the command contains a NUL character")


def as_argument(path: str) -> str:
    """Return a file as a command takes it: one that is called -x.tar looks like an option."""
    return f"./{path}" if path.startswith("-") else path


def _program(bundle: Bundle, runs: Sequence[Run]) -> Program:
    if bundle.rerun and bundle.rerun[0].program == "boots":
        return "boots"
    # `ab` may have run inside of a guest; the boots of `vm` have rounds too, but no sides.
    if any(run.side is not None for run in runs):
        return "ab"
    if any(GUEST_MARK in (boot.host.kernel.cmdline or "") for boot in bundle.boots):
        return "vm"
    if bundle.rerun and bundle.rerun[0].program == "record":
        return "record"
    return "ab" if bundle.setup or any(run.round is not None for run in runs) else "record"


def _workloads(bundle: Bundle, program: Program) -> Iterator[Workload]:
    given = {rerun.workload: rerun for rerun in bundle.rerun}
    for name in bundle.workload:
        words = tuple(shlex.split(name))
        runs = [run for run in bundle.runs if run.workload == name]
        made = [run for run in runs if not run.warmup]
        values: dict[str, dict[str, None]] = {}
        # Runs are in random order, but warm-up runs are in the order of the values.
        for run in runs:
            for parameter, value in run.point.items():
                values.setdefault(parameter, {})[value] = None
        points = tuple(f"{parameter}={','.join(chosen)}" for parameter, chosen in values.items())
        if words and made:
            clean = _most_of_a_point(run for run in made if run.kind == "clean") or 1
            options = _options(bundle, program, given.get(name), runs, clean)
            boots = len({run.boot for run in made})
            yield Workload(
                name=name,
                words=words,
                points=points,
                runs=clean,
                boots=boots if options.booting is None else options.booting.boots,
                options=options,
            )


def _options(
    bundle: Bundle, program: Program, rerun: Rerun | None, runs: Sequence[Run], clean: int
) -> Options:
    if rerun is not None and rerun.program == program:
        setting = next((run.factors.get("setting") for run in runs), None)
        return _read_options(program, rerun.options, setting)
    # An older recorder did not keep them; the runs show the most of them.
    instrumented = _most_of_a_point(run for run in runs if run.kind == "instrumented")
    by_default = GUEST_INSTRUMENTED if program == "vm" else clean
    collectors = _collectors(bundle)
    is_usual = instrumented == by_default or collectors == ("none",)
    return Options(
        collectors=collectors,
        instrumented=None if is_usual else instrumented,
        warmup=_most_of_a_point(run for run in runs if run.warmup),
        guest=tuple(_guest_options(bundle)) if program == "vm" else (),
    )


def _read_options(program: Program, words: Sequence[str], setting: str | None) -> Options:
    """Take the known options from the words of a bundle; all others are left out.

    :param setting: of the side, in a kernel x setting design
    """
    if program == "boots":
        given = parse_booted(words)
        teardown = dict(given.teardown).get(setting, "")
    else:
        check_sources(words)
        given = _options_parser(program).parse_args(["-o", "again.tar", *words])
        teardown = given.teardown
    chosen = tuple(given.collectors)
    return Options(
        collectors=() if chosen == ("default",) else chosen,
        instrumented=given.instrumented,
        warmup=given.warmup,
        settings=tuple(f"{collector}.{name}={value}" for collector, name, value in given.set),
        load=given.load or "",
        pelt_loader=given.pelt_loader,
        timeout=None if given.timeout is None else f"{given.timeout:g}",
        teardown=teardown,
        guest=tuple(_given_guest_options(given)) if program == "vm" else (),
        booting=read_booting(given) if program == "boots" else None,
    )


def _options_parser(program: Program) -> Parser:
    parser = make_parser("record", "schedperf")
    if program == "vm":
        for option in GUEST_OPTIONS:
            # The setup of a guest takes the place of that of a run.
            if option != "--setup":
                parser.add_argument(option, default="")
    return parser


def _given_guest_options(given: Namespace) -> Iterator[str]:
    for option, default in GUEST_OPTIONS.items():
        value = getattr(given, option[2:].replace("-", "_"))
        if value and value != default:
            yield from option_words(option, value)


def _guest_options(bundle: Bundle) -> Iterator[str]:
    if not bundle.boots:
        return
    host = bundle.boots[0].host
    memory = host.memory.total_bytes
    # The kernel keeps a few percent for itself.
    size = None if memory is None else f"{-(-memory // (1 << 30))}G"
    nodes = None if host.topology.nodes is None else len(host.topology.nodes)
    parameters = [
        word
        for word in (host.kernel.cmdline or "").split()
        if word.partition("=")[0] not in GUEST_PARAMETERS and not word.startswith(GUEST_MARK)
    ]
    sizes = {
        "--cpus": host.cpu.count_online,
        "--nodes": nodes,
        "--memory": size,
        "--kernel-args": " ".join(parameters),
    }
    for option, value in sizes.items():
        if value and str(value) != GUEST_OPTIONS[option]:
            yield from option_words(option, str(value))


def _collectors(bundle: Bundle) -> tuple[str, ...]:
    always, by_default = _unasked()
    if not {entry.collector for entry in bundle.captures} - always:
        return ("none",)
    chosen = sorted(_captured(bundle) - always - by_default)
    return ("default", *chosen) if chosen else ()


def _unasked() -> tuple[set[str], set[str]]:
    # What each bundle has, and what `record` adds without being asked. A bundle with others was
    # asked for them.
    collectors = all_collectors().values()
    always = {collector.name for collector in collectors if collector.scope != "run"}
    by_default = {collector.name for collector in collectors if collector.default}
    return always | BESIDE, by_default


def _captured(bundle: Bundle) -> set[str]:
    # One that this machine cannot run ends the recording that asks for it by name.
    return {entry.collector for entry in bundle.captures if entry.status == "ok"}


def _most_of_a_point(runs: Iterator[Run]) -> int:
    counts: dict[tuple[int, str], int] = {}
    for run in runs:
        point = (run.boot, run.point_key)
        counts[point] = counts.get(point, 0) + 1
    return max(counts.values(), default=0)


class Changes(Struct, frozen=True, kw_only=True):
    """What is to differ from the recording; None: nothing.

    :param runs: of each point, in each boot
    :param boots: of each kernel, in guests
    :param collectors: for ``--with``
    :param rules: for ``--metric``
    :param accel: for ``--accel``, in guests
    """

    runs: int | None = None
    boots: int | None = None
    collectors: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    accel: str | None = None


class Command(Struct, frozen=True, kw_only=True):
    """One command of schedperf that records.

    :param before: name of the command and its options, without ``--``
    :param workload: what it runs, with placeholders
    :param paths: the bundles that it writes
    """

    name: Program
    before: tuple[str, ...]
    workload: tuple[str, ...]
    paths: tuple[str, ...] = field(default=())

    @property
    def words(self) -> tuple[str, ...]:
        """Return all words, with the name of the command."""
        return (self.name, *self.before, "--", *self.workload)

    def show(self) -> str:
        """Return the command for a shell, with every character of it visible."""
        return f"schedperf {' '.join(map(show_word, self.words))}"


def show_word(word: str) -> str:
    r"""Return a word for a shell; escape what a terminal does not show as it is.

    >>> print(show_word("{groups}"), show_word("a b"), show_word("a\n\x1b[2J\u202eb"))
    {groups} 'a b' $'a\n\x1b[2J\u202eb'
    """
    if word.isascii() and word.isprintable():
        return format_template((word,))
    return f"$'{''.join(map(_escape, word))}'"


def _escape(character: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "\\'"}
    if character in named:
        return named[character]
    code = ord(character)
    if " " <= character <= "~":
        return character
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 # a byte that is not UTF-8, see PEP 383
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:  # noqa: PLR2004 # ASCII
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 # \u has 4


def record_side(
    side: Recording,
    work: Workload,
    path: str,
    changes: Changes,
    *,
    append: bool = False,
) -> Command:
    """Return the command that records one workload of a side."""
    setting = [
        *option_words("--setup", side.setup),
        *option_words("--service", side.service),
        *option_words("--teardown", work.options.teardown),
    ]
    label = [] if append or side.label == stem_of(path) else option_words("--label", side.label)
    return Command(
        name="record",
        before=(
            *option_words("--append" if append else "-o", path),
            *label,
            *_declared(side, append=append),
            "-n",
            str(changes.runs or work.runs),
            *_vary(side),
            *setting,
            *_given_options(side, work, changes),
        ),
        workload=work.words,
        paths=(path,),
    )


def _declared(side: Recording, *, append: bool) -> list[str]:
    # Runs that are added have the commit of the bundle.
    return [] if append else option_words("--source", side.source)


def record_in_turns(
    sides: Sequence[Recording],
    work: Workload,
    paths: Sequence[str],
    changes: Changes,
    *,
    append: bool = False,
) -> Command:
    """Return the command that records the settings of one workload, interleaved.

    What then differs is the treatment without being named.

    :param paths: of the bundles; of sides with names, NAME.tar in one directory
    """
    owns = [next((w for w in side.workloads if w.name == work.name), work) for side in sides]
    teardowns = [own.options.teardown for own in owns]
    name = _name_sides if names_of_sides(sides) is not None else _name_pair
    runs = str(changes.runs or work.runs)
    return Command(
        name="ab",
        before=(
            *name(sides, paths, teardowns),
            *(("--append",) if append else ()),
            *_declared(sides[0], append=append),
            *("-n", runs),
            *_given_options(sides[0], work, changes),
        ),
        workload=work.words,
        paths=tuple(paths),
    )


def names_of_sides(sides: Sequence[Recording]) -> list[str] | None:
    """Return the names that `ab` recorded the sides with; None if it calls them base and new."""
    names = [side.side for side in sides if side.side is not None and is_side_name(side.side)]
    is_pair = set(names) <= {BASE, FIRST_NEW}
    return None if is_pair or len(set(names)) < len(sides) else names


def _name_sides(
    sides: Sequence[Recording], paths: Sequence[str], teardowns: Sequence[str]
) -> Iterator[str]:
    yield from option_words("-o", f"{PurePath(paths[0]).parent}/")
    for side, teardown in zip(sides, teardowns, strict=True):
        yield from ("--setup", f"{side.side}={side.setup}")
        if teardown:
            yield from ("--teardown", f"{side.side}={teardown}")
        yield from _service(str(side.side), side)


def _service(name: str, side: Recording) -> tuple[str, ...]:
    return ("--service", f"{name}={side.service}") if side.service else ()


def _name_pair(
    sides: Sequence[Recording], paths: Sequence[str], teardowns: Sequence[str]
) -> Iterator[str]:
    pairs = zip((BASE, FIRST_NEW), sides, paths, teardowns, strict=True)
    for name, side, path, teardown in pairs:
        yield from option_words(f"--{name}", path)
        yield from option_words(f"--{name}-setup", side.setup)
        yield from option_words(f"--{name}-teardown", teardown)
        yield from _service(name, side)
        if side.label != stem_of(path):
            yield from option_words(f"--{name}-label", side.label)


def record_in_guests(
    side: Recording,
    work: Workload,
    kernels: Mapping[str, str],
    changes: Changes,
    *,
    output: str,
    append: bool = False,
) -> Command:
    """Return the command that boots kernels in guests and records one workload in each boot.

    :param kernels: image of each, by name, base first
    :param output: the directory of the bundles
    """
    images = [w for name, image in kernels.items() for w in ("--kernel", f"{name}={image}")]
    return Command(
        name="vm",
        before=(
            *images,
            *([] if output == "." else option_words("--output", output)),
            *(("--add-boots",) if append else ()),
            *option_words("--accel", changes.accel or ""),
            *work.options.guest,
            "--boots",
            str(changes.boots or work.boots),
            "-n",
            str(changes.runs or work.runs),
            *_vary(side),
            *_given_options(side, work, changes),
        ),
        workload=work.words,
        paths=tuple(str(PurePath(output, f"{name}.tar")) for name in kernels),
    )


def record_boots(
    side: Recording, work: Workload, booting: Booting, changes: Changes, *, output: str
) -> Command:
    """Return the command that boots kernels alternately and records one workload in each boot.

    :param output: the directory of the bundles
    """
    runs = changes.runs or booting.runs
    return Command(
        name="ab",
        before=(
            *option_words("-o", f"{output}/"),
            *booting.words,
            *("--boots", str(changes.boots or booting.boots)),
            *(() if runs is None else ("-n", str(runs))),
            *_vary(side),
            *_given_options(side, work, changes),
        ),
        workload=work.words,
        paths=tuple(str(PurePath(output, f"{name}.tar")) for name in booting.names),
    )


def _vary(side: Recording) -> list[str]:
    return [word for path in side.vary for word in option_words("--vary", path)]


def _given_options(side: Recording, work: Workload, changes: Changes) -> Iterator[str]:
    options = work.options
    chosen = options.collectors if changes.collectors is None else changes.collectors
    yield from option_words("--with", ",".join(chosen))
    if options.instrumented is not None and chosen != ("none",):
        # Fewer runs are asked for to save time.
        most = options.instrumented if changes.runs is None else changes.runs
        yield from ("--instrumented", str(min(options.instrumented, most)))
    if options.warmup != WARMUP:
        yield from ("--warmup", str(options.warmup))
    for setting in options.settings:
        yield from option_words("--set", setting)
    yield from option_words("--machine", side.machine)
    yield from option_words("--with-load", options.load)
    yield from option_words("--pelt-loader", options.pelt_loader or "")
    yield from option_words("--timeout", options.timeout or "")
    for point in work.points:
        yield from option_words("--point", point)
    for rule in side.rules if changes.rules is None else changes.rules:
        yield from option_words("--metric", rule)


def join(*words: str) -> str:
    """Return a command of schedperf for a shell; placeholders of points stay as people write them.

    >>> join("record", "-o", "my base.tar", "--", "hackbench", "-g", "{groups}")
    "schedperf record -o 'my base.tar' -- hackbench -g {groups}"
    """
    return f"schedperf {format_template(words)}"
