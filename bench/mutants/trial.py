"""Run the tests against a mutant, in a clone of the last commit."""

import itertools
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.mutants.reach import SOURCE_ROOTS, Reach

GOLDEN = "tests/test_golden.py"
NOT_RUN = ("browser", "vm", "slow")
# So many files are collected before all others: collecting takes longer than most failing tests.
NEAREST = 4
MOST_SECONDS = 200
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PASSED, _HAS_FAILED, _NO_TESTS = 0, 1, 5


class TrialError(Exception):
    """A mutant cannot be tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One mistake that tests must notice.

    :param file: path below the root of the checkout
    :param before: text that occurs exactly once in the file
    :param after: what stands there in the mutant
    :param wrong: what the mutant does wrong, in one clause
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
        if (count := text.count(self.before)) != 1:
            raise TrialError(
                f"{self.id}: `before` occurs {count} times in {self.file} (expected once); "
                "adapt it to the file"
            )
        return text.replace(self.before, self.after)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a mutant.

    :param killed_by: the test that fails, with the mutant only; None: it survived
    """

    mutant: Mutant
    killed_by: str | None
    seconds: float


class Clone:
    """A clone of a checkout's last commit, in which mutants are tried one after the other."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Clone ``root`` into a folder, beside a link to the data that lie beside ``root``."""
        self.path = folder / "checkout"
        git = ["git", "clone", "--quiet", "--shared", str(root), str(self.path)]
        subprocess.run(git, check=True)
        if (shared := root.parent / "shared").exists():
            (folder / "shared").symlink_to(shared.resolve())
        self.reach = Reach(self.path)
        self._not_run = _not_run(self.path)
        self._fails_anyway: set[str] = set()
        self._seconds = itertools.count(1)

    def try_mutant(self, mutant: Mutant, first: Sequence[str] = ()) -> Outcome:
        """Run the tests that reach the mutant until one fails that passes without it.

        :param first: tests to run before all others
        :raises TrialError: the mutant cannot be made, or pytest cannot run
        """
        started = time.monotonic()
        file = self.path / mutant.file
        if not file.is_file():
            raise TrialError(f"{mutant.id}: {mutant.file} does not exist; adapt its path")
        original = file.read_text(encoding="utf-8")
        changed = mutant.apply(original)
        killed_by = None
        for tests in self._stages(mutant, first):
            self._write(file, changed)
            try:
                killed_by = self._first_failure(tests, file, original, changed)
            finally:
                self._write(file, original)
            if killed_by is not None:
                break
        return Outcome(mutant=mutant, killed_by=killed_by, seconds=time.monotonic() - started)

    def _stages(self, mutant: Mutant, first: Sequence[str]) -> Iterator[Sequence[str]]:
        files = [path for path in self.reach.test_files(mutant.file) if path != GOLDEN]
        yield [test for test in first if (self.path / test.partition("::")[0]).exists()]
        yield files[:NEAREST]
        yield [GOLDEN] if (self.path / GOLDEN).exists() else []
        yield files[NEAREST:]

    def _first_failure(
        self, tests: Sequence[str], file: Path, original: str, changed: str
    ) -> str | None:
        # The first test that fails with the mutant and passes without it.
        while tests and (failed := self._run(tests)) is not None:
            self._write(file, original)
            if self._run([failed]) is None:
                return failed
            self._fails_anyway.add(failed)
            self._write(file, changed)
        return None

    def _write(self, file: Path, text: str) -> None:
        # Bytecode is checked by size and seconds, which a mutant may share with the original.
        file.write_text(text, encoding="utf-8")
        second = next(self._seconds)
        os.utime(file, (second, second))

    def _run(self, tests: Sequence[str]) -> str | None:
        options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", self._not_run]
        skipped = [f"--deselect={test}" for test in sorted(self._fails_anyway)]
        limit = f"--timeout={MOST_SECONDS}"
        command = [sys.executable, "-m", "pytest", *options, limit, *skipped, *tests]
        roots = os.pathsep.join(str(self.path / root) for root in SOURCE_ROOTS)
        done = subprocess.run(
            command,
            cwd=self.path,
            env=os.environ | {"PYTHONPATH": roots},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode in {_PASSED, _NO_TESTS}:
            return None
        found = _FAILED.findall(done.stdout)
        if done.returncode != _HAS_FAILED or not found:
            raise TrialError(
                f"pytest cannot run: {shlex.join(command)}\n{done.stdout}{done.stderr}"
            )
        return str(found[0])


def _not_run(root: Path) -> str:
    # pytest refuses a marker that the checkout does not declare.
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    declared = {
        line.partition(":")[0] for line in settings["tool"]["pytest"]["ini_options"]["markers"]
    }
    return f"not ({' or '.join(name for name in NOT_RUN if name in declared)})"
