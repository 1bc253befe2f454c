# SPDX-License-Identifier: GPL-2.0-or-later
"""The command's frame: how subcommands are found, and what becomes of errors."""

import os
import pkgutil
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from schedperf import cli, commands
from schedperf.model.errors import BundleError, InputError, SchedperfError

PROGRAM = [sys.executable, "-m", "schedperf"]
# design.md: --help and --version answer in 100 ms above what Python itself takes.
HEAVY = {"numpy", "pandas", "scipy", "jinja2", "rich", "zstandard"}

CommandThat = Callable[[str], list[str]]
RunCli = Callable[..., subprocess.CompletedProcess[str]]


def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture
def command_that(tmp_path: Path) -> CommandThat:
    """Put a throw-away subcommand, made of the lines given, among the real ones."""
    folder = tmp_path / "more"
    folder.mkdir()
    starter = tmp_path / "start.py"
    starter.write_text(
        "import sys\n"
        "from schedperf import cli, commands\n"
        f"commands.__path__.append({str(folder)!r})\n"
        "sys.exit(cli.main())\n"
    )

    def make(lines: str) -> list[str]:
        (folder / "throwaway.py").write_text(
            "import click\n@click.command()\ndef command():\n"
            + "".join(f"    {line}\n" for line in lines.splitlines())
        )
        return [sys.executable, str(starter), "throwaway"]

    return make


def finish(program: list[str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*program, *args], capture_output=True, text=True)


def test_every_public_module_of_commands_is_a_subcommand_with_a_summary() -> None:
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    public = sorted(name for name in names if not name.startswith("_"))
    context = click.Context(cli.cli)
    assert cli.cli.list_commands(context) == public
    for name in public:
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=1000) == cli.summary(name), name
        assert command.name in {name, "command"}


def test_help_lists_every_subcommand(run_cli: RunCli) -> None:
    done = run_cli("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for name in cli.cli.list_commands(click.Context(cli.cli)):
        assert f"  {name} " in done.stdout
    assert "  layout      Compare cache-line layouts of kernels.\n" in done.stdout
    # click cuts a summary that does not fit into its line.
    assert not re.findall(r"\.\.\.$", done.stdout.partition("Commands:")[2], re.MULTILINE)


def test_help_imports_no_command() -> None:
    program = (
        "import sys; from schedperf.cli import main; main(['--help']); "
        "print(*sorted(name for name in sys.modules if name.startswith('schedperf.commands.')))"
    )
    done = finish([sys.executable, "-c", program])
    assert done.stdout.splitlines()[-1] == ""


def test_help_and_version_import_nothing_heavy() -> None:
    for arguments in ("--help", "--version", "show --help"):
        program = (
            "import sys; from schedperf.cli import main; main(sys.argv[1:]); "
            f"print(*sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
        )
        done = finish([sys.executable, "-c", program], *arguments.split())
        assert done.stderr.strip() == "", arguments


def test_first_question_of_a_recording_imports_nothing_heavy(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    # It is answered while the workload runs.
    bundle = make_bundle(tmp_path / "partial.tar", runs=1)
    program = (
        "import sys; from schedperf.commands._judge import Judge; "
        "print(Judge().answer({'ask': 'first', 'partial': sys.argv[1]})['answer'], "
        f"*sorted({HEAVY!r} & set(sys.modules)))"
    )
    assert finish([sys.executable, "-c", program], str(bundle)).stdout == "continue\n"


def test_version_is_one_line(run_cli: RunCli) -> None:
    done = run_cli("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] == "schedperf"
    assert done.stdout.count("\n") == 1


def test_no_arguments_show_the_help_and_fail(run_cli: RunCli) -> None:
    done = run_cli()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: schedperf" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["shwo"], "unknown command 'shwo' (did you mean show?); see `schedperf --help`"),
        (["compar", "a", "b"], "unknown command 'compar' (did you mean compare?); see"),
        (["xyzzy"], "unknown command 'xyzzy' (expected one of ab, "),
        (["--colour", "red", "show"], "no such option '--colour' (did you mean --color?); see"),
        (["compare", "--alpha"], "no such option '--alpha'; see `schedperf compare --help`"),
        (["compare", "--al"], "no such option '--al' (did you mean --all or --allow?); see"),
        (["--color", "red", "show"], "invalid value for '--color'"),
        (["show"], "missing argument 'BUNDLE'; see `schedperf show --help`"),
        (["show", "--rums", "x.tar"], "no such option '--rums' (did you mean --runs?); see"),
        (["show", "a.tar", "b.tar"], "got unexpected extra argument (b.tar)"),
    ],
)
def test_a_usage_error_is_one_line_with_a_hint(
    args: list[str], message: str, run_cli: RunCli
) -> None:
    done = run_cli(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"schedperf: error: {message}")
    assert done.stderr.count("\n") == 1
    assert "--help`" in done.stderr


def test_a_subcommand_is_one_new_file(command_that: CommandThat) -> None:
    done = finish(command_that("click.echo('here')"))
    assert (done.returncode, done.stdout) == (0, "here\n")


def test_what_a_subcommand_returns_is_the_exit_status(command_that: CommandThat) -> None:
    assert finish(command_that("return 3")).returncode == 3


@pytest.mark.parametrize("kind", [SchedperfError, InputError, BundleError])
def test_an_error_of_the_user_is_one_line_without_control_characters(
    kind: type[Exception], command_that: CommandThat
) -> None:
    done = finish(
        command_that(
            f"from schedperf.model.errors import {kind.__name__}\n"
            f"raise {kind.__name__}('base.tar: found \\x1b[2J\\n\\u202ex; do this')"
        )
    )
    assert done.returncode == 2
    assert done.stderr == "schedperf: error: base.tar: found [2J x; do this\n"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("raise KeyError('cfs_rq')", "KeyError: 'cfs_rq'"),
        # A parser below that prints help chooses no exit status.
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("import argparse; argparse.ArgumentParser().exit(1)", "SystemExit: 1"),
    ],
)
def test_an_unexpected_error_is_one_line_that_names_debug(
    command_that: CommandThat, lines: str, problem: str
) -> None:
    done = finish(command_that(lines))
    assert done.returncode == 2
    assert done.stderr == f"schedperf: internal error: {problem}; run again with --debug\n"


def test_debug_shows_the_traceback_wherever_it_stands(command_that: CommandThat) -> None:
    program = command_that("raise KeyError('cfs_rq')")
    for args in ([*program, "--debug"], [*program[:-1], "--debug", program[-1]]):
        done = finish(args)
        assert "Traceback" in done.stderr
        assert "cfs_rq" in done.stderr
        assert done.returncode != 0


def test_debug_behind_two_dashes_belongs_to_the_workload(run_cli: RunCli) -> None:
    done = run_cli("show", "--", "--debug")
    assert done.stderr == "schedperf: error: --debug: no such file\n"


def test_debug_can_be_set_in_the_environment() -> None:
    assert "Traceback" in run("show", "/nonexistent", SCHEDPERF_DEBUG="1").stderr
    assert "Traceback" not in run("show", "/nonexistent", SCHEDPERF_DEBUG="0").stderr


def test_a_file_that_the_system_refuses_is_one_line(command_that: CommandThat) -> None:
    done = finish(command_that("open('/proc/nonexistent', 'w')"))
    assert done.returncode == 2
    assert done.stderr == "schedperf: error: /proc/nonexistent: no such file or directory\n"


def test_a_full_disk_behind_stdout_is_one_line(command_that: CommandThat) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command_that("click.echo('x' * 10)"), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == (
        "schedperf: error: no space left on device; free up space, or set TMPDIR to a larger file "
        "system\n"
    )


def test_without_stdout_nothing_is_begun(command_that: CommandThat) -> None:
    program = shlex.join(command_that("raise SystemExit('was begun')"))
    done = subprocess.run(["sh", "-c", f"{program} >&-"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == ("schedperf: error: stdout is closed; redirect it to a file\n")


def test_a_reader_that_leaves_early_ends_the_command_quietly(command_that: CommandThat) -> None:
    lines = "for number in range(100_000):\n    click.echo(f'line {number}')"
    with subprocess.Popen(
        command_that(lines), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 128 + signal.SIGPIPE


def test_an_interrupt_is_130_and_one_line(command_that: CommandThat) -> None:
    # An object of click that ends while the signal comes would swallow it.
    program = command_that(
        "import sys, time\nclick.echo('ready')\nsys.stdout.flush()\ntime.sleep(60)"
    )
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "schedperf: interrupted\n"
        assert process.wait(60) == 130


def test_completion_names_subcommands() -> None:
    done = run(_SCHEDPERF_COMPLETE="bash_complete", COMP_WORDS="schedperf sh", COMP_CWORD="1")
    assert done.returncode == 0
    assert "show" in done.stdout


def on_a_terminal(*args: str, **environment: str) -> str:
    """Return what the command writes to a terminal of its own."""
    leader, follower = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "CI"}}
    with subprocess.Popen(
        [*PROGRAM, *args],
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env={**clean, "TERM": "xterm-256color", **environment},
    ) as process:
        os.close(follower)
        written = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                part = os.read(leader, 65536)
            except OSError:  # Linux answers EIO when the other end is closed.
                break
            written += part
        process.wait(60)
    os.close(leader)
    return written.decode()


YELLOW = "\x1b[33m"


def test_colour_is_on_a_terminal_and_not_in_a_pipe(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    path = str(make_bundle(tmp_path / "b.tar", manifest={"complete": False}))
    assert YELLOW in on_a_terminal("show", path)
    assert YELLOW not in on_a_terminal("show", path, NO_COLOR="1")
    assert YELLOW in on_a_terminal("--color", "always", "show", path, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal("--color", "never", "show", path)
    assert "\x1b" not in run("show", path).stdout
    assert YELLOW in run("--color", "always", "show", path).stdout
