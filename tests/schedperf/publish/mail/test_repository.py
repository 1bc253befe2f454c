# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of a kernel's repository, of which nothing is executed."""

import os
import shutil
import subprocess
import sys
from email.headerregistry import Address
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.git import Repository
from schedperf.model.errors import InputError
from schedperf.publish.culprit.commits import read_ends
from schedperf.publish.mail.repository import ask_maintainers, find_undoing
from tests.programs import skip_without_strace

# Of a program that may wait for input.
QUIET: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60}
MAINTAINERS = """\
List of maintainers

SCHEDULER
M:	Ingo Maintainer <ingo@kernel.example>
L:	sched@kernel.example
S:	Maintained
F:	kernel/sched/
"""
# Settings of a repository that start a program.
PROGRAMS = (
    "alias.diff-tree",
    "core.alternateRefsCommand",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "diff.evil.command",
    "diff.evil.textconv",
    "diff.external",
    "filter.evil.clean",
    "filter.evil.process",
    "filter.evil.smudge",
    "gpg.program",
    "interactive.diffFilter",
    "pager.log",
    "pager.show",
    "sequence.editor",
    "trailer.link.cmd",
    "trailer.link.command",
    "uploadpack.packObjectsHook",
)
SETTINGS = {
    "color.ui": "always",
    "core.hooksPath": "evil-hooks",
    "core.repositoryFormatVersion": "1",
    "diff.noPrefix": "true",
    "diff.submodule": "diff",
    "extensions.partialClone": "origin",
    "log.showSignature": "true",
    "protocol.ext.allow": "always",
    "protocol.file.allow": "always",
    "remote.origin.promisor": "true",
}


def git(folder: Path, *words: str) -> str:
    command = [
        "git",
        "-C",
        str(folder),
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@kernel.example",
        *words,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def change(folder: Path, name: str, text: str, subject: str) -> str:
    """Commit a file; return the hash."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository whose MAINTAINERS is in the tag v6.18, with a commit behind it."""
    folder = tmp_path / "linux"
    folder.mkdir()
    git(folder, "init", "-q", "--initial-branch=main")
    change(folder, "MAINTAINERS", MAINTAINERS, "Linux 6.18")
    git(folder, "tag", "v6.18")
    change(folder, "kernel/sched/fair.c", "good\n", "sched: Good")
    return folder


def addresses(found: tuple[Address, ...]) -> list[str]:
    return [address.addr_spec for address in found]


def test_maintainers_are_those_of_the_release_before_the_good_commit(repository: Path) -> None:
    change(repository, "MAINTAINERS", MAINTAINERS.replace("ingo", "eve"), "Linux 6.18.1")
    git(repository, "tag", "v6.18.1")
    git(repository, "tag", "evil")
    good = git(repository, "rev-parse", "HEAD")
    (repository / "MAINTAINERS").write_text(MAINTAINERS.replace("ingo", "mallory"))
    bad = change(repository, "kernel/sched/fair.c", "bad\n", "sched: Bad")
    git(repository, "tag", "v6.19")
    found = ask_maintainers(repository, good, bad)
    assert addresses(found.people) == ["ingo@kernel.example"]
    assert addresses(found.lists) == ["sched@kernel.example"]
    found = ask_maintainers(repository, good, bad, "v6.18.1")
    assert addresses(found.people) == ["eve@kernel.example"]


def test_a_tree_without_releases_or_maintainers_is_refused_in_one_line(repository: Path) -> None:
    good = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "--delete", "v6.18")
    with pytest.raises(InputError, match=r"no tag of mainline before .*--maintainers-from") as tags:
        ask_maintainers(repository, good, good)
    git(repository, "rm", "-q", "MAINTAINERS")
    git(repository, "commit", "-qm", "Remove MAINTAINERS")
    with pytest.raises(InputError, match="'MAINTAINERS' does not exist") as file:
        ask_maintainers(repository, good, good, "HEAD")
    with pytest.raises(InputError, match="no such commit") as ref:
        ask_maintainers(repository, good, good, "--output=x")
    assert not any("\n" in str(error.value) for error in (tags, file, ref))


def test_a_huge_maintainers_file_is_refused(repository: Path) -> None:
    good = change(repository, "MAINTAINERS", "F: x\n" * (2 << 20), "Huge")
    with pytest.raises(InputError, match=r"MAINTAINERS: 10485760 bytes \(expected at most"):
        ask_maintainers(repository, good, good, "HEAD")


def plant_files(repository: Path, mark: Path) -> None:
    """Write hooks, a script and attributes; each program leaves a mark."""
    program = repository / "evil-hooks" / "program"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $0 >>{mark}\n")
    program.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        shutil.copy(program, program.parent / hook)
    script = repository / "scripts" / "get_maintainer.pl"
    script.parent.mkdir()
    script.write_text(f"open my $mark, '>>', '{mark}'; print $mark 'script';\n")
    (repository / ".gitattributes").write_text("* diff=evil filter=evil\n")


def plant_settings(repository: Path) -> None:
    """Configure the program wherever git can start one."""
    program = repository / "evil-hooks" / "program"
    for name in PROGRAMS:
        # An alias is a command of a shell.
        git(repository, "config", name, f"{'!' * name.startswith('alias')}{program}")
    for name, value in SETTINGS.items():
        git(repository, "config", name, value)
    git(repository, "config", "remote.origin.url", f"ext::{program}")


@pytest.fixture
def hostile(repository: Path, tmp_path: Path) -> tuple[Path, str, str]:
    """Return a repository that would start programs, and its good and bad commit."""
    good = git(repository, "rev-parse", "HEAD")
    plant_files(repository, tmp_path / "mark")
    bad = change(repository, "kernel/sched/fair.c", "bad\n", "sched: Bad\n\nLink: x")
    plant_settings(repository)
    return repository, good, bad


def test_no_program_of_a_repository_is_executed(
    hostile: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder, good, bad = hostile
    mark = tmp_path / "mark"
    assert addresses(ask_maintainers(folder, good, bad).people) == ["ingo@kernel.example"]
    find_undoing(folder, good)
    kernel = Repository(folder)
    read_ends(kernel, good, bad)
    kernel.series(good, bad)
    assert kernel.describe(bad, "main")["links"] == ["x"]
    assert "-good\n+bad" in kernel.patch(bad)
    assert "\n+++ b/kernel" in kernel.patch(bad)
    assert kernel.borrow(tmp_path / "work").add("tree", bad).is_dir()
    # Of a partial clone, git fetches missing objects by the program that is configured.
    blob = git(folder, "rev-parse", f"{bad}:kernel/sched/fair.c")
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(InputError, match="--repo"):
        kernel.patch(bad)
    assert not mark.exists(), mark.read_text()
    # The traps work: git alone starts them.
    subprocess.run(["git", "-C", str(folder), "log", "-p", "-3"], check=False, **QUIET)
    assert mark.exists()


def test_only_git_is_executed(hostile: tuple[Path, str, str], tmp_path: Path) -> None:
    skip_without_strace()
    folder, good, bad = hostile
    code = (
        "import sys; from pathlib import Path; from schedperf.publish.mail.repository import *; "
        "ask_maintainers(Path(sys.argv[1]), *sys.argv[2:])"
    )
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=execve,execveat", "-o", str(trace)]
    ran = subprocess.run(
        [*command, sys.executable, "-c", code, str(folder), good, bad],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    started = [line for line in trace.read_text().splitlines() if line.endswith("= 0")]
    programs = {line.split('"')[1].rpartition("/")[2] for line in started}
    assert programs == {Path(sys.executable).name, "git"}


def test_commits_that_undo_a_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert find_undoing(repository, commit) == []
    git(repository, "commit", "-qm", f"sched: Fix\n\nFixes: {commit[:12]} (sched)", "--allow-empty")
    git(repository, "commit", "-qm", "sched: Another\n\nFixes: 0123456789ab", "--allow-empty")
    git(repository, "commit", "-qm", f"Revert\n\nThis reverts commit {commit}.", "--allow-empty")
    head = git(repository, "rev-parse", "HEAD")
    assert find_undoing(repository, commit) == [head, git(repository, "rev-parse", "HEAD~2")]


@pytest.mark.parametrize("digits", [7, 8, 10, 11, 20, 40])
def test_authors_shorten_the_names_of_commits_as_they_like(repository: Path, digits: int) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    other = f"{commit[: digits - 1]}{'0' if commit[digits - 1] != '0' else '1'}"
    git(repository, "commit", "-qm", f"sched: Fix\n\nFixes: {other} (sched)", "--allow-empty")
    assert find_undoing(repository, commit) == []
    for line in (f"Fixes: {commit[:digits]} (sched)", f"This reverts commit {commit[:digits]}."):
        git(repository, "commit", "-qm", f"sched: Fix\n\n{line}", "--allow-empty")
    assert len(find_undoing(repository, commit) or ()) == 2


def test_a_checkout_without_the_commit_proves_nothing(repository: Path) -> None:
    old = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-qb", "sched/core")
    git(repository, "commit", "-qm", "sched: Change", "--allow-empty")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-qm", f"sched: Fix\n\nFixes: {commit[:12]}", "--allow-empty")
    fix = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", old)
    assert find_undoing(repository, commit) is None
    assert find_undoing(repository, commit, "sched/core") == [fix]
    assert find_undoing(repository, commit, "no/such/branch") is None
    assert find_undoing(repository, commit, "--all") is None
    git(repository, "checkout", "-q", "sched/core")
    assert find_undoing(repository, commit, "no/such/branch") == [fix]


def test_a_commit_that_is_not_there(repository: Path) -> None:
    with pytest.raises(InputError, match="--repo"):
        find_undoing(repository, "9" * 40)
