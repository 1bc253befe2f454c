# SPDX-License-Identifier: GPL-2.0-or-later
"""What the documentation says is run: its commands, and what they print."""

import contextlib
import doctest
import io
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click
import pytest

from schedperf.cli import cli, main
from schedperf.model.json_text import to_json
from schedperf_collectors.plugin import all_collectors
from schedperf_generators.memory import scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data
from tests.golden_inputs import regression
from tests.histories import make_night
from tests.mails import make_message, make_outbox, make_site
from tests.mechanisms import UP, measured, rows_of

RunCli = Callable[..., subprocess.CompletedProcess[str]]

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
CONSOLE_BLOCK = re.compile(
    r"^(<!-- not run: [^\n]+ -->\n)?```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
# What asks a shell for the exit status of the command above it, which is 0 where nobody asks.
ASK_STATUS = "echo $?"
# Python as it is typed at a prompt, with what it answers.
PYTHON_BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# "[text](docs/file.md#heading)"; addresses of other machines are not followed.
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# Documents that record for about a minute or longer.
SLOW = ("bisect.md", "recording.md", "troubleshooting.md")
SLOW_HELP = ("ab", "bisect run", "doctor", "record")
# Options of all examples that run here.
WITHOUT_COLLECTORS = {"bisect run": "--with none "}
# What records on this machine, or asks what could be recorded.
RECORDS = re.compile(r"\bschedperf (ab|bisect run|doctor|exec|night|record|rerun|series|vm)\b")
# What asks the machines of a lab.
NIGHTS = tuple(f"schedperf night {name} " for name in ("check", "run", "status"))
# What a shell reads in another way than shlex.
SHELL = re.compile(r"[|&;<>()$`*?#~={}\[\]!]")
# Stands for any text inside a line, and alone on a line for any lines.
ELLIPSIS = "…"


@dataclass(frozen=True)
class Shown:
    """A command of a document, with what the document says it prints."""

    command: str
    output: tuple[str, ...]
    exit_status: int

    @property
    def exit_statuses(self) -> set[int]:
        """Return those that it may end with: more than one where this machine makes the verdict."""
        program, *words = shlex.split(self.command)
        # What is recorded here ends with .tar; two recordings of a busy machine may well differ.
        bundles = {word for word in words if word.endswith(".tar")}
        compares = program == "schedperf" and words[:1] == ["compare"] and len(bundles) > 1
        is_open = compares and self.exit_status <= 1
        return {0, 1} if is_open else {self.exit_status}


def shown_commands(document: Path) -> list[Shown]:
    """Return the commands of a document's console blocks, save those that say why not."""
    found: list[Shown] = []
    for not_run, block in CONSOLE_BLOCK.findall(document.read_text()):
        if not_run:
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, output = split_command(part)
            if command == ASK_STATUS:
                found[-1] = replace(found[-1], exit_status=int("".join(output)))
            else:
                found.append(Shown(command=command, output=tuple(output), exit_status=0))
    return found


def split_command(part: str) -> tuple[str, list[str]]:
    """Return a command, its continued lines joined, and the lines of its output."""
    lines = part.rstrip("\n").split("\n")
    # A command that is printed may continue its lines, too.
    last = next(index for index, line in enumerate(lines) if not line.endswith("\\"))
    command = "".join(line.removesuffix("\\") for line in lines[: last + 1])
    return command, lines[last + 1 :]


def pattern_of(lines: tuple[str, ...]) -> str:
    """Return a regular expression for the shown lines."""
    parts = []
    for line in lines:
        if line.strip() == ELLIPSIS:
            parts.append(r"(?:.*\n)*?")
        else:
            escaped = r".*?".join(re.escape(piece) for piece in line.rstrip().split(ELLIPSIS))
            parts.append(escaped + r"[ ]*\n")
    return "".join(parts)


def environment() -> dict[str, str]:
    """Put this environment's own schedperf first on the path, and make output plain."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": path, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def simple_words(command: str) -> list[str] | None:
    """Return the arguments of a schedperf command that needs no shell and starts no recorder."""
    if RECORDS.search(command) or SHELL.search(command):
        return None
    program, *words = shlex.split(command)
    return words if program == "schedperf" else None


def run_here(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run schedperf in this process, which has imported it already."""
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with (
        contextlib.chdir(folder),
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        patch.setenv("NO_COLOR", "1")
        status = main(words)
    content = printed.detach()
    assert isinstance(content, io.BytesIO)
    return subprocess.CompletedProcess(words, status, content.getvalue().decode())


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader would, in a directory that has examples/ in it."""
    words = simple_words(command)
    if words is not None:
        return run_here(words, folder)
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )


LOOPS = re.compile(r"-l \d{3,}\b")


def shorten(example: str) -> str:
    """Return an example of --help with fewer loops, and two runs where it chooses no number."""
    shorter = LOOPS.sub("-l 50", example)
    _, command, *words = shlex.split(example)
    is_chosen = {"-n", "--until-decided"} & set(words)
    records = command in ("record", "ab") and "--" in words
    return shorter.replace(" -- ", " -n 2 -- ", 1) if records and not is_chosen else shorter


def has_features() -> bool:
    """Return whether the scheduler's features can be read; a locked down kernel refuses."""
    try:
        return bool(Path("/sys/kernel/debug/sched/features").read_text())
    except OSError:
        return False


def missing_for(command: str) -> str | None:
    """Return what a command needs that is not here; None where it can run."""
    asks = not {"--print", "--yes"} & set(command.split())
    lacks = {
        "needs root to write /proc/sys": "/proc/sys/" in command and os.geteuid() != 0,
        "needs a machine to boot": " --on ssh:" in command or command.startswith(NIGHTS),
        "needs root and /sys/kernel/debug/sched/features": " --feature " in command
        and not has_features(),
        "needs scx_lavd, and a kernel with sched_ext": "scx_lavd" in command
        and not (shutil.which("scx_lavd") and Path("/sys/kernel/sched_ext").exists()),
        "needs trace-cmd": "trace:" in command and shutil.which("trace-cmd") is None,
        "needs qemu-system-x86": command.startswith("schedperf vm ")
        and shutil.which("qemu-system-x86_64") is None,
        "needs the source of a kernel, and boots guests": " --in vm " in command
        or command.startswith("schedperf series "),
        "needs a step, which nights of a laboratory show": " --step " in command,
        "asks on a terminal before it runs anything": command.startswith("schedperf rerun ")
        and asks,
    }
    return next((reason for reason, holds in lacks.items() if holds), None)


def test_modules_that_the_method_names_exist() -> None:
    named = re.findall(r"`(\w+\.py)`", (REPOSITORY / "docs" / "method.md").read_text())
    modules = {path.name for path in (REPOSITORY / "schedperf").rglob("*.py")}
    assert named
    assert set(named) <= modules


def marks(commands: Iterable[str], *, is_slow: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that runs these commands."""
    watches = any(map(watches_machine, commands))
    return [pytest.mark.xdist_group("machine")] * watches + [pytest.mark.slow] * is_slow


def commands_that_run(document: Path) -> list[str]:
    """Return the commands of a document that can run on this machine."""
    commands = [shown.command for shown in shown_commands(document)]
    return [command for command in commands if missing_for(command) is None]


def watches_machine(command: str) -> bool:
    """Return whether a command uses what the machine has once, e.g. its PMU.

    A recording without collectors does not.
    """
    return RECORDS.search(command) is not None and " --with none " not in command


@pytest.mark.system
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            path,
            marks=marks(commands_that_run(path), is_slow=path.name in SLOW),
            id=path.name,
        )
        for path in DOCUMENTS
    ],
)
def test_commands_of_the_documents_print_what_the_documents_show(
    document: Path, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    left_out: list[str] = []
    for shown in shown_commands(document):
        if missing := missing_for(shown.command):
            left_out.append(f"$ {shown.command}: {missing}")
            continue
        done = run(shown.command, tmp_path)
        assert done.returncode in shown.exit_statuses, f"$ {shown.command}\n{done.stdout}"
        if shown.output:
            pattern = pattern_of(shown.output)
            printed = "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"
            assert re.search(pattern, printed), f"$ {shown.command}\n{printed}"
    if left_out:
        pytest.skip("; ".join(left_out))


def test_python_of_the_documents_answers_what_the_documents_show() -> None:
    tested = 0
    for document in DOCUMENTS:
        text = "\n".join(PYTHON_BLOCK.findall(document.read_text()))
        shown = doctest.DocTestParser().get_doctest(text, {}, document.name, str(document), 0)
        told: list[str] = []
        failed, attempted = doctest.DocTestRunner().run(shown, out=told.append)
        assert failed == 0, "".join(told)
        tested += attempted
    assert tested > 0


def anchors(document: Path) -> set[str]:
    """Return what links into a document can name: its headings as GitHub writes them."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(text)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings_that_exist(document: Path) -> None:
    for file, anchor in LINK.findall(document.read_text()):
        target = document.parent / file if file else document
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


def all_commands() -> dict[str, click.Command]:
    """Return the subcommands by name."""
    context = click.Context(cli)
    return {
        name: command
        for name in cli.list_commands(context)
        if (command := cli.get_command(context, name)) is not None
    }


def help_examples(shown: str) -> list[str]:
    """Return the example lines of a command's --help: those that start with the program's name."""
    text = shown.partition("Examples:")[2]
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [line.strip() for line in lines if line.strip().startswith("schedperf ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a directory with what the examples of --help name and do not make themselves."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    benchmark = tmp_path / "my-benchmark"
    benchmark.write_text("#!/bin/sh\necho rate: 12.5\n")
    benchmark.chmod(0o755)
    return tmp_path


def bring_inputs(folder: Path) -> None:
    """Bring bundles, tables, a table of pairs, and earlier/, as a reader has them."""
    for side in ("base", "new"):
        with lzma.open(REPOSITORY / f"examples/deep-cgroup/{side}.tar.xz") as compressed:
            (folder / f"{side}.tar").write_bytes(compressed.read())
        runs = "".join(f"hackbench,time,s,lower,0.{run}{len(side)}\n" for run in (61, 60, 62))
        (folder / f"{side}.csv").write_text(f"workload,metric,unit,better,value\n{runs}")
    (folder / "pairs.csv").write_text("base,new\nbase.tar,new.tar\n")
    (folder / "earlier").mkdir()
    shutil.copy(folder / "base.tar", folder / "earlier" / "base.tar")


def bring_request(folder: Path) -> None:
    """Bring what a maintainer asks for."""
    shutil.copy(REPOSITORY / "examples" / "request" / "ASK.toml", folder)


def bring_results(folder: Path) -> None:
    """Bring results of other tools: of mmtests, LKP, a Go benchmark, frame times and traces."""
    shutil.copytree(REPOSITORY / "examples" / "mmtests", folder / "work" / "log")
    for run in ("0", "1"):
        result = folder / "hackbench" / "COMMIT" / run
        result.mkdir(parents=True)
        (result / "stats.json").write_text('{"hackbench.throughput": 52118.4}\n')
    (folder / "old.txt").write_text("BenchmarkEncode-8 50 34201.5 ns/op 3 hits/op\n")
    for side, traced in (("old", "base"), ("new", "new")):
        shutil.copy(REPOSITORY / "examples" / "traces" / f"{traced}.dat", folder / f"{side}.dat")
        (folder / side).mkdir(exist_ok=True)
        (folder / side / "game.csv").write_text("fps,frametime\n" + "100,10\n" * 50)


def bring_commits(folder: Path) -> None:
    """Bring a repository of two commits, each with the tag of a release, and boots of both."""
    git = (
        "git",
        "-c",
        "user.name=n",
        "-c",
        "user.email=n@example.org",
        "-C",
        str(folder / "linux"),
    )
    subprocess.run(["git", "init", "--quiet", str(folder / "linux")], check=True)
    source = folder / "linux" / "kernel" / "sched" / "fair.c"
    source.parent.mkdir(parents=True)
    values = {"v6.18": 100, "v6.19": 90}
    for tag in values:
        source.write_text(tag)
        subprocess.run([*git, "add", "kernel"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", tag], check=True)
        subprocess.run([*git, "tag", tag], check=True)
    boots = [f"{tag},{boot},{values[tag] + boot % 3}\n" for boot in range(20) for tag in values]
    (folder / "boots.csv").write_text("commit,boot,value\n" + "".join(boots))


def bring_memory_samples(folder: Path) -> None:
    """Bring base.data and new.data with memory samples, and the units of their CPUs."""
    numa = Numa(cpus=16, nodes=2)
    (folder / "percpu.txt").write_text(numa.percpu_lines())
    sides: tuple[Literal["base", "new"], ...] = ("base", "new")
    for side in sides:
        run = scheduler_run(side, numa=numa)
        (folder / f"{side}.data").write_bytes(write_perf_data(run.perf_data()))


def bring_nights(folder: Path) -> None:
    """Bring the directory of a night."""
    make_night(folder / "nights", 0)


def bring_program(folder: Path) -> None:
    """Bring the repository of a program that becomes slower."""
    subprocess.run([REPOSITORY / "examples" / "bisect" / "make-program"], cwd=folder, check=True)


def bring_comparisons(folder: Path) -> None:
    """Bring comparisons of a microbenchmark and of production."""
    for name in ("micro", "production", "monday", "tuesday"):
        (folder / f"{name}.json").write_text(to_json(measured(rows_of(system=UP))))


# What brings the inputs of a command's examples.
BRINGS: Mapping[str, Sequence[Callable[[Path], object]]] = {
    "bisect": (bring_commits,),
    "bisect run": (bring_program,),
    # The bundles of a regression are of two kernels.
    "culprit": (bring_commits, regression),
    "history add": (bring_results, bring_nights),
    "import": (bring_results,),
    "mechanism": (bring_comparisons,),
    "pack": (bring_request,),
}


@pytest.mark.system
@pytest.mark.parametrize(
    "name",
    [
        # The examples of ab set sched_autogroup_enabled, those of record take dozens of runs.
        pytest.param(
            name,
            marks=[
                *marks(
                    [f"schedperf {name} {WITHOUT_COLLECTORS.get(name, '')}"],
                    is_slow=name in SLOW_HELP,
                ),
                *[pytest.mark.alone] * (name == "ab"),
            ],
        )
        # A subcommand with examples of its own.
        for name in (*all_commands(), "bisect run", "history add")
    ],
)
def test_examples_of_help_run(
    name: str, folder: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    examples = help_examples(run_cli(*name.split(), "--help").stdout)
    monkeypatch.delenv("COLUMNS")
    assert examples, f"schedperf {name} --help shows no example"
    if not any("base.tar" in example and " -o " in example for example in examples):
        bring_inputs(folder)
    if any("base.data" in example for example in examples):
        bring_memory_samples(folder)
    for bring in BRINGS.get(name, ()):
        bring(folder)
    if name == "mail":
        make_site(folder / "outbox")
        make_outbox(folder / "outbox", make_message())
    if name == "night":
        text = (REPOSITORY / "docs" / "night.md").read_text()
        (folder / "lab.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    left_out = [f"$ {one}: {missing}" for one in examples if (missing := missing_for(one))]
    for example in examples:
        if missing_for(example):
            continue
        # As printed, but for shorter and fewer runs of the benchmark.
        done = run(shorten(example), folder)
        # 1 says "regression": the example did its job.
        assert done.returncode in {0, 1}, f"$ {example}\n{done.stdout}"
        assert "Traceback" not in done.stdout
    if left_out:
        pytest.skip("; ".join(left_out))


def test_every_command_is_documented() -> None:
    text = "".join(document.read_text() for document in DOCUMENTS)
    for name in all_commands():
        assert f"schedperf {name}" in text


def test_every_collector_is_documented() -> None:
    # Each kind of evidence may have a document of its own; recipes document nothing.
    documents = {*DOCUMENTS} - {REPOSITORY / "docs/extending.md"}
    text = "".join(document.read_text() for document in documents)
    for name in all_collectors():
        assert f"`{name}`" in text


def test_the_tests_of_each_promise_exist() -> None:
    rows = [
        row.split("|")
        for row in (REPOSITORY / "SECURITY.md").read_text().splitlines()
        if row.startswith("| ") and not row.startswith(("| promise", "| ---"))
    ]
    assert len(rows) > 10
    for _, promise, tests, _ in rows:
        paths = re.findall("`([^`]+)`", tests)
        assert paths, promise
        assert not [path for path in paths if not (REPOSITORY / path).exists()], promise
