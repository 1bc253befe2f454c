# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the file of a laboratory: its machines, trees and jobs.

::

    [site]
    out = "nights"

    [[machine]]
    name = "2x48"
    reach = "ssh:root@lab1"
    hours = "22:00-06:00"

    [[tree]]
    name = "tip"
    sources = "commits"

    [[job]]
    name = "hackbench"
    run = ["hackbench", "-l", "500", "-g", "{groups}"]
    points = {groups = [1, 4, 16]}

    [plan]
    boots = 4

An unknown key is an error, which names the known key that is most like it, or all known ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.toml import read_toml, to_record
from schedperf.lab.night.job import Job, Name, Word, check_job
from schedperf.model.errors import InputError
from schedperf.model.text import list_some
from schedperf.publish.mail.site import MailSite, check_site, with_store

_COMMAND = "command:"
_EXAMPLES = {
    "name": "hackbench",
    "reach": "ssh:root@lab1, not the controller itself",
    "hours": "22:00-06:00",
    "reference": "6.18.* or 6.18.0",
    "new": "6.19.* or 6.19.0-rc2",
    "older": "6.12.*",
    "url": "https://git.kernel.org/…/linux.git",
    "reserve": "labgrid:PLACE or command:PATH",
}
# Directories of site.out that are not machines.
_RESERVED = frozenset({"digests", "history", "outbox", "pages", "requests", "steps"})
_TREE = "tree"
_MOST_NAMES = 3
_DAY = timedelta(days=1)

# A kernel release, or a shell-style pattern.
Pattern = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9*?\[][A-Za-z0-9._+~:@*?\[\]!-]{0,63}\Z")]
Reach = Annotated[str, Meta(pattern=r"\Assh:[A-Za-z0-9._\[][A-Za-z0-9._@:%\[\]-]{0,254}\Z")]
Hours = Annotated[
    str, Meta(pattern=r"\A([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]\Z")
]
Reserve = Annotated[str, Meta(pattern=r"\A(labgrid|command):[^\x00-\x1f\x7f]{1,4000}\Z")]
Boots = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[int, Meta(ge=0, le=86_400)]
Program = Annotated[tuple[Word, ...], Meta(min_length=1)]


class Site(Struct, frozen=True, kw_only=True):
    """Where results are stored; paths are relative to the file.

    :param out: directory of the nights
    :param pages: directory for the published pages; None for ``pages`` in ``out``
    :param outbox: directory for the mail drafts; None for ``outbox`` in ``out``
    :param store: store of ``schedperf history``; None for ``history`` in ``out``
    :param public: private strings that pages may contain, as for ``publish --public``
    """

    out: Word = "nights"
    pages: Word | None = None
    outbox: Word | None = None
    store: Word | None = None
    public: tuple[Word, ...] = ()


class Machine(Struct, frozen=True, kw_only=True, rename={"kind": "class"}):
    """A machine that boots the kernels.

    :param kind: name that identical machines share, so that each of them can retest what another
        one found; None for ``name``. The key in the file is ``class``
    :param reach: ``ssh:HOST`` or ``ssh:HOST:PORT``, as for ``ab --on``
    :param boot: boot hook, as for ``ab --boot``
    :param hours: local time in which it may be used: ``22:00-06:00``; None for always
    :param boot_limit: as for ``ab --boot-limit``, s; None for the default of ``ab``
    :param settle: as for ``ab --settle``, s; None for the default of ``ab``
    :param power: program, as for ``ab --power``; None if there is none
    :param console: program, as for ``ab --console``; None if there is none
    :param reserve: how to reserve it: ``labgrid:PLACE`` or ``command:PATH``; None if it need not be
    :param jobs: names of the jobs that it records each night; None for all, () for requests only
    :param trees: names of the trees that it tests; None for all
    """

    name: Name
    kind: Name | None = None
    reach: Reach
    boot: Word = "auto"
    hours: Hours | None = None
    boot_limit: Seconds | None = None
    settle: Seconds | None = None
    power: Word | None = None
    console: Word | None = None
    reserve: Reserve | None = None
    jobs: tuple[Name, ...] | None = None
    trees: tuple[Name, ...] | None = None

    @property
    def recorded_name(self) -> str:
        """Return the name that recordings get, of which the history makes the machine class."""
        return self.kind or self.name

    def may_be_used(self, now: time) -> bool:
        """Return whether a local time is within ``hours``, which exclude their end.

        Hours that begin and end at the same time are the whole day.
        """
        if self.hours is None:
            return True
        begin, end = map(time.fromisoformat, self.hours.split("-"))
        return begin <= now < end if begin < end else now >= begin or now < end

    def seconds_left(self, now: datetime) -> float | None:
        """Return how long it may still be used, in s; None without a limit."""
        if self.hours is None or self.hours[:5] == self.hours[6:]:
            return None
        end = datetime.combine(now.date(), time.fromisoformat(self.hours[6:]), now.tzinfo)
        end += _DAY if end <= now else timedelta()
        return (end - now).total_seconds() if self.may_be_used(now.time()) else 0.0


class Bisect(Struct, frozen=True, kw_only=True):
    """How to find the first bad commit of a tree on its machines.

    :param install: shell command, as for ``bisect run --install``
    :param build: shell command, as for ``bisect run --build``; None for its default
    :param config: configuration, as for ``bisect run --config``; None for its default
    :param paths: as for ``bisect run --paths``
    """

    install: Word
    build: Word | None = None
    config: Word | None = None
    paths: tuple[Word, ...] = ()


class Tree(Struct, frozen=True, kw_only=True):
    """A tree, and which of its kernels to boot, as releases or patterns (``6.19.*``).

    :param name: None for the tree of ``[kernel]``
    :param url: repository, which ``build`` gets as ``SCHEDPERF_URL``
    :param refs: branches, which ``build`` gets as ``SCHEDPERF_REFS``
    :param reference: base kernel; None for the newest installed release
    :param older: an older reference kernel, to which the reference is compared once a month; None
        for no such comparison
    :param new: new kernel; None for the kernel that was installed last
    :param yesterday: whether to compare also the kernel installed before ``new``
    :param private: whether its results are never published or mailed
    :param build: program that installs today's kernel, with its arguments; None if not needed
    :param build_limit: how long ``build`` may run, s
    :param sources: folder with the commit of each kernel, ``RELEASE.json``, as for ``ab --source``;
        None if commits are unknown
    :param repo: git repository that has these commits; None to use only the folder's files
    :param bisect: how to find the first bad commit; None if the lab does not
    """

    name: Name | None = None
    url: Word | None = None
    refs: tuple[Word, ...] = ()
    reference: Pattern | None = None
    older: Pattern | None = None
    new: Pattern | None = None
    yesterday: bool = False
    private: bool = False
    build: Program | None = None
    build_limit: Annotated[int, Meta(ge=1, le=86_400)] = 14_400
    sources: Word | None = None
    repo: Word | None = None
    bisect: Bisect | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """How much to record, and which results to act on.

    :param boots: boots per kernel
    :param retest: without effect; files of earlier versions have it
    :param act_on_emulated: retest, publish and draft although an emulator gives no verdict
    """

    boots: Boots = 4
    retest: Boots | None = None
    act_on_emulated: bool = False


class Lab(Struct, frozen=True, kw_only=True):
    """The content of the file.

    :param machines: at least one
    :param trees: at least one
    :param jobs: at least one
    :param mail: the settings of the mails; None if they are in ``mail.toml`` of the outbox, or if
        no mails are drafted
    :param path: the file
    :param has_folders: whether each machine has a folder in ``site.out``
    """

    site: Site = Site()
    machines: tuple[Machine, ...]
    trees: tuple[Tree, ...]
    jobs: tuple[Job, ...]
    plan: Plan = Plan()
    mail: MailSite | None = None
    path: Path
    has_folders: bool

    @property
    def out(self) -> Path:
        """Return the directory of the nights."""
        return Path(self.site.out)

    @property
    def store(self) -> Path:
        """Return the store, which may not exist yet."""
        return Path(self.site.store or self.out / "history")

    @property
    def pages(self) -> Path:
        """Return the directory of the pages."""
        return Path(self.site.pages or self.out / "pages")

    @property
    def outbox(self) -> Path:
        """Return the outbox, which may not exist yet."""
        return Path(self.site.outbox or self.out / "outbox")

    @property
    def is_private(self) -> bool:
        """Return whether nothing may be published or mailed."""
        return all(tree.private for tree in self.trees)

    def machine(self, name: str | None) -> Machine:
        """Return a machine.

        :param name: its name; None if there is only one
        :raises InputError: no such machine
        """
        for machine in self.machines:
            if name == machine.name or (name is None and len(self.machines) == 1):
                return machine
        names = list_some([each.name for each in self.machines], _MOST_NAMES)
        raise InputError(f"--machine: {name} not in {self.path} (expected one of {names})")

    def folder_of(self, machine: Machine) -> Path:
        """Return the directory of a machine's nights."""
        return self.out / machine.name if self.has_folders else self.out

    def jobs_of(self, machine: Machine) -> tuple[Job, ...]:
        """Return the jobs that a machine records each night."""
        names = machine.jobs
        return tuple(job for job in self.jobs if names is None or job.name in names)

    def trees_of(self, machine: Machine) -> tuple[Tree, ...]:
        """Return the trees that a machine tests."""
        names = machine.trees
        return tuple(tree for tree in self.trees if names is None or tree.name in names)


class _Keys(Struct, frozen=True, kw_only=True):
    """The keys of the file, as in TOML."""

    site: Site = Site()
    machine: Annotated[tuple[Machine, ...], Meta(min_length=1)]
    tree: tuple[Tree, ...] = ()
    job: Annotated[tuple[Job, ...], Meta(min_length=1)]
    kernel: Tree | None = None
    plan: Plan = Plan()
    mail: MailSite | None = None


def read_lab(path: Path) -> Lab:
    """Read the file of a laboratory; relative paths in it become absolute.

    :raises InputError: the file cannot be read or is invalid
    """
    tables = read_toml(path, "the file of a lab, e.g. lab.toml")
    _check_tables(path, tables)
    keys = to_record(tables, _Keys, path, _EXAMPLES)
    for problem in _problems(keys):
        raise InputError(f"{path}: {problem}; edit the file")
    for job in keys.job:
        check_job(job, f"{path}: job" if len(keys.job) == 1 else f"{path}: job {job.name}")
    if keys.mail is not None:
        keys = replace(keys, mail=with_store(keys.mail, tables))
    return _resolve(path.absolute(), keys)


def _check_tables(path: Path, tables: Mapping[str, Any]) -> None:
    """Reject what a reader of arrays of tables would name badly."""
    for name in ("machine", "job", _TREE):
        found = tables.get(name, [])
        if not isinstance(found, list):
            raise InputError(f"{path}: {name}: expected a table [[{name}]]; edit the file")
        if not found and name != _TREE:
            raise InputError(
                f"{path}: 0 tables [[{name}]] (expected one or more); add one to the file"
            )


def _problems(keys: _Keys) -> Iterator[str]:
    """Yield what the types do not exclude."""
    named: Mapping[str, Sequence[str | None]] = {
        "machine": [each.name for each in keys.machine],
        "job": [each.name for each in keys.job],
        _TREE: [each.name for each in keys.tree],
    }
    for kind, names in named.items():
        if None in names:
            yield f"{kind}.name is missing in a table [[{kind}]]"
        if twice := next((name for name in names if names.count(name) > 1), None):
            yield f"{kind}: the name {twice} is given twice (expected one table [[{kind}]] for it)"
    if keys.kernel is not None and (keys.tree or keys.kernel.name is not None):
        yield "kernel: given with [[tree]] or a name (expected [kernel] alone, or [[tree]] tables)"
    yield from _problems_of_machines(keys)
    private = {tree.private for tree in _trees(keys)}
    if len(private) > 1:
        name = next(tree.name for tree in keys.tree if tree.private)
        yield (
            f"tree {name}: private, but other trees are not (expected all or none, because a site "
            "is either); write a file of its own for it, with its own site.out"
        )
    if private == {True} and keys.mail is not None:
        yield "mail: given, but all trees are private, so nothing is mailed; leave out [mail]"


def _problems_of_machines(keys: _Keys) -> Iterator[str]:
    known: Mapping[str, Sequence[str | None]] = {
        "jobs": [job.name for job in keys.job],
        "trees": [tree.name for tree in keys.tree],
    }
    for machine in keys.machine:
        for key, given in (("jobs", machine.jobs), ("trees", machine.trees)):
            for name in given or ():
                if name not in known[key]:
                    names = list_some([str(each) for each in known[key]], _MOST_NAMES) or "none"
                    yield f"machine {machine.name}: {key}: unknown {name} (expected {names})"
        if machine.trees == ():
            yield f"machine {machine.name}: trees is empty (expected one or more)"
        if machine.name in _RESERVED:
            yield (
                f"machine {machine.name}: a directory of site.out has this name; give the machine "
                "another one"
            )


def _trees(keys: _Keys) -> Sequence[Tree]:
    return keys.tree or (keys.kernel or Tree(),)


def _resolve(path: Path, keys: _Keys) -> Lab:
    def absolute(given: str | None) -> str | None:
        return None if given is None else str(path.parent / Path(given).expanduser())

    site = keys.site
    mail = keys.mail and check_site(keys.mail, f"{path}: mail", path.parent)
    return Lab(
        site=replace(
            site,
            out=absolute(site.out),
            pages=absolute(site.pages),
            outbox=absolute(site.outbox),
            store=absolute(site.store),
        ),
        machines=tuple(_resolve_machine(machine, absolute) for machine in keys.machine),
        trees=tuple(_resolve_tree(tree, absolute) for tree in _trees(keys)),
        jobs=keys.job,
        plan=keys.plan,
        mail=mail,
        path=path,
        has_folders=bool(keys.tree) or len(keys.machine) > 1,
    )


_Absolute = Callable[[str | None], str | None]


def _resolve_machine(machine: Machine, absolute: _Absolute) -> Machine:
    def hook(given: str | None) -> str | None:
        if given is None or not given.startswith(_COMMAND):
            return given
        return f"{_COMMAND}{absolute(given.removeprefix(_COMMAND))}"

    return replace(
        machine,
        boot=hook(machine.boot),
        reserve=hook(machine.reserve),
        power=absolute(machine.power),
        console=absolute(machine.console),
    )


def _resolve_tree(tree: Tree, absolute: _Absolute) -> Tree:
    build = tree.build
    if build is not None and "/" in build[0]:
        build = (str(absolute(build[0])), *build[1:])
    bisect = tree.bisect
    if bisect is not None:
        bisect = replace(bisect, config=absolute(bisect.config))
    return replace(
        tree,
        build=build,
        sources=absolute(tree.sources),
        repo=absolute(tree.repo),
        bisect=bisect,
    )
