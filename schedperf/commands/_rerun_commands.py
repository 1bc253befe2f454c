# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from bundles how each side was recorded, and make the commands that record it again.

A bundle is untrusted, and users run these commands. So only words that the recorder's own parsers
accept are taken from a bundle. No shell interprets these words, except for setups, which are shell
commands; and ``show`` makes every character of a command visible.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from schedperf.commands._rerun_jobs import OF_JOBS, in_same_boots, write_jobs
from schedperf.commands._rerun_words import (
    GUEST_OPTIONS,
    KEPT,
    OF_BOOTS,
    Given,
    check_words,
    option_words,
    read_given,
)
from schedperf.compare.advice.intent import as_argument
from schedperf.compare.advice.recorded import (
    Program,
    count_runs,
    find_local_files,
    read_program,
    stem_of,
)
from schedperf.inputs.bundle.open import Bundle
from schedperf.model.base_new import BASE, FIRST_NEW
from schedperf.model.errors import BundleError
from schedperf.model.text import clean
from schedperf_collectors.contract import format_template
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import OF_SERVER, is_side_name, make_parser
from schedperf_collectors.recorder.sides import read_settings
from schedperf_collectors.recorder.source import format_source

# The prefix of a hook's name if the hook is a program of the user.
COMMAND = "command:"
# A program with its absolute path at the begin of a command.
PROGRAM_FILE = re.compile(r"""(?:^|[;&|(\n])\s*(?:exec\s+|\.\s+)?(/[^\s;&|()<>'"$`]+)""")


class Workload(Struct, frozen=True, kw_only=True):
    """One command that recorded runs of a bundle.

    :param given: its options and its workload
    :param runs: clean runs of a point in one boot
    :param boots: boots with runs of the workload
    :param teardown: shell command that ran after each run of the side; "" for none
    """

    given: Given
    runs: int
    boots: int
    teardown: str


class Boots(Struct, frozen=True, kw_only=True):
    """The kernels and programs of ``ab --kernel``.

    :param kernels: names of the kernels
    :param names: names of the bundles, without suffix, base first
    :param target: "ssh:root@lab1"; None for a machine that boots itself
    :param programs: files on the controller that boot, power-cycle and read the console
    """

    kernels: tuple[str, ...]
    names: tuple[str, ...]
    target: str | None
    programs: tuple[str, ...]


class Recording(Struct, frozen=True, kw_only=True):
    """What is needed to record one side again.

    :param program: what recorded it: "record", "ab", "vm", or "boots" for `ab --kernel`
    :param setup: the shell command that applied the side's setting; "" for none
    :param service: the command of the program that ran during each run; "" for none
    :param vary: fields of host.json for ``--vary``
    :param side: its name in the recording by `ab`; None in others
    :param kernel: its name in the recording by `ab --kernel`; the label in others
    :param path: path of the bundle, as the user gave it
    :param source: its commit for ``--source``, as JSON; "" if unknown
    :param boots: what `ab --kernel` boots; None for other programs
    """

    program: Program
    workloads: tuple[Workload, ...]
    setup: str
    service: str
    vary: tuple[str, ...]
    label: str
    side: str | None
    kernel: str
    path: str
    source: str = ""
    boots: Boots | None = None

    @property
    def has_setting(self) -> bool:
        """Return whether a setup or a service creates the condition that the side measured."""
        return bool(self.setup or self.service)

    @property
    def stem(self) -> str:
        """Return the bundle's file name without its suffix: "base"."""
        return stem_of(self.path)

    @property
    def scripts(self) -> tuple[str, ...]:
        """Return all shell commands of the side: setup, service, setups in guests and teardowns."""
        in_guests = [w.given.last("setup") for w in self.workloads if w.given.program == "vm"]
        texts = (self.setup, self.service, *in_guests, *(w.teardown for w in self.workloads))
        return tuple(dict.fromkeys(text for text in texts if text))

    @property
    def local_files(self) -> tuple[str, ...]:
        """Return the files that scripts and workloads use from the current directory."""
        return find_local_files(
            (*self.scripts, *(" ".join(w.given.workload) for w in self.workloads))
        )

    @property
    def program_files(self) -> tuple[str, ...]:
        """Return the programs that scripts name by their absolute path."""
        return tuple(dict.fromkeys(n for t in self.scripts for n in PROGRAM_FILE.findall(t)))


def read_recording(bundle: Bundle) -> Recording:
    """Return how a bundle was recorded.

    :raises BundleError: the bundle was imported, has no runs, or has options that the recorder
        rejects
    """
    if bundle.imported is not None:
        raise BundleError(
            f"{bundle.path}: imported from {bundle.imported.format} (expected a bundle that "
            "schedperf recorded)",
            f"record it again with {bundle.imported.format}",
        )
    try:
        recording = _read(bundle)
        parser = make_parser("record", "schedperf", is_untrusted=True)
        for work in recording.workloads:
            # Only values that the recorder accepts are taken from a bundle. Reading a commit opens
            # files.
            command = record_side(replace(recording, source=""), work, "again.tar", Changes())
            check_words(command.words)
            parser.parse_args(list(command.before))
    except (RecordError, ValueError) as error:
        problem = f"{bundle.path}: rerun cannot repeat this recording ({error})"
        raise BundleError(problem, "run the original record command yourself") from error
    return recording


def _read(bundle: Bundle) -> Recording:
    runs = [run for run in bundle.runs if not run.warmup]
    if not runs:
        raise RecordError("the bundle has no runs")
    side = next((run.side for run in runs if run.side is not None), None)
    setting = runs[0].factors.get("setting")
    commands = read_given(bundle)
    return Recording(
        program=read_program(bundle),
        workloads=tuple(
            Workload(
                given=given,
                runs=count_runs(runs, given.name),
                boots=len({run.boot for run in runs if run.workload == given.name}),
                teardown=given.teardown((side, setting)),
            )
            for given in commands
        ),
        setup=bundle.setup or "",
        service=bundle.service or "",
        vary=bundle.treatment,
        label=bundle.label,
        side=side,
        kernel=runs[0].factors.get("kernel", bundle.label),
        path=as_argument(str(bundle.path)),
        source=_source(bundle),
        boots=_read_boots(commands[0]) if commands[0].program == "boots" else None,
    )


def _source(bundle: Bundle) -> str:
    if bundle.source is None:
        return ""
    fields = asdict(bundle.source)
    return format_source({key: value for key, value in fields.items() if value})


def _read_boots(given: Given) -> Boots:
    """Return the kernels and programs of a command that boots.

    :raises RecordError: its options contradict each other, or the recorder rejects one
    """
    parser = make_parser("ab", "schedperf", is_untrusted=True)
    options = parser.parse_args(["-o", "again/", *given.words(OF_BOOTS)])
    if (options.on is None) == (not options.resume):
        raise RecordError("ab --kernel without --on or --resume")
    has_settings = options.setup or options.service or options.feature or options.teardown
    settings = [f"-{each.name}" for each in read_settings(options)] if has_settings else [""]
    kernels = [name for name, _ in options.kernel]
    hook = options.boot or ""
    programs = (
        hook[len(COMMAND) :] if hook.startswith(COMMAND) else "",
        options.power,
        options.console,
    )
    return Boots(
        kernels=tuple(kernels),
        names=tuple(f"{kernel}{setting}" for kernel in kernels for setting in settings),
        target=options.on,
        programs=tuple(path for path in programs if path),
    )


class Changes(Struct, frozen=True, kw_only=True):
    """The requested differences from the recording; None if unchanged.

    :param runs: runs of each point in each boot
    :param boots: boots of each kernel, in guests
    :param collectors: values of ``--with``
    :param left_out: values of ``--without``
    :param rules: values of ``--metric``
    :param accel: value of ``--accel``, in guests
    """

    runs: int | None = None
    boots: int | None = None
    collectors: tuple[str, ...] | None = None
    left_out: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    accel: str | None = None


class Command(Struct, frozen=True, kw_only=True):
    """One command of schedperf that records.

    :param before: name of the command and its options, without ``--``
    :param workload: the command that it runs, with placeholders; () if its options name jobs
    :param paths: the bundles that it writes
    """

    name: Program
    before: tuple[str, ...]
    workload: tuple[str, ...]
    paths: tuple[str, ...] = field(default=())

    @property
    def words(self) -> tuple[str, ...]:
        """Return all words, with the name of the command."""
        return (self.name, *self.before, *(("--", *self.workload) if self.workload else ()))

    def show(self) -> str:
        """Return the command for a shell, with every character of it visible."""
        return show(*self.words)


def show(*words: str) -> str:
    """Return a command of schedperf for a shell, with every character of it visible."""
    return f"schedperf {' '.join(map(show_word, words))}"


def show_word(word: str) -> str:
    r"""Quote a word for a shell; escape what a terminal or CI system does not show as it is.

    >>> print(show_word("{groups}"), show_word("a b"), show_word("a\n\x1b[2J\u202eb"))
    {groups} 'a b' $'a\n\x1b[2J\u202eb'
    """
    if word.isascii() and word.isprintable() and clean(word) == word:
        return format_template((word,))
    return f"$'{''.join(map(_escape, word))}'"


def _escape(character: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "\\'", "#": "\\x23"}
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
    side: Recording, work: Workload, path: str, changes: Changes, *, append: bool = False
) -> Command:
    """Return the command that records one workload of a side.

    :param path: path of the bundle
    :param append: add the runs to an existing bundle
    """
    label = "" if append or side.label == stem_of(path) else side.label
    return Command(
        name="record",
        before=(
            *option_words("--append" if append else "-o", path),
            *option_words("--label", label),
            *_declared(side, append=append),
            *("-n", str(changes.runs or work.runs)),
            *_vary(side),
            *option_words("--setup", side.setup),
            *option_words("--service", side.service),
            *option_words("--teardown", work.teardown),
            *_options(work, changes),
        ),
        workload=work.given.workload,
        paths=(path,),
    )


def _declared(side: Recording, *, append: bool) -> tuple[str, ...]:
    # Appended runs use the commit that the bundle stores.
    return () if append else option_words("--source", side.source)


def record_in_turns(
    sides: Sequence[Recording],
    work: Workload,
    paths: Sequence[str],
    changes: Changes,
    *,
    append: bool = False,
) -> Command:
    """Return the command that records the settings of one workload, interleaved.

    What differs between the settings is then the treatment, even if it is not listed.

    :param paths: paths of the bundles; for named sides, NAME.tar in one directory
    :param append: add the runs to existing bundles
    """
    teardowns = [
        next((own.teardown for own in side.workloads if own.given.name == work.given.name), "")
        for side in sides
    ]
    name = _name_sides if names_of_sides(sides) is not None else _name_pair
    return Command(
        name="ab",
        before=(
            *name(sides, paths, teardowns),
            *(("--append",) if append else ()),
            *_declared(sides[0], append=append),
            *("-n", str(changes.runs or work.runs)),
            *_options(work, changes),
        ),
        workload=work.given.workload,
        paths=tuple(paths),
    )


def names_of_sides(sides: Sequence[Recording]) -> list[str] | None:
    """Return the names of the sides recorded by `ab`.

    :return: None if they are base and new, or if a name is missing, invalid or not unique
    """
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

    :param kernels: image of each kernel, by name, base first
    :param output: the directory of the bundles
    :param append: add the boots to existing bundles
    """
    images = [w for name, image in kernels.items() for w in ("--kernel", f"{name}={image}")]
    # `record` and `ab` run their setup before each run, `vm` once in each guest.
    of_guests = work.given.words(GUEST_OPTIONS) if work.given.program == "vm" else ()
    return Command(
        name="vm",
        before=(
            *images,
            *(() if output == "." else option_words("--output", output)),
            *(("--add-boots",) if append else ()),
            *option_words("--accel", changes.accel),
            *of_guests,
            *("--boots", str(changes.boots or work.boots)),
            *("-n", str(changes.runs or work.runs)),
            *_vary(side),
            # A guest has none of the servers of this machine.
            *_options(work, changes, KEPT - {*OF_SERVER}),
        ),
        workload=work.given.workload,
        paths=tuple(str(PurePath(output, f"{name}.tar")) for name in kernels),
    )


def record_boots(
    sides: Sequence[Recording], boots: Boots, changes: Changes, *, output: str
) -> Command:
    """Return the `ab --kernel` command that records the workloads of the sides again.

    Workloads that were recorded in other boots, or by `record`, are left out.

    :param boots: the kernels and programs of the original command
    :param output: the directory of the bundles
    """
    work, *others = works_of_boots(sides[0])
    numbers = {"boots": changes.boots, "runs": changes.runs}
    changed = {name for name, number in numbers.items() if number is not None}
    sources = {side.kernel: side.source for side in sides if side.source}
    return Command(
        name="ab",
        before=(
            *option_words("-o", f"{output}/"),
            # `ab` boots a single kernel only to add boots.
            *(("--append",) if len(boots.kernels) == 1 else ()),
            *work.given.words({*OF_BOOTS} - changed - (OF_JOBS if others else set())),
            *(
                word
                for name in sorted(changed - (OF_JOBS if others else set()))
                for word in (f"--{name}", str(numbers[name]))
            ),
            *(
                word
                for kernel in boots.kernels
                if kernel in sources
                for word in ("--source", f"{kernel}={sources[kernel]}")
            ),
            *_vary(sides[0]),
            *(_options(work, changes) if not others else _jobs([work, *others], changes)),
        ),
        workload=() if others else work.given.workload,
        paths=tuple(str(PurePath(output, f"{name}.tar")) for name in boots.names),
    )


def works_of_boots(side: Recording) -> list[Workload]:
    """Return the workloads that one `ab --kernel` command can record again."""
    kept = in_same_boots([work.given for work in side.workloads])
    return [work for work in side.workloads if work.given in kept]


def _jobs(works: Sequence[Workload], changes: Changes) -> Iterator[str]:
    yield from works[0].given.words(KEPT - OF_JOBS)
    runs = [] if changes.runs is None else ["--runs", str(changes.runs)]
    own = [
        [*(runs or work.given.words({"runs"})), *_options(work, changes, KEPT & OF_JOBS)]
        for work in works
    ]
    jobs = write_jobs([(work.given, words) for work, words in zip(works, own, strict=True)])
    yield from ("--jobs", jobs)


def _vary(side: Recording) -> list[str]:
    return [word for path in side.vary for word in option_words("--vary", path)]


def _options(work: Workload, changes: Changes, options: frozenset[str] = KEPT) -> Iterator[str]:
    kept = options - {"collectors", "left_out"}
    yield from _collectors(work.given, changes)
    if changes.rules is not None:
        kept -= {"metric"}
    instrumented = work.given.last("instrumented")
    if instrumented is not None and changes.runs is not None:
        # Fewer runs are requested to save time.
        kept -= {"instrumented"}
        yield from ("--instrumented", str(min(int(instrumented), changes.runs)))
    yield from work.given.words(kept)
    for rule in changes.rules or ():
        yield from option_words("--metric", rule)


def _collectors(given: Given, changes: Changes) -> Iterator[str]:
    """Yield the options that choose collectors; those of the user override the recorded ones."""
    selected, left_out = (given.names(dest) for dest in ("collectors", "left_out"))
    if changes.collectors is not None:
        selected = changes.collectors
        left_out = _except(left_out, selected)
    if changes.left_out is not None:
        left_out = changes.left_out
        # The recorder refuses a collector that the user both selects and leaves out.
        if selected is not None and changes.collectors is None:
            selected = _except(selected, left_out)
    if selected is not None:
        # Without a name, collectors of the boot are still captured.
        yield from option_words("--with", ",".join(selected)) or ("--with=",)
    yield from option_words("--without", ",".join(left_out or ()))


def _except(names: Sequence[str] | None, others: Collection[str]) -> tuple[str, ...] | None:
    return None if names is None else tuple(name for name in names if name not in others)
