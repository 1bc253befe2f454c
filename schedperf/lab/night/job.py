# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the job file of a night: one machine, one benchmark, two kernels.

::

    [site]
    out = "nights"

    [[machine]]
    name = "2x48"
    reach = "ssh:root@lab1"
    hours = "22:00-06:00"

    [[job]]
    name = "hackbench"
    run = ["hackbench", "-l", "500", "-g", "{groups}"]
    points = {groups = [1, 4, 16]}

    [plan]
    boots = 4
    retest = 8

An unknown key is an error, which names the known key that is most like it, or all known ones.
"""

from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.toml import read_toml, to_record
from schedperf.model.errors import InputError
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.captures import choose
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.plan import check_placeholders

_COMMAND = "command:"
_EXAMPLES = {
    "name": "hackbench",
    "reach": "ssh:root@lab1, not the controller itself",
    "hours": "22:00-06:00",
    "reference": "6.18.* or 6.18.0",
    "new": "6.19.* or 6.19.0-rc2",
}

Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")]
Word = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,4096}\Z")]
# A kernel release, or a shell-style pattern.
Pattern = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9*?\[][A-Za-z0-9._+~:@*?\[\]!-]{0,63}\Z")]
Reach = Annotated[str, Meta(pattern=r"\Assh:[A-Za-z0-9._\[][A-Za-z0-9._@:%\[\]-]{0,254}\Z")]
Hours = Annotated[
    str, Meta(pattern=r"\A([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]\Z")
]
Boots = Annotated[int, Meta(ge=1, le=1000)]
Runs = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[int, Meta(ge=0, le=86_400)]


# Keys in the file that are not the names of the fields: "with" is a keyword of Python.
_KEYS = {"collectors": "with", "left_out": "without"}


class Site(Struct, frozen=True, kw_only=True):
    """Where results are stored; paths are relative to the job file.

    :param out: directory that gets one folder per night
    :param pages: directory for the published pages; None for ``pages`` in ``out``
    :param outbox: directory for the mail drafts; None for ``outbox`` in ``out``
    :param store: store of ``schedperf history`` to which each night is added; None for none
    :param public: private strings that pages may contain, as for ``publish --public``
    """

    out: Word = "nights"
    pages: Word | None = None
    outbox: Word | None = None
    store: Word | None = None
    public: tuple[Word, ...] = ()


class Machine(Struct, frozen=True, kw_only=True):
    """The machine that boots the kernels.

    :param reach: ``ssh:HOST`` or ``ssh:HOST:PORT``, as for ``ab --on``
    :param boot: boot hook, as for ``ab --boot``
    :param hours: local time in which it may be used: ``22:00-06:00``; None for always
    :param boot_limit: as for ``ab --boot-limit``, s; None for the default of ``ab``
    :param settle: as for ``ab --settle``, s; None for the default of ``ab``
    :param power: program, as for ``ab --power``; None if there is none
    :param console: program, as for ``ab --console``; None if there is none
    """

    name: Name
    reach: Reach
    boot: Word = "auto"
    hours: Hours | None = None
    boot_limit: Seconds | None = None
    settle: Seconds | None = None
    power: Word | None = None
    console: Word | None = None

    def may_be_used(self, now: time) -> bool:
        """Return whether a local time is within ``hours``, which exclude their end.

        Hours that begin and end at the same time are the whole day.
        """
        if self.hours is None:
            return True
        begin, end = map(time.fromisoformat, self.hours.split("-"))
        return begin <= now < end if begin < end else now >= begin or now < end


class Job(Struct, frozen=True, kw_only=True, rename=_KEYS):
    """The benchmark.

    :param run: the command, one word per item, with placeholders for points: ``{groups}``
    :param points: values of each placeholder
    :param runs: clean runs per boot, kernel and point
    :param instrumented: further runs per boot, kernel and point with intrusive collectors
    :param warmup: warm-up runs per boot and point
    :param collectors: as for ``ab --with``; the key in the file is ``with``
    :param left_out: as for ``ab --without``; the key in the file is ``without``
    :param metric: rules that read numbers from the output, as for ``ab --metric``
    """

    name: Name
    run: Annotated[tuple[Word, ...], Meta(min_length=1)]
    points: dict[Name, tuple[Word | int | float, ...]] = {}
    runs: Runs = 2
    instrumented: Annotated[int, Meta(ge=0, le=10_000)] = 0
    warmup: Annotated[int, Meta(ge=0, le=10_000)] = 1
    collectors: tuple[Word, ...] = ("default",)
    left_out: tuple[Word, ...] = ()
    metric: tuple[Word, ...] = ()


class Kernel(Struct, frozen=True, kw_only=True):
    """Which kernels to boot, as releases or patterns (``6.19.*``).

    :param reference: base kernel; None for the newest installed release
    :param new: new kernel; None for the kernel that was installed last
    :param yesterday: whether to compare also the kernel installed before ``new``
    :param build: program that installs today's kernel, with its arguments; None if not needed
    :param build_limit: how long ``build`` may run, s
    :param sources: folder with the commit of each kernel, ``RELEASE.json``, as for ``ab --source``;
        None if commits are unknown, so that nothing is published
    :param repo: git repository that has these commits; None to use only the folder's files
    """

    reference: Pattern | None = None
    new: Pattern | None = None
    yesterday: bool = False
    build: Annotated[tuple[Word, ...], Meta(min_length=1)] | None = None
    build_limit: Annotated[int, Meta(ge=1, le=86_400)] = 14_400
    sources: Word | None = None
    repo: Word | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """How much to record, and which results to act on.

    :param boots: boots per kernel
    :param retest: boots per kernel of the retest
    :param act_on_emulated: retest, publish and draft although an emulator gives no verdict
    """

    boots: Boots = 4
    retest: Boots = 8
    act_on_emulated: bool = False


class JobFile(Struct, frozen=True, kw_only=True):
    """The content of a job file.

    :param path: the job file
    """

    site: Site = Site()
    machine: Machine
    job: Job
    kernel: Kernel = Kernel()
    plan: Plan = Plan()
    path: Path

    @property
    def out(self) -> Path:
        """Return the folder of the nights."""
        return Path(self.site.out)


class _Keys(Struct, frozen=True, kw_only=True):
    """The keys of a job file, as in TOML."""

    site: Site = Site()
    machine: Annotated[tuple[Machine, ...], Meta(min_length=1, max_length=1)]
    job: Annotated[tuple[Job, ...], Meta(min_length=1, max_length=1)]
    kernel: Kernel = Kernel()
    plan: Plan = Plan()


def read_job(path: Path) -> JobFile:
    """Read a job file; relative paths in it become absolute.

    :raises InputError: the file cannot be read or is invalid
    """
    tree = read_toml(path, "a job file")
    _refuse_several(path, tree)
    keys = to_record(tree, _Keys, path, _EXAMPLES)
    _check_recording(path, keys.job[0])
    return _resolve(path.absolute(), keys)


def recording_options(job: Job) -> list[str]:
    """Return the options of ``ab`` for a benchmark: runs, collectors, metrics and points."""
    words = ["-n", str(job.runs), "--instrumented", str(job.instrumented)]
    words += ["--warmup", str(job.warmup), "--with", ",".join(job.collectors)]
    if job.left_out:
        words += ["--without", ",".join(job.left_out)]
    words += [f"--metric={rule}" for rule in job.metric]
    return [
        *words,
        *(f"--point={name}={','.join(map(str, job.points[name]))}" for name in job.points),
    ]


def _check_recording(path: Path, job: Job) -> None:
    """Reject options that the recorder would reject after the kernel was built.

    :raises InputError: a value of a point has a comma, or the recorder rejects an option
    """
    for name, values in job.points.items():
        if joined := next((value for value in values if "," in str(value)), None):
            raise InputError(
                f"{path}: job.points.{name}: invalid value {joined!r} (expected no comma); edit "
                "the file"
            )
    try:
        options = make_parser("ab", "schedperf").parse_args(["-o", "x/", *recording_options(job)])
        choose(options.collectors, without=options.left_out)
        check_placeholders(job.run, [*job.points])
    except RecordError as error:
        raise InputError(f"{path}: job: {error}") from error


def _refuse_several(path: Path, tree: Mapping[str, object]) -> None:
    for name in ("machine", "job"):
        tables = tree.get(name)
        number = len(tables) if isinstance(tables, list) else 1 if name in tree else 0
        if not isinstance(tables, list) and name in tree:
            raise InputError(f"{path}: {name}: expected a table [[{name}]]; edit the file")
        if number != 1:
            raise InputError(
                f"{path}: {number} tables [[{name}]] (expected exactly one); write one job file "
                f"per {name}"
            )


def _resolve(path: Path, keys: _Keys) -> JobFile:
    folder = path.parent

    def absolute(given: str | None) -> str | None:
        return None if given is None else str(folder / Path(given).expanduser())

    site, machine, kernel = keys.site, keys.machine[0], keys.kernel
    boot = machine.boot
    if boot.startswith(_COMMAND):
        boot = f"{_COMMAND}{absolute(boot.removeprefix(_COMMAND))}"
    build = kernel.build
    if build is not None and "/" in build[0]:
        build = (str(absolute(build[0])), *build[1:])
    return JobFile(
        site=replace(
            site,
            out=absolute(site.out),
            pages=absolute(site.pages),
            outbox=absolute(site.outbox),
            store=absolute(site.store),
        ),
        machine=replace(
            machine,
            boot=boot,
            power=absolute(machine.power),
            console=absolute(machine.console),
        ),
        job=keys.job[0],
        kernel=replace(
            kernel, build=build, sources=absolute(kernel.sources), repo=absolute(kernel.repo)
        ),
        plan=keys.plan,
        path=path,
    )
