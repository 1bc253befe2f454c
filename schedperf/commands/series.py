# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf series``: find the commit of a patch series that changes a result."""

import contextlib
import fcntl
import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from schedperf.commands import vm
from schedperf.commands._given_words import KeepsWords
from schedperf.commands._recipe import build_options, kernel_recipe
from schedperf.commands.compare import choose_format
from schedperf.commands.compare import command as compare
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf_collectors.machine.new_files import write_durably

if TYPE_CHECKING:
    from schedperf.commands._bisect_machines import MayDescribe
    from schedperf.inputs.git import Checkouts, Commit
    from schedperf.lab.bisect.document import BisectDocument
    from schedperf.lab.bisect.judge import Range
    from schedperf.lab.bisect.search import Builds
    from schedperf.lab.vm.images import Kernel

# Series of more commits are bisected unless --all is given.
MOST_BY_DEFAULT = 8
_SHORT_HASH = 12
_LONGEST_LABEL = 40
# Characters of a bundle's name besides letters and digits.
_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9_.+-]")
_MOST_BUILT = 64
# The maximum that a bundle stores.
_MOST_PATCHES = 100
_FEWEST = 2
# Names of the options of schedperf compare that are passed on, and of their values here.
_OF_COMPARE = {"html": "html", "format": "format_name"}
_STATE = "series.json"
_NO_CHANGE = "ends: no significant change, so the commits between them are not recorded (--all: do)"

EPILOG = """\b
Examples:
  schedperf series v6.1..my-series --repo ~/linux --config kvm.config \\
     -o series --boots 4 -n 2 -- hackbench -l 100 -g 2
  schedperf series --patch 20220628@example.org --base v6.1 --repo ~/linux \\
     --config kvm.config -o series -- hackbench -l 100 -g 2
  schedperf series --built base=out/base --built patch=out/patch -o series \\
     -- hackbench -l 100 -g 2
\b
Kernels boot in virtual machines, as by schedperf vm. Real machines boot
installed kernels: schedperf ab --kernel.
"""


@click.command(cls=KeepsWords, epilog=EPILOG)
@click.option("--repo", metavar="DIR", type=click.Path(path_type=Path),
              help="Read the commits from this git repository.")  # fmt: skip
@build_options
@click.option("--built", multiple=True, metavar="NAME=DIR",
              help="Use kernels that are already built; the first is the base.")  # fmt: skip
@click.option("--patch", metavar="MSGID",
              help="Fetch this series of patches by b4, and apply it to --base.")  # fmt: skip
@click.option("--mbox", metavar="FILE", type=click.Path(path_type=Path),
              help="Search the series of --patch in this mailbox.")  # fmt: skip
@click.option("--base", metavar="REF", default="HEAD", show_default=True,
              help="Apply the patches of --patch to this commit.")  # fmt: skip
@click.option("--each", is_flag=True,
              help="Record each patch of --patch, not only base and all patches.")  # fmt: skip
@click.option("--all", "mode", flag_value="all",
              help=f"Record all commits.  [default: up to {MOST_BY_DEFAULT} commits]")  # fmt: skip
@click.option("--ends", "mode", flag_value="ends",
              help="Record base and the last commit; if they differ, search the commits that "
                   "change the result, as schedperf bisect does.  "
                   f"[default: from {MOST_BY_DEFAULT + 1} commits]")  # fmt: skip
@click.option("--result", metavar="NAME",
              help="With --ends: name the result that decides.  [default: the only primary "
                   "one]")  # fmt: skip
@click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(path_type=Path),
              help="Write one bundle per commit to this directory, and continue what is in "
                   "it.")  # fmt: skip
@click.option("--html", metavar="FILE",
              help="Write the comparison as one HTML file, as schedperf compare does.")  # fmt: skip
@click.option("--format", "format_name", metavar="NAME",
              help="Choose the format of stdout, as in schedperf compare, e.g. lkml.  "
                   "[default: text]")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit with status 3 if the verdict is inconclusive.")
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings, errors and the result.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[BASE..HEAD] -- CMD...")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Find the commit of a patch series that changes a result.

    Each commit is built, booted in virtual machines, and recorded in a bundle of its own. The
    comparison has a column per commit, with the change from base and the step from the commit
    before it.
    """
    span, words = _split_words(options)
    if options["format_name"] is not None:
        choose_format(options["format_name"], {})
    output: Path = options["output"]
    _make_folder(output)
    recorder = vm.GuestRecorder(ctx, {**options, "command_line": words})
    with _claimed(output), contextlib.ExitStack() as stack:
        try:
            with vm.interruptible() as check:
                source = _source(span, options, stack)
                _check_state(output, [each.commit.hash for each in source.commits], words)
                series = _Series(source, recorder, options, words, check)
                series.record()
        except vm.Interrupted as error:
            click.echo(
                f"schedperf: interrupted; finished boots are in {output}; repeat the command to "
                "continue",
                err=True,
            )
            return 128 + error.signum
        return series.compare()


class _Entry:
    """One commit, or one kernel that was built elsewhere.

    :param stem: hash or name, of which the name of its bundle has the beginning
    """

    def __init__(self, index: int, digits: int, commit: "Commit", stem: str) -> None:
        self.commit = commit
        number = f"{index:0{digits}}"
        # Name of its bundle, and label in reports.
        self.name = f"{number}-{_UNSAFE_NAME.sub('_', stem)[:_SHORT_HASH]}"
        label = f"{number} {commit.subject}"
        self.label = label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


class _Source:
    """The commits of a series, base first, and how to get the kernel of each.

    :param describe: function that returns what a bundle stores about a commit
    :param stems: see :class:`_Entry`; None for the hashes
    """

    def __init__(
        self,
        span: "Range",
        builds: "Builds",
        describe: "MayDescribe",
        stems: Sequence[str] | None = None,
    ) -> None:
        self.span = span
        self.builds = builds
        self.describe = describe
        digits = max(2, len(str(len(span.commits) - 1)))
        self.commits = [
            _Entry(index, digits, commit, stem)
            for index, (commit, stem) in enumerate(
                zip(span.commits, stems or [each.hash for each in span.commits], strict=True)
            )
        ]
        # Whether all kernels are recorded by default, whatever their number.
        self.is_short = stems is not None


def _source(span: str, options: Mapping[str, Any], stack: contextlib.ExitStack) -> _Source:
    if options["built"]:
        return _built_source(options["built"])
    repo: Path | None = options["repo"]
    if repo is None:
        raise InputError("--repo: missing (expected a git repository, e.g. --repo ~/linux)")
    recipe = kernel_recipe(options)
    from schedperf.inputs.git import Repository  # noqa: PLC0415
    from schedperf.lab.bisect.judge import Options, read_range  # noqa: PLC0415
    from schedperf.lab.build import Builder  # noqa: PLC0415

    repository = Repository(repo)
    work = options["output"] / "work"
    stack.callback(shutil.rmtree, work, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    checkouts = repository.borrow(work)
    builder = Builder(checkouts, options["output"] / "builds", recipe)
    if options["patch"] is None:
        base, _, head = span.partition("..")
        read = read_range(repository, base, head or "HEAD", Options())
        refs = {read.commits[0].hash: base, read.commits[-1].hash: head}

        def describe(commit: "Commit") -> Mapping[str, Any]:
            return repository.describe(commit.hash, refs.get(commit.hash))

        return _Source(read, builder, describe)
    commits = _patched(repository.resolve(options["base"]), checkouts, options, work)

    def describe_patched(commit: "Commit") -> Mapping[str, Any]:
        # Commits that are made from patches are in no public tree.
        patches = [each.subject for each in commits[1 : commits.index(commit) + 1]]
        base = repository.describe(commits[0].hash, options["base"])
        return {**base, "patches": patches[:_MOST_PATCHES]}

    recorded = commits if options["each"] else [commits[0], commits[-1]]
    return _Source(_plain_range(recorded), builder, describe_patched)


def _plain_range(commits: "Sequence[Commit]") -> "Range":
    """Return a range of commits without merges."""
    from schedperf.lab.bisect.judge import Options, Range  # noqa: PLC0415

    return Range(
        commits=commits,
        likely={each.hash for each in commits},
        options=Options(),
        read_branches=lambda _merge, _parent: (),
    )


def _patched(
    base: str, checkouts: "Checkouts", options: Mapping[str, Any], work: Path
) -> "list[Commit]":
    """Return base and the commits that the patches make.

    :raises InputError: the patches cannot be fetched, or do not apply
    """
    from schedperf.lab.series.patches import fetch_patches  # noqa: PLC0415

    mailbox = fetch_patches(options["patch"], options["mbox"], work / "patches")
    tree = checkouts.add("patched", base)
    commits = checkouts.as_repository().series(base, checkouts.apply(tree, mailbox))
    checkouts.remove("patched")
    return commits


def _built_source(given: Sequence[str]) -> _Source:
    from schedperf.inputs.git import Commit  # noqa: PLC0415

    if not _FEWEST <= len(given) <= _MOST_BUILT:
        raise InputError(
            f"--built: {len(given)} kernel(s) given (expected {_FEWEST} to {_MOST_BUILT}, e.g. "
            "--built base=DIR --built new=DIR)"
        )
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals:
            name, path = Path(text).name, text
        if name in folders or not name or not name.isprintable():
            raise InputError(
                f"--built {clean_line(text)}: name missing, invalid or given twice (expected "
                "NAME=DIR, e.g. base=out/base)"
            )
        folders[name] = Path(path)
    # The names stand for commits.
    commits = [Commit(hash=hashlib.sha256(n.encode()).hexdigest(), subject=n) for n in folders]
    built = _Built({each.hash: folders[each.subject] for each in commits})
    return _Source(_plain_range(commits), built, lambda _: None, list(folders))


class _Built:
    """Kernels that exist.

    :param folders: their directories, by the hash of the commit
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders

    def existing(self, commit: str) -> Path:
        """Return the directory of a kernel."""
        return self._folders[commit]

    build = existing


class _Series:
    """Records the commits of a series.

    :param check: raises an exception if a signal has asked to end
    """

    def __init__(
        self,
        source: _Source,
        recorder: vm.GuestRecorder,
        options: Mapping[str, Any],
        words: Sequence[str],
        check: Callable[[], None],
    ) -> None:
        self._source = source
        self._recorder = recorder
        self._output: Path = options["output"]
        self._boots: int = options["boots"]
        self._result: str | None = options["result"]
        self._quiet: bool = options["quiet"]
        self._words = tuple(words)
        self._check = check
        self._comparison = _comparison_options(options)
        self._failed: dict[int, str] = {}
        self._kernels: dict[int, Kernel] = {}
        many = len(source.commits) > MOST_BY_DEFAULT + 1 and not source.is_short
        self._is_bisected = (options["mode"] or ("ends" if many else "all")) == "ends"

    def record(self) -> None:
        """Record all commits; or the ends, then the commits that bisect the change.

        :raises InputError: base or the last commit of a bisection cannot be recorded, or a
            recording failed
        """
        last = len(self._source.commits) - 1
        if not self._is_bisected:
            self._record_all(range(last + 1))
            return
        from schedperf.commands._bisect_text import format_document  # noqa: PLC0415

        document = self._search()
        click.echo(format_document(document), err=True, nl=False)
        if document.status == "no-change":
            click.echo(f"schedperf: {_NO_CHANGE}", err=True)

    def _search(self) -> "BisectDocument":
        """Search the commits that change the result, beginning with both ends.

        :raises InputError: an end cannot be recorded, or a recording failed
        """
        from schedperf.commands._bisect_machines import Guests  # noqa: PLC0415
        from schedperf.commands._bisect_screen import Screen  # noqa: PLC0415
        from schedperf.lab.bisect.search import Search  # noqa: PLC0415
        from schedperf.lab.bisect.store import Request, Store  # noqa: PLC0415

        source, output = self._source, self._output
        span = source.span
        entries = {entry.commit.hash: entry for entry in source.commits}
        names = {commit: entry.name for commit, entry in entries.items()}
        store = Store(output / "search", output.absolute(), names)
        store.begin(
            Request(
                repository="",
                good=span.commits[0].hash,
                bad=span.commits[-1].hash,
                search=span.options,
                place="vm",
                target="",
                result=self._result,
                build="",
                recording=(),
                words=self._words,
            )
        )
        screen = Screen(span, quiet=self._quiet, yes=True)

        def label(commit: "Commit") -> str:
            # A commit of a merged branch is none of the series.
            known = entries.get(commit.hash)
            return clean_line(commit.subject if known is None else known.label)

        guests = Guests(self._recorder, source.describe, label)
        document = Search(store, span, source.builds, guests, screen).run(self._check)
        places = list(entries)
        for commit, reason in store.progress().untestable.items():
            if commit in entries:
                self._failed[places.index(commit)] = reason
        return document

    def compare(self) -> int:
        """Compare all recorded commits with base; return the exit status of `schedperf compare`.

        :raises InputError: fewer than two commits are recorded
        """
        indices = range(len(self._source.commits))
        for index, reason in sorted(self._failed.items()):
            click.echo(f"schedperf: not recorded: {self._name(index)}: {reason}", err=True)
        paths = [str(self._path(index)) for index in indices if self._path(index).exists()]
        if len(paths) < _FEWEST:
            raise InputError(
                f"{self._output}: {len(paths)} kernel(s) recorded (expected at least two); see the "
                "logs of the builds"
            )
        click.echo(f"schedperf compare {shlex.join(paths)}", err=True)
        context = compare.make_context("schedperf compare", [*self._comparison, *paths])
        with context:
            return int(compare.invoke(context) or 0)

    def _record_all(self, indices: Sequence[int]) -> None:
        """Record the commits that build, boot and lack boots.

        :raises InputError: base does not build, or as in :meth:`_session`
        """
        usable = [index for index in indices if self._prepare(index)]
        if 0 in self._failed:
            raise InputError(f"{self._name(0)}: {self._failed[0]}; name another base")
        while True:
            lacking = {index: self._boots - self._made(index) for index in usable}
            missing = [index for index in usable if lacking[index] > 0]
            if not missing or self._session(missing, max(lacking.values())):
                return
            usable = [index for index in usable if index not in self._failed]

    def _session(self, indices: Sequence[int], boots: int) -> bool:
        """Boot some kernels interleaved; return false if a new one does not boot, and leave it out.

        The bundles that this session began are then removed.

        :raises KernelFailed: base, or a kernel that has booted before, does not boot
        :raises InputError: a recording failed
        """
        from schedperf.lab.vm.session import KernelFailed  # noqa: PLC0415

        fresh = [self._path(index) for index in indices if not self._path(index).exists()]
        try:
            self._recorder.record([self._kernels[index] for index in indices], boots)
        except KernelFailed as error:
            index = indices[error.kernel]
            if not error.is_first or index == 0 or not fresh or self._path(index) not in fresh:
                raise
            self._fail(index, f"does not boot: {error.reason}")
            # The boots of the other kernels in this session are incomplete without it.
            for path in fresh:
                path.unlink(missing_ok=True)
            return False
        return True

    def _prepare(self, index: int) -> bool:
        """Build the kernel of a commit; return false if it does not build.

        :raises InputError: the build's result cannot be written or read, or cannot be booted
        """
        from schedperf.lab.build import BuildFailed, read_built  # noqa: PLC0415

        if index in self._failed:
            return False
        if index in self._kernels:
            return True
        entry = self._source.commits[index]
        builds, commit = self._source.builds, entry.commit
        if not self._quiet and builds.existing(commit.hash) is None:
            click.echo(f"schedperf: building {clean_line(entry.label)}", err=True)
        try:
            kernel = read_built(builds.build(commit.hash), entry.name, clean_line(entry.label))
            self._kernels[index] = replace(kernel, source=self._source.describe(commit))
        except BuildFailed as error:
            self._fail(index, f"does not build: {error.reason}")
        return index not in self._failed

    def _fail(self, index: int, reason: str) -> None:
        self._failed[index] = clean_line(reason)
        click.echo(f"schedperf: {self._name(index)}: {self._failed[index]}", err=True)

    def _made(self, index: int) -> int:
        from schedperf_collectors.machine.errors import RecordError  # noqa: PLC0415
        from schedperf_collectors.recorder.bundle import examine  # noqa: PLC0415

        path = self._path(index)
        if not path.exists():
            return 0
        try:
            return len(examine(path).boots)
        except RecordError as error:
            raise InputError(str(error)) from error

    def _path(self, index: int) -> Path:
        return self._output / f"{self._source.commits[index].name}.tar"

    def _name(self, index: int) -> str:
        return clean_line(self._source.commits[index].label)


def _comparison_options(options: Mapping[str, Any]) -> list[str]:
    """Return the given options that ``schedperf compare`` has, too."""
    given = [f"--{name}={options[key]}" for name, key in _OF_COMPARE.items() if options[key]]
    return [*given, "--strict"] if options["strict"] else given


def _split_words(options: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the range of commits ("" with ``--built`` or ``--patch``) and the workload.

    :raises InputError: the range is invalid, or options contradict each other
    """
    words: tuple[str, ...] = options["words"]
    sources = [name for name in ("built", "patch") if options[name]]
    if len(sources) > 1:
        raise InputError("--built, --patch: given together; use one of them")
    if options["patch"] is None and (options["mbox"] is not None or options["each"]):
        raise InputError("--mbox, --each: given without --patch; add --patch MSGID")
    span = words[0] if words else ""
    base, dots, head = span.partition("..")
    if sources and dots and "/" not in span and shutil.which(span) is None:
        raise InputError(
            f"{clean_line(span)[:80]}: a range of commits is given together with --{sources[0]}; "
            "use one of them"
        )
    if sources:
        return "", words
    if not dots or not base or head.startswith("."):
        raise InputError(
            f"{clean_line(span)[:80] or 'BASE..HEAD'}: invalid range of commits (expected "
            "BASE..HEAD, e.g. v6.1..my-series)"
        )
    return span, words[1:]


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output {output}: {(error.strerror or str(error)).lower()}; choose another directory"
        ) from None


@contextlib.contextmanager
def _claimed(output: Path) -> Iterator[None]:
    """Lock the directory against other series; a killed series leaves no lock.

    :raises InputError: another series is writing to the directory
    """
    with (output / "series.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{output}: another `schedperf series` is writing to this directory; wait until it "
                "has finished, or choose another --output"
            ) from None
        yield


def _check_state(output: Path, keys: Sequence[str], words: Sequence[str]) -> None:
    """Store the series and the workload in the output directory, and refuse those of others.

    :raises InputError: the directory has bundles of another series or of another workload
    """
    path = output / _STATE
    digest = hashlib.sha256(json.dumps([list(keys), list(words)]).encode()).hexdigest()
    state = json.dumps({"series": digest, "commits": len(keys), "command": list(words)}) + "\n"
    # Without bundles, the other series has not recorded anything.
    is_other = path.exists() and path.read_text(errors="replace") != state
    if is_other and any(output.glob("*.tar")):
        raise InputError(
            f"{output}: contains another series or workload; choose another --output, or repeat "
            "the command that recorded it"
        )
    write_durably(path, state.encode())


command.params.extend(vm.shared_parameters())
