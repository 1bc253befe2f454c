# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the tests against a mutant, in a clone of the last commit."""

import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

import pytest

from bench.mutants.reach import SOURCE_ROOTS, Reach

GOLDEN = "tests/test_golden.py"
NOT_RUN = ("browser", "vm", "slow")
# Ends of the first stages of the files, nearest first: a stage is collected before it runs, which
# takes longer than most tests that fail.
STAGES = (1, 4)
MOST_SECONDS = 200
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PASSED, _HAS_FAILED, _NO_TESTS = 0, 1, 5


# To import the libraries takes longer than most tests that fail, so it is done once, by the process
# that all others are forked from. pytest must import its plugins itself.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["jsonschema_rs", "numpy", "pandas", "pytest", "rich.console", "scipy.optimize", "scipy.stats"]
)


class TrialError(Exception):
    """A mutant cannot be tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One mistake that tests must notice.

    :param area: part of the program that it belongs to
    :param file: path below the root of the checkout
    :param wrong: what the mutant does wrong, in one clause
    :param before: text that occurs exactly once in the file
    :param after: text that replaces it
    """

    id: str
    area: str
    file: str
    wrong: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the mistake.

        :raises TrialError: ``before`` does not occur exactly once
        """
        if (found := text.count(self.before)) != 1:
            raise TrialError(
                f"{self.id}: `before` occurs {found} times in {self.file} (expected once); "
                "adapt it to the file"
            )
        return text.replace(self.before, self.after)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result of trying a mutant.

    :param killed_by: the first test that failed; None: the mutant survived
    :param seconds: duration of the trial
    """

    mutant: Mutant
    killed_by: str | None
    seconds: float


class Clone:
    """A clone of a checkout's last commit, in which mutants are tried one after the other."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Clone a checkout into a directory, with a link to the directory ``shared`` next to it.

        :param root: the checkout
        :param folder: an empty directory
        :raises subprocess.CalledProcessError: git fails
        """
        self.path = folder / "checkout"
        git = [
            "git",
            "-c",
            "advice.detachedHead=false",
            "clone",
            "--quiet",
            "--shared",
            str(root),
            str(self.path),
        ]
        subprocess.run(git, check=True)
        if (shared := root.parent / "shared").exists():
            (folder / "shared").symlink_to(shared.resolve())
        self.reach = Reach(self.path)
        self._not_run = _not_run(self.path)
        self._fails_anyway: set[str] = set()
        self._seconds = count(1)

    def try_mutant(
        self, mutant: Mutant, *, first: Sequence[str] = (), most_files: int | None = None
    ) -> Outcome:
        """Run the tests that reach the mutant until one fails.

        :param first: test files to run before all others
        :param most_files: number of the nearest test files to run, besides the golden tests; None
            for all that reach the mutant
        :raises TrialError: the mutant does not fit the file, or pytest cannot run
        """
        started = time.monotonic()
        file = self.path / mutant.file
        if not file.is_file():
            raise TrialError(f"{mutant.id}: {mutant.file} does not exist; adapt its path")
        original = file.read_text(encoding="utf-8")
        self._write(file, mutant.apply(original))
        try:
            stages = self._stages(mutant, first, most_files)
            found = (self._run(["-x", *tests]) for tests in stages if tests)
            killed_by = next((failed[0] for failed in found if failed), None)
        finally:
            self._write(file, original)
        return Outcome(mutant=mutant, killed_by=killed_by, seconds=time.monotonic() - started)

    def failing(self, tests: Sequence[str]) -> set[str]:
        """Run some tests without a mutant and return those that fail; they are not run again.

        :raises TrialError: pytest cannot run
        """
        failed = set(self._run(tests)) if tests else set()
        self._fails_anyway |= failed
        return failed

    def _stages(
        self, mutant: Mutant, first: Sequence[str], most_files: int | None
    ) -> Iterator[Sequence[str]]:
        files = [path for path in self.reach.test_files(mutant.file) if path != GOLDEN][:most_files]
        yield [path for path in first if (self.path / path).exists()]
        for start, end in pairwise((0, *STAGES)):
            yield files[start:end]
        yield [GOLDEN] if (self.path / GOLDEN).exists() else []
        yield files[STAGES[-1] :]

    def _write(self, file: Path, text: str) -> None:
        # Bytecode is checked by size and seconds, which a mutant may share with the original.
        file.write_text(text, encoding="utf-8")
        second = next(self._seconds)
        os.utime(file, (second, second))

    def _run(self, arguments: Sequence[str]) -> list[str]:
        # The tests that fail, in their order.
        options = ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", self._not_run]
        skipped = [f"--deselect={test}" for test in sorted(self._fails_anyway)]
        command = [*options, f"--timeout={MOST_SECONDS}", *skipped, *arguments]
        output = self.path.parent / "output"
        process = _SERVER.Process(target=_run_pytest, args=(self.path, command, output))
        process.start()
        process.join()
        text = output.read_text(encoding="utf-8", errors="replace")
        failed: list[str] = _FAILED.findall(text)
        status = process.exitcode
        if status not in {_PASSED, _HAS_FAILED, _NO_TESTS} or (status == _HAS_FAILED) != bool(
            failed
        ):
            raise TrialError(f"pytest cannot run: {shlex.join(command)}\n{text}")
        return failed


def _run_pytest(folder: Path, arguments: Sequence[str], output: Path) -> None:
    # In a process of its own, which imports the clone's code, and so do the processes it starts.
    with output.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    roots = [str(folder / root) for root in SOURCE_ROOTS]
    sys.path[:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)
    # The clone is ours: what was compiled once is there for all mutants.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.chdir(folder)
    sys.exit(pytest.main(list(arguments)))


def _not_run(root: Path) -> str:
    # pytest refuses a marker that the checkout does not declare.
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    declared = {
        line.partition(":")[0] for line in settings["tool"]["pytest"]["ini_options"]["markers"]
    }
    return f"not ({' or '.join(name for name in NOT_RUN if name in declared)})"
