# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf culprit``: keep the record about the first bad commit of a regression."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.commands._outputs import dump_json, json_option, open_outputs, write_output
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

if TYPE_CHECKING:
    from schedperf.inputs.git import Repository
    from schedperf.model.comparison import Comparison
    from schedperf.publish.culprit.build import Part, Roles
    from schedperf.publish.culprit.commits import Ends
    from schedperf.publish.culprit.record import Bisection, Commit, Culprit, Links, Tree

_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
_SIDE = re.compile(r"(.+):(new\d*)\Z", re.DOTALL)
_LONGEST_TEXT = 300
_MOST_BYTES = 8 << 20

EPILOG = """\b
Examples:
  schedperf compare base.tar new.tar --json compare.json
  schedperf culprit new culprit.json --repo linux --good v6.18 --bad v6.19 compare.json
  schedperf culprit new culprit.json --store history --step 5e9a1b2c3d4e compare.json
  schedperf culprit add culprit.json --posted 20261121.1@lab.example
  schedperf culprit show culprit.json
\b
The comparisons stay beside the record: keep their files in its directory.
FILE:SIDE names a side of a comparison of several, e.g. compare.json:new2.
"""


class _Subcommands(click.Group):
    """The subcommands, each with -h."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.context_settings.update(_HELP_OPTIONS)
        return command


@click.group(name="culprit", cls=_Subcommands, epilog=EPILOG)
def command() -> None:
    """Keep the record about the first bad commit of a regression.

    Mails and pages about the commit are drawn from the record and from the comparisons that it
    refers to.
    """


RECORD = click.argument("path", metavar="CULPRIT.json", type=click.Path(path_type=Path))
# Each of these measures another aspect of the commit.
ROLES = (
    click.option("--retest", metavar="FILE",
                 help="Add the retest: good and bad on other boots. Texts report it."),
    click.option("--tip", metavar="FILE",
                 help="Add the newest kernel of the tree, against good."),
    click.option("--revert", metavar="FILE",
                 help="Add the newest kernel with the commit reverted, against good."),
    click.option("--revert-impossible", metavar="WHY",
                 help="State why the commit cannot be reverted."),
    click.option("--feature", metavar="NAME=FILE",
                 help="Add a comparison of this scheduler feature on bad, e.g. PLACE_LAG=FILE."),
    click.option("--forced-alignment", metavar="FILE",
                 help="Add good and bad rebuilt with all functions aligned to 64 bytes."),
    click.option("--a-a", metavar="FILE", help="Add a comparison of good with itself."),
    click.option("--fix", metavar="FILE", help="Add the kernel with the fix, against good."),
    click.option("--fixed-by", metavar="COMMIT", help="Name the fix; needs --repo."),
    click.option("--bisection", "--bisect", metavar="FILE", type=click.Path(path_type=Path),
                 help="Add a bisection: the JSON of schedperf bisect, or a file as in "
                      "docs/culprit.md."),
    click.option("--also", metavar="FILE", multiple=True,
                 help="Add good and bad on another machine or with another workload."),
    click.option("--tree", metavar="NAME",
                 help="Name the tree and branch, e.g. tip/sched/core; with --repo, a ref of it."),
    click.option("--private", is_flag=True, help="Never publish anything about the tree."),
    click.option("--posted", metavar="MSGID",
                 help="Name the mail of the posted patch.  [default: Link: of an unmerged commit]"),
    click.option("--report", metavar="MSGID", help="Name the first mail about the commit."),
    click.option("--repo", metavar="DIR", type=click.Path(path_type=Path),
                 help="Read the commits from this git repository.  [default: from the bundles]"),
)  # fmt: skip


def _takes_roles(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(ROLES):
        function = option(function)
    return function


@command.command(name="new")
@RECORD
@click.argument("found", metavar="COMPARISON.json...", nargs=-1)
@click.option("--good", metavar="COMMIT", help="Name the last good commit.")
@click.option("--bad", metavar="COMMIT", help="Name the first bad commit.")
@click.option(
    "--parent", is_flag=True, help="State that good is the parent of bad, without --repo."
)
@click.option(
    "--store",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Read the step from this store; needs --step.",
)
@click.option(
    "--step",
    metavar="STEP",
    help="Write or update the record of this step of the store; its commits are those "
    "of the comparisons.",
)
@_takes_roles
def new(
    path: Path,
    found: tuple[str, ...],
    *,
    good: str | None,
    bad: str | None,
    parent: bool,
    store: Path | None,
    step: str | None,
    **options: Any,
) -> None:
    """Write a new record: a comparison shows a regression between two commits.

    Of a comparison of a series, the largest significant step is used: its side is bad and the one
    before it good. If commits between good and bad were not tested, the record is about the range.

    With --store and --step, the record is that of a step: give the comparisons of its nights. The
    same command with a later night, a retest or a bisection updates it.
    """
    from schedperf.publish.culprit.files import change_record  # noqa: PLC0415 # --help stays fast

    if (store is None) != (step is None):
        raise click.UsageError("--store, --step: one is given without the other; give both")
    with change_record(path):
        if store is not None and step is not None:
            from schedperf.commands._culprit_step import write_step  # noqa: PLC0415

            if good or bad or parent:
                raise click.UsageError(
                    "--good, --bad, --parent: given with --step, whose commits are those of the "
                    "comparisons; leave them out"
                )
            write_step(path, found, store, step, options)
            return
        _new(path, found, good, bad, options, is_parent=parent)


def _new(
    path: Path,
    found: tuple[str, ...],
    good: str | None,
    bad: str | None,
    options: Mapping[str, Any],
    *,
    is_parent: bool,
) -> None:
    from schedperf.publish.culprit.build import new_culprit, step_of  # noqa: PLC0415 # as above

    if len(found) != 1:
        raise click.UsageError(f"COMPARISON.json: {len(found)} given (expected 1)")
    if good is None or bad is None:
        raise click.UsageError("--good, --bad: not given; name both commits, or --store and --step")
    if path.exists():
        raise InputError(f"{path}: exists; add to it by `schedperf culprit add`, or remove it")
    loaded = Files({})
    first = loaded.part(found[0], found[0], step_of)
    repository = repository_of(options)
    ends = _read_ends(repository, good, bad, first, is_parent=is_parent)
    roles = read_roles(options, loaded, repository, ends.bad)
    save(path, new_culprit(ends, first, roles), loaded)


@command.command()
@RECORD
@_takes_roles
def add(path: Path, **options: Any) -> None:
    """Add comparisons and links to a record.

    A comparison in a role that the record has already replaces the earlier one; those of --also
    are added.
    """
    from schedperf.publish.culprit.build import Part, add_roles  # noqa: PLC0415 # as above
    from schedperf.publish.culprit.figures import Evidence  # noqa: PLC0415
    from schedperf.publish.culprit.files import (  # noqa: PLC0415
        change_record,
        find_comparisons,
        load_culprit,
    )

    with change_record(path):
        known = load_culprit(path)
        loaded = Files(find_comparisons(path.parent, known.comparisons))
        roles = read_roles(options, loaded, repository_of(options), known.bad, known.tree)
        evidence = Evidence(culprit=known, comparisons=loaded.comparisons)
        main = Part(name=f"{path}: main", comparison=evidence.main, measured=known.main)
        save(path, add_roles(known, main, roles), loaded)


@command.command()
@RECORD
@json_option("the record")
def show(path: Path, *, json: str | None) -> None:
    """Print a record, and what it lacks.

    Figures are those of the comparisons in the directory of the record.
    """
    from schedperf.publish.culprit.files import find_comparisons, load_culprit  # noqa: PLC0415 # as above

    with open_outputs({"json": json}, [path]) as files:
        culprit = load_culprit(path)
        for file in files.values():
            write_output(file, [dump_json(culprit)])
    if json == "-":
        click.echo(dump_json(culprit), nl=False)
    else:
        _print(culprit, find_comparisons(path.parent, culprit.comparisons))


def save(path: Path, culprit: "Culprit", loaded: "Files") -> None:
    """Write and print a record, with the checks that its comparisons pass or fail.

    :raises InputError: the record is invalid, or cannot be written
    """
    from schedperf.publish.culprit.checks import with_checks  # noqa: PLC0415 # as above
    from schedperf.publish.culprit.figures import Evidence  # noqa: PLC0415
    from schedperf.publish.culprit.files import save_culprit  # noqa: PLC0415

    checked = with_checks(Evidence(culprit=culprit, comparisons=loaded.comparisons))
    save_culprit(path, checked)
    _print(checked, loaded.comparisons)
    for each in loaded.paths:
        if not path.parent.samefile(each.parent):
            click.echo(f"copy {each} to {path.parent}: comparisons are found there only", err=True)


def _print(culprit: "Culprit", comparisons: "Mapping[str, Comparison]") -> None:
    from schedperf.publish.culprit.figures import Evidence  # noqa: PLC0415 # as above
    from schedperf.publish.culprit.summary import summarise  # noqa: PLC0415

    click.echo(summarise(Evidence(culprit=culprit, comparisons=comparisons)), nl=False)


class Files:
    """The comparisons that were read.

    :ivar comparisons: by their ids
    :ivar paths: of those read from options
    :ivar sources: the ids of those read from options, by path
    """

    def __init__(self, comparisons: "Mapping[str, Comparison]") -> None:
        self.comparisons = dict(comparisons)
        self.paths: list[Path] = []
        self.sources: dict[Path, str] = {}

    def part(
        self, name: str, file: str, make: "Callable[[str, Comparison, str | None], Part]"
    ) -> "Part":
        """Return the comparison of a file in a role.

        :param name: option and file, for messages
        :param file: ``FILE``, or ``FILE:SIDE`` to choose the new side
        :param make: function that returns the part, e.g. :func:`part_of`
        :raises InputError: the file cannot be read, or lacks the side
        """
        from schedperf.publish.culprit.files import load_comparison  # noqa: PLC0415 # as above

        match = None if Path(file).exists() else _SIDE.match(file)
        path = Path(match[1] if match else file)
        comparison = load_comparison(path)
        self.paths.append(path)
        self.sources[path] = comparison.id
        self.comparisons[comparison.id] = comparison
        return make(clean_line(name), comparison, match[2] if match else None)


def read_roles(
    options: Mapping[str, Any],
    loaded: Files,
    repository: "Repository | None",
    bad: "Commit | None",
    known_tree: "Tree | None" = None,
) -> "Roles":
    """Return the comparisons in their roles, and the facts that options give.

    :param bad: the bad commit; None if it follows from the comparisons
    :raises InputError: a file cannot be read, or a fact is invalid
    """
    from schedperf.publish.culprit.build import Roles, part_of, step_of  # noqa: PLC0415 # as above

    def part(name: str, file: str | None, make: Any = part_of) -> "Part | None":
        option = f"--{name.replace('_', '-')}"
        return None if file is None else loaded.part(f"{option} {file}", file, make)

    feature, feature_file = _split_feature(options["feature"])
    alone = ("tip", "fix", "revert", "forced_alignment", "a_a")
    parts = {name: part(name, options[name]) for name in alone}
    elsewhere = (part("also", file, step_of) for file in options["also"])
    tree, merged = _read_tree(options, repository, bad)
    bisection = None if bad is None else _read_bisection(options["bisection"], bad)
    why = options["revert_impossible"]
    if why is not None and options["revert"] is not None:
        raise click.UsageError("--revert-impossible: given with --revert; leave one of them out")
    return Roles(
        **parts,
        retest=part("retest", options["retest"], step_of),
        fixed_by=_read_fix(options["fixed_by"], repository, tree or known_tree),
        revert_impossible=None if why is None else _one_line("--revert-impossible", why),
        feature=feature,
        feature_switch=part("feature", feature_file),
        bisection=bisection,
        elsewhere=tuple(each for each in elsewhere if each is not None),
        tree=tree,
        merged=merged,
        links=_read_links(options, bad, is_merged=merged),
    )


def repository_of(options: Mapping[str, Any]) -> "Repository | None":
    """Return the repository of ``--repo``; None if it is not given."""
    from schedperf.inputs.git import Repository  # noqa: PLC0415 # as above

    return None if options["repo"] is None else Repository(options["repo"])


def _read_ends(
    repository: "Repository | None", good: str, bad: str, found: "Part", *, is_parent: bool
) -> "Ends":
    from schedperf.publish.culprit.commits import Ends, commit_of, read_ends  # noqa: PLC0415 # as above

    if repository is None:
        return Ends(
            good=commit_of(found.base.source, good, "--good"),
            bad=commit_of(found.new.source, bad, "--bad"),
            is_range=not is_parent,
        )
    ends = read_ends(repository, good, bad)
    if is_parent and ends.is_range:
        raise InputError(
            f"--parent: {clean_line(good)} is not a parent of {clean_line(bad)}; leave this "
            "option out, or name the parent"
        )
    return ends


def _read_tree(
    options: Mapping[str, Any],
    repository: "Repository | None",
    bad: "Commit | None",
) -> "tuple[Tree | None, bool | None]":
    """Return the tree, and whether the commit is in it.

    The tree is None without ``--tree``. Whether the commit is in it is None without ``--tree`` or
    ``--repo``.

    :raises UsageError: ``--private`` is given without ``--tree``
    :raises InputError: the name of the tree is not one line, or the repository has no such ref
    """
    from schedperf.publish.culprit.record import Tree  # noqa: PLC0415 # as above

    name, private = options["tree"], options["private"]
    if name is None:
        if private:
            raise click.UsageError("--private: given without --tree; add --tree NAME")
        return None, None
    tree = Tree(name=_one_line("--tree", name), private=private)
    if repository is None or bad is None:
        return tree, None
    return tree, repository.is_ancestor(bad.commit, repository.resolve(name))


def _read_fix(
    name: str | None, repository: "Repository | None", tree: "Tree | None"
) -> "Commit | None":
    """Return the commit of the fix. It must be in the tree, because mails state its date there.

    :param name: revision; None if not given
    :param tree: None if unknown; the fix may then be any commit
    :raises UsageError: a revision is given, but there is no repository
    :raises InputError: the commit does not exist, or is not in the tree
    """
    from schedperf.publish.culprit.commits import read_commit  # noqa: PLC0415 # as above

    if name is None:
        return None
    if repository is None:
        raise click.UsageError("--fixed-by: given without --repo; add --repo DIR")
    commit = repository.resolve(name)
    if tree is not None and not repository.is_ancestor(commit, repository.resolve(tree.name)):
        raise InputError(
            f"--fixed-by {clean_line(name)}: not in {tree.name} (expected a commit of that tree); "
            "fetch the tree, or name another one by --tree"
        )
    return read_commit(repository, commit)


def _split_feature(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    name, equals, file = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", name):
        raise InputError(
            f"--feature: invalid {clean_line(text)[:60]!r} (expected NAME=FILE, e.g. "
            "PLACE_LAG=feature.json)"
        )
    return name, file


def _read_bisection(path: Path | None, bad: "Commit") -> "Bisection | None":
    """Return a bisection: the JSON of ``schedperf bisect``, or the form of docs/culprit.md.

    :param bad: the bad commit of the record
    :raises InputError: the file is invalid, or the search does not name the commit
    """
    from schedperf.inputs.bundle.files import read_regular  # noqa: PLC0415 # as above
    from schedperf.inputs.bundle.json import convert, parse_json  # noqa: PLC0415
    from schedperf.publish.culprit.record import Bisection  # noqa: PLC0415

    if path is None:
        return None
    where = f"--bisection {path}"
    value = parse_json(read_regular(path, _MOST_BYTES, "a bisection; see docs/culprit.md"), where)
    if not isinstance(value, dict) or "schema" not in value:
        return convert(value, Bisection, where)
    from schedperf.lab.bisect.culprit_record import convert_to_record  # noqa: PLC0415
    from schedperf.lab.bisect.json import convert_bisection  # noqa: PLC0415

    return convert_to_record(convert_bisection(value, where), bad.commit, where)


def _read_links(
    options: Mapping[str, Any], bad: "Commit | None", *, is_merged: bool | None
) -> "Links":
    from schedperf.publish.culprit.commits import posted_in  # noqa: PLC0415 # as above
    from schedperf.publish.culprit.record import Links  # noqa: PLC0415

    posted = _message_id("--posted", options["posted"])
    if posted is None and is_merged is False and bad is not None:
        posted = posted_in(bad.links)
    return Links(posted=posted, report=_message_id("--report", options["report"]))


def _message_id(option: str, text: str | None) -> str | None:
    from schedperf.publish.culprit.record import MESSAGE_ID  # noqa: PLC0415 # as above

    if text is None:
        return None
    if not re.fullmatch(MESSAGE_ID, text):
        raise InputError(
            f"{option}: invalid Message-ID {clean_line(text)[:60]!r} (expected e.g. "
            "20261121.1@lab.example); copy it from the archive"
        )
    return f"<{text.strip('<>')}>"


def _one_line(option: str, text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > _LONGEST_TEXT:
        raise InputError(
            f"{option}: invalid {clean_line(text)[:60]!r} (expected one line of at most "
            f"{_LONGEST_TEXT} characters)"
        )
    return text.strip()
