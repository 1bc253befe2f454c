# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``schedperf``: dispatch to subcommands and turn errors into exit statuses.

Exit status: what the subcommand returns · 2 usage, input or internal error, one
line on stderr · 4 not comparable · 130 interrupted · 141 stdout was closed by its reader.
"""

import errno
import gc
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click
from click.exceptions import (
    Abort,
    ClickException,
    Exit,
    NoArgsIsHelpError,
    NoSuchOption,
    UsageError,
)

from schedperf import commands
from schedperf.commands import COMPLETE
from schedperf.model.errors import SchedperfError
from schedperf.model.text import clean_line
from schedperf_collectors import __version__
from schedperf_collectors.contract import BUNDLE_VERSION
from schedperf_collectors.registry import PluginError

if TYPE_CHECKING:
    from importlib.abc import InspectLoader

_TROUBLE = 2
# As a shell reports a program killed by SIGINT or SIGPIPE; the module signal takes 1 ms to import.
_INTERRUPTED = 128 + 2
_NOBODY_READS = 128 + 13
# New objects after which Python looks for unused cycles of references.
_OBJECTS = 500_000

# Minimum similarity of a suggested name: "rums" and "runs" have 0.75, "alpha" and "all" 0.5.
_NEAREST = 0.7

# A file whose name is unknown may be a temporary one.
_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_MORE_SPACE = "free up space, or set TMPDIR to a larger file system"

_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
_COLOURS = {"auto": None, "always": True, "never": False}


class _Commands(click.Group):
    """The public modules of :mod:`schedperf.commands`, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        modules = pkgutil.iter_modules(commands.__path__)
        return sorted(module.name for module in modules if not module.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{commands.__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        # click caches the help option of the first context, which may lack -h.
        command.context_settings.update(_HELP_OPTIONS)
        _complete_files(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))
        lines = [
            (name, click.Command(name, help=summary(name)).get_short_help_str(limit))
            for name in names
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command_names = self.list_commands(ctx)
        if args[0] not in command_names and not args[0].startswith("-"):
            hint = (
                _ask_for_near(args[0], command_names)
                or f" (expected one of {', '.join(command_names)})"
            )
            raise UsageError(f"unknown command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def summary(name: str) -> str:
    """Return the summary of a command: its module's docstring after the name.

    It is read from the compiled module, because importing all commands is slow.
    """
    module = f"{commands.__name__}.{name}"
    spec = importlib.util.find_spec(module)
    assert spec is not None
    code = cast("InspectLoader", spec.loader).get_code(module)
    assert code is not None
    docstring = next((text for text in code.co_consts if isinstance(text, str)), "")
    summary = docstring.partition("\n")[0].partition(": ")[2]
    return summary[:1].upper() + summary[1:]


def _complete_files(command: click.Command) -> None:
    """Let shells complete paths for all options whose value the help calls FILE or FOLDER."""
    for param in command.params:
        if param.metavar in {"FILE", "FOLDER"} and param.type is click.STRING:
            param.type = click.Path()


def _ask_for_near(given: str, names: Sequence[str]) -> str:
    """Return a question that suggests close matches for a mistyped name; "" if there are none."""
    import difflib  # noqa: PLC0415 # --help needs none

    letters = given.lstrip("-")
    near = [
        name
        for name in names
        if name.lstrip("-").startswith(letters)
        or difflib.SequenceMatcher(None, letters, name.lstrip("-")).ratio() >= _NEAREST
    ]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001 # click's signature
    """Print one line: ``schedperf 0.2.0 (bundle/1.0, compare/2, profile/1, c2c/1)``."""
    if not is_asked or ctx.resilient_parsing:
        return
    # Imported here so that all other uses start fast.
    from schedperf.evidence.c2c.record import C2cDocument  # noqa: PLC0415
    from schedperf.evidence.profile.document import ProfileDocument  # noqa: PLC0415
    from schedperf.model.comparison import SCHEMA  # noqa: PLC0415
    from schedperf.model.schema import schema_name  # noqa: PLC0415

    bundle = ".".join(map(str, BUNDLE_VERSION))
    schemas = (SCHEMA, schema_name(ProfileDocument), schema_name(C2cDocument))
    names = ", ".join(schema.removeprefix("schedperf/") for schema in schemas)
    click.echo(f"schedperf {__version__} (bundle/{bundle}, {names})")
    ctx.exit()


@click.command(cls=_Commands, context_settings=_HELP_OPTIONS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of schedperf and of its file formats.",
)
@click.option(
    "--color",
    type=click.Choice(list(_COLOURS)),
    default="auto",
    show_default=True,
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, color: str, *, debug: bool) -> None:  # noqa: ARG001 # main looks for it
    """Find out whether a Linux scheduler change made a benchmark slower, and why."""
    ctx.color = _COLOURS[color]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; print an error as one line on stderr.

    :param args: arguments without the program's name; None for those of this process
    :return: the exit status
    :raises Exception: with ``--debug`` or SCHEDPERF_DEBUG, the error itself
    """
    # After ">&-" there is no stdout object at all.
    if sys.stdout is None:
        return _report("error: stdout is closed; redirect it to a file", _TROUBLE)
    given = list(sys.argv[1:] if args is None else args)
    rest, debug = _take_debug(given)
    if args is None:
        # Records have no cycles of references; looking for them often takes a tenth of the time.
        gc.set_threshold(_OBJECTS)
    try:
        status = _run(rest)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        return _NOBODY_READS
    except (Abort, KeyboardInterrupt):
        return _report("interrupted", _INTERRUPTED)
    except (Exception, SystemExit) as error:
        # Only here does an error become one line. A parser below that exits, as argparse does for
        # -h, must not choose the exit status.
        if debug:
            raise
        return _explain(error)
    finally:
        if args is None:
            # The process ends, so skipping the final garbage collection saves a tenth of the time.
            gc.freeze()
    return status


def _take_debug(args: list[str]) -> tuple[list[str], bool]:
    """Return the arguments without ``--debug``, and whether tracebacks are requested.

    ``--debug``, anywhere before ``--``, and the variable SCHEDPERF_DEBUG request them.
    """
    end = args.index("--") if "--" in args else len(args)
    own = [arg for arg in args[:end] if arg != "--debug"]
    debug = len(own) < end or os.environ.get("SCHEDPERF_DEBUG", "") not in {"", "0"}
    return [*own, *args[end:]], debug


def _run(args: list[str]) -> int:
    """Run the subcommand, or complete a command line for a shell; return the exit status."""
    instruction = os.environ.get(COMPLETE)
    if instruction:
        from click.shell_completion import shell_complete  # noqa: PLC0415 # --help needs none

        return shell_complete(cli, {}, "schedperf", COMPLETE, instruction)
    try:
        with cli.make_context("schedperf", args) as context:
            return cast("int | None", cli.invoke(context)) or 0
    except Exit as exit_:
        return exit_.exit_code


def _explain(error: Exception | SystemExit) -> int:
    """Print an error in one line, or the help if no argument was given; return the exit status."""
    if isinstance(error, SchedperfError | PluginError):
        return _report(f"error: {error}", error.exit_status)
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return _TROUBLE
    if isinstance(error, ClickException):
        return _report(f"error: {_usage_problem(error)}", _TROUBLE)
    if isinstance(error, OSError) and error.strerror:
        _settle_stdout()
        where = f"{error.filename}: " if error.filename else ""
        remedy = f"; {_MORE_SPACE}" if error.errno in _OUT_OF_SPACE else ""
        return _report(f"error: {where}{error.strerror.lower()}{remedy}", _TROUBLE)
    problem = f"{type(error).__name__}: {error}"
    return _report(f"internal error: {problem}; run again with --debug", _TROUBLE)


def _usage_problem(error: ClickException) -> str:
    """Return click's message in this program's form, with a hint."""
    if isinstance(error, NoSuchOption):
        hint = _ask_for_near(error.option_name, error.possibilities or ())
        message = error.message.rstrip(".") + hint
    else:
        message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, UsageError) else None
    return f"{message}; see `{context.command_path} --help`" if context else message


def _report(message: str, status: int) -> int:
    # Messages may quote untrusted text.
    print(f"schedperf: {clean_line(message)}", file=sys.stderr)  # noqa: T201 # the one message
    return status


def _settle_stdout() -> None:
    """Flush stdout and ignore failures: the error being reported may be stdout's own."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stdout()


def _drop_stdout() -> None:
    """Discard what is left in stdout's buffer, so that the interpreter exits silently."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
