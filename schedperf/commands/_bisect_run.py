# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf bisect run``: build, boot and measure commits until the first bad one is found."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from schedperf.commands import vm
from schedperf.commands._bisect_options import read_options, search_options
from schedperf.commands._bisect_outputs import Outputs, result_options
from schedperf.commands._given_words import KeepsWords
from schedperf.commands._recipe import build_options, kernel_recipe
from schedperf.commands._recorder import parameters
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut
from schedperf_collectors.recorder.options import make_parser

if TYPE_CHECKING:
    from schedperf.inputs.git import Commit, Repository
    from schedperf.lab.bisect.hardware import Describe
    from schedperf.lab.bisect.judge import Range
    from schedperf.lab.bisect.prove import TrialMachine
    from schedperf.lab.bisect.store import Place, Store
    from schedperf.lab.build import Recipe

_AGAIN = 75
_INSTALL_LIMIT_S = 900.0
# Options of `ab --kernel` that say how machines boot.
_OF_BOOTS = ("boot", "boot_limit", "settle", "power", "console")
_LONGEST_LABEL = 40

EPILOG = """\b
Examples:
  schedperf bisect run --good v6.18 --bad tip/master --repo linux \\
     --config kvm.config --in vm -n 3 -o search -- hackbench -l 100 -g 2
  schedperf bisect run --good v6.18 --bad tip/master --repo linux \\
     --build ./build --on ssh:root@lab1 --install ./install -n 3 -o search \\
     -- hackbench -l 500 -g 2
  schedperf bisect run --good v0 --bad v12 --repo program --in here \\
     --build 'cp -r program work "$SCHEDPERF_OUT"' --with none \\
     --metric 'time[s,lower]=time: ([0-9.]+)' --yes -o search -- ./program
"""


@click.command(name="run", cls=KeepsWords, epilog=EPILOG)
@search_options
@click.option("--in", "inside", type=click.Choice(["vm", "here"]),
              help="Boot the kernels in virtual machines; or run what commits build on this "
                   "machine, without boots: runs count as boots.")  # fmt: skip
@click.option("--on", metavar="ssh:HOST",
              help="Install and boot the kernels on this machine, by ssh.")  # fmt: skip
@click.option("--install", metavar="CMD",
              help="With --on: install the kernel of $SCHEDPERF_OUT on $SCHEDPERF_TARGET by this "
                   "shell command, which prints its release last.")  # fmt: skip
@click.option("--install-timeout", metavar="S", type=click.FloatRange(min=1),
              default=_INSTALL_LIMIT_S, show_default=True,
              help="Kill an installation after S seconds.")  # fmt: skip
@build_options
@click.option("--result", metavar="NAME",
              help="Name the result that decides.  [default: the only primary one]")  # fmt: skip
@click.option("--prove", is_flag=True,
              help="Then test whether each named commit causes the change: revert it on --bad, "
                   "switch off a scheduler feature that it guards, and build it and its parent "
                   "with aligned functions and per-CPU variables.")  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask before the search.")
@click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(path_type=Path),
              help="Write builds, bundles and the state to this directory, and continue the search "
                   "that is in it.")  # fmt: skip
@result_options
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings, errors and the result.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> int:
    """Build, boot and measure commits until the first bad one is found.

    First both ends are measured. If they differ, the cost of the search is estimated and confirmed.
    A search that was interrupted continues if the command is repeated; finished boots are kept.
    Exit status: 0 a commit is named, 1 good and bad do not differ, 2 usage or input error, 3 no
    commit is named although good and bad differ, 75 interrupted or stopped: run it again.
    """
    from schedperf.commands._bisect_culprit import keep_culprits  # noqa: PLC0415 # --help stays fast
    from schedperf.commands._bisect_prove import make_lab  # noqa: PLC0415
    from schedperf.commands._bisect_screen import EXIT_STATUSES, Screen  # noqa: PLC0415 # as above
    from schedperf.inputs.git import Repository  # noqa: PLC0415
    from schedperf.lab.bisect.prove import Stopped, prove, with_trials  # noqa: PLC0415
    from schedperf.lab.bisect.search import Search  # noqa: PLC0415
    from schedperf.lab.bisect.store import Store  # noqa: PLC0415
    from schedperf.lab.build import Builder  # noqa: PLC0415

    options["place"] = _check_options(ctx, options)
    # The search needs results only.
    ctx.params["_instrumented"] = ctx.params["_instrumented"] or "0"
    store = Store(options["output"])
    outputs = Outputs(options, options["output"])
    with outputs.opened() as write:
        repository = Repository(options["repo"])
        recipe = _recipe(options)
        span = _begin(store, repository, recipe, ctx, options)

        def open_machine(folder: Path, describe: "Describe") -> "TrialMachine":
            return _machine(ctx, options, store, folder, describe)

        machine = open_machine(store.bundles, lambda commit: repository.describe(commit.hash))
        screen = Screen(span, quiet=options["quiet"], yes=options["yes"])
        with store.claimed():
            builder = Builder(repository.borrow(store.work), store.builds, recipe)
            try:
                with vm.interruptible() as check:
                    document = Search(store, span, builder, machine, screen).run(check)
                    if document.next is None and options["prove"]:
                        lab = make_lab(repository, store, recipe, builder, open_machine)
                        prove(document, store, lab, screen, check)
            except (vm.Interrupted, Stopped) as error:
                what = "stopped" if isinstance(error, Stopped) else "interrupted"
                click.echo(
                    f"schedperf: {what}; finished boots are in {store.folder}; repeat the "
                    "command to continue",
                    err=True,
                )
                return _AGAIN
            if document.next is None:
                shutil.rmtree(store.work, ignore_errors=True)
        document = with_trials(document, store)
        write(document)
    outputs.print(document)
    if document.next is None and options["place"] != "here":
        keep_culprits(document, store, options["repo"])
    if outputs.printed is None:
        screen.print_commands(document, store)
    return EXIT_STATUSES[document.status]


def _check_options(ctx: click.Context, options: Mapping[str, Any]) -> "Place":
    """Return where the command runs.

    :raises InputError: a command or a place is missing, or an option belongs to another place
    """
    if not options["command_line"]:
        raise InputError("no command given; put it at the end, after --")
    if (options["inside"] is None) == (options["on"] is None):
        raise InputError(
            "--in, --on: expected one of them (--in here, --in vm or --on ssh:HOST); say where the "
            "command runs"
        )
    place: Place = "ssh" if options["inside"] is None else options["inside"]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        places = _PLACES.get(name)
        is_given = ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if is_given and places is not None and place not in places:
            used = " or ".join(_PLACE_OPTIONS[each] for each in places)
            raise InputError(f"{parameter.opts[0]}: given without {used}; leave it out")
    if place == "here" and options["build"] is None:
        raise InputError(
            "--build: missing (expected a command that writes what is run to $SCHEDPERF_OUT); add "
            "e.g. --build 'make && cp prog \"$SCHEDPERF_OUT\"'"
        )
    if place == "ssh" and options["install"] is None:
        raise InputError(
            "--install: missing (expected a command that installs $SCHEDPERF_OUT on "
            "$SCHEDPERF_TARGET and prints the release); docs/bisect.md has an example"
        )
    return place


def _recipe(options: Mapping[str, Any]) -> "Recipe":
    recipe = kernel_recipe(options)
    # What is installed on a machine may be a package.
    return recipe if options["place"] == "vm" else replace(recipe, makes_kernel=False)


def _begin(
    store: "Store",
    repository: "Repository",
    recipe: "Recipe",
    ctx: click.Context,
    options: Mapping[str, Any],
) -> "Range":
    """Begin a search, or continue the one in the directory; return its range.

    The range is that of the beginning, whatever branches point to now.

    :raises InputError: a commit is unknown, or the directory has another search
    """
    from schedperf.inputs.git import HASH_DIGITS  # noqa: PLC0415 # as above
    from schedperf.lab.bisect.judge import read_range  # noqa: PLC0415
    from schedperf.lab.bisect.store import Request  # noqa: PLC0415

    asked = Request(
        repository=str(options["repo"].resolve()),
        good=repository.resolve(options["good"]),
        bad=repository.resolve(options["bad"]),
        search=read_options(options),
        place=options["place"],
        target=options["on"] or "",
        result=options["result"],
        build=recipe.key(),
        recording=_given_options(ctx),
        words=options["command_line"],
    )
    ends = {"good": options["good"], "bad": options["bad"]}
    begun = store.request() if store.is_begun() else asked
    if options["history"] is not None:
        # Nights have been added to the history since.
        asked = replace(asked, search=replace(asked.search, boot_sd=begun.search.boot_sd))
    for end, name in ends.items():
        before, now = getattr(begun, end), getattr(asked, end)
        # A branch may have moved since; a hash was given on purpose.
        if before != now and not now.startswith(name):
            click.echo(
                f"schedperf: --{end} {clean_line(name)} was {before[:HASH_DIGITS]} when the "
                f"search began, and is {now[:HASH_DIGITS]} now; the search continues with the "
                "former",
                err=True,
            )
            ends[end] = before
            asked = replace(asked, **{end: before})
    span = read_range(repository, ends["good"], ends["bad"], asked.search)
    store.begin(asked)
    return span


def _given_options(ctx: click.Context) -> tuple[str, ...]:
    """Return the options of the recordings and of the guests, as words."""
    words = [f"-n={ctx.params['runs']}", f"--with={','.join(ctx.params['_collectors'])}"]
    guests = {parameter.name for parameter in _guest_parameters()} - {"accel", "runs"}
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name in guests and not name.startswith("_"):
            words.append(f"{parameter.opts[0]}={ctx.params[name]}")
    return (*words, *vm.recorder_words(ctx))


def _machine(
    ctx: click.Context,
    options: Mapping[str, Any],
    store: "Store",
    output: Path,
    describe: "Describe",
) -> "TrialMachine":
    from schedperf.commands._bisect_machines import Guests, Here, Recorder  # noqa: PLC0415 # as above

    words = options["command_line"]
    if options["place"] == "vm":
        guests = vm.GuestRecorder(ctx, {**options, "output": output, "command_line": words})
        return Guests(guests, describe, _label)
    recorder = Recorder(store.folder / "recording")
    recording = [f"--with={each}" for each in ctx.params["_collectors"]]
    recording += vm.recorder_words(ctx)
    if options["place"] == "here":
        return Here(recorder, recording, words)
    from schedperf.lab.bisect.hardware import Hardware, Site  # noqa: PLC0415 # as above

    site = Site(
        target=options["on"],
        install=options["install"],
        install_limit_s=options["install_timeout"],
        options=[f"-n={options['runs']}", *recording, *(["-q"] if options["quiet"] else [])],
        command=words,
    )
    return Hardware(site, describe, lambda arguments: recorder.run(arguments, output, None))


def _label(commit: "Commit") -> str:
    return cut(f"{commit.short} {commit.subject}", _LONGEST_LABEL)


def _guest_parameters() -> Sequence[click.Parameter]:
    # The search decides how many boots there are.
    return [parameter for parameter in vm.shared_parameters() if parameter.name != "boots"]


_OF_MACHINES = tuple(
    parameters(
        [option for option in make_parser("ab", "schedperf").options() if option.dest in _OF_BOOTS],
        takes_command=False,
    )
)
run.params.extend((*_guest_parameters(), *_OF_MACHINES))

_PLACE_OPTIONS: Mapping["Place", str] = {"here": "--in here", "vm": "--in vm", "ssh": "--on"}
# Places at which an option has an effect; others have one everywhere.
_PLACES: Mapping[str, tuple["Place", ...]] = {
    **{
        parameter.name or "": ("vm",)
        for parameter in _guest_parameters()
        if not (parameter.name or "").startswith("_")
    },
    **{parameter.name or "": ("ssh",) for parameter in _OF_MACHINES},
    "install": ("ssh",),
    "install_timeout": ("ssh",),
    "runs": ("vm", "ssh"),
}
