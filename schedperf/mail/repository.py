# SPDX-License-Identifier: GPL-2.0-or-later
"""Ask the kernel's repository: who maintains what a commit changes, and what undoes a commit."""

import subprocess
import tempfile
from pathlib import Path

from schedperf.mail.recipients import Maintainers, parse_maintainers
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.series.git import reason_of, run_git

_LIMIT_S = 60.0
_LONGEST_REASON = 120
# That git writes of the name of a commit by default, at least.
_FEWEST_DIGITS = 7
_SCRIPT = "scripts/get_maintainer.pl"
_NEEDED = (_SCRIPT, "MAINTAINERS")


def ask_get_maintainer(repository: Path, commit: str) -> Maintainers:
    """Run the get_maintainer.pl of a commit's own tree, without git history.

    :raises InputError: the tree has none, or it fails
    """
    where = f"--repo {repository}"
    with tempfile.TemporaryDirectory() as folder:
        for name in _NEEDED:
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            text = _git(repository, where, "show", "--end-of-options", f"{commit}:{name}")
            path.write_text(text, encoding="utf-8")
        patch = _git(
            repository, where, "show", "--format=", "--no-ext-diff", "--no-textconv", commit
        )
        printed = _ask_script(Path(folder), patch, where)
    return parse_maintainers(printed.splitlines())


def find_undoing(repository: Path, commit: str, tree: str | None = None) -> list[str] | None:
    """Return the commits since then, up to the newest one, that revert a commit or fix it.

    :param tree: branch that is looked at [default: HEAD]; HEAD if it lacks the commit
    :return: None if neither has the commit
    :raises InputError: the repository lacks the commit
    """
    where = f"--repo {repository}"
    _git(repository, where, "cat-file", "-e", f"{commit}^{{commit}}")
    for ref in (tree, "HEAD"):
        # An old checkout has nothing newer, which proves nothing.
        if ref is None or not _has(repository, ref, commit):
            continue
        printed = _git(
            repository, where, "log", "--format=%H", "--extended-regexp",
            f"--grep={_undoes(commit)}", "--end-of-options", f"{commit}..{ref}", "--",
        )  # fmt: skip
        return printed.split()
    return None


def _undoes(commit: str) -> str:
    """Return a regular expression for lines that name a commit as reverted or fixed.

    Authors shorten the name of the commit as they like.
    """
    names = "|".join(commit[:digits] for digits in range(_FEWEST_DIGITS, len(commit) + 1))
    return f"(This reverts commit|Fixes:) +({names})([^0-9a-f]|$)"


def _has(repository: Path, ref: str, commit: str) -> bool:
    words = ("merge-base", "--is-ancestor", "--end-of-options", commit, ref)
    return not run_git(repository, words).returncode


def _git(repository: Path, where: str, *words: str) -> str:
    ran = run_git(repository, words)
    if ran.returncode:
        raise _failed(where, reason_of(ran.stderr))
    return ran.stdout


def _ask_script(folder: Path, patch: str, where: str) -> str:
    words = ["perl", _SCRIPT, "--no-tree", "--no-git", "--no-git-fallback", "--roles", "-"]
    try:
        ran = subprocess.run(
            words, cwd=folder, input=patch.encode(), capture_output=True, timeout=_LIMIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(where, clean_line(str(error))[:_LONGEST_REASON]) from None
    if ran.returncode:
        said = clean_line(ran.stderr.decode("utf-8", "replace"))[:_LONGEST_REASON]
        raise _failed(where, said or f"{_SCRIPT}: exit status {ran.returncode}")
    return ran.stdout.decode("utf-8", "replace")


def _failed(where: str, reason: str) -> InputError:
    return InputError(
        f"{where}: {reason} (expected a kernel repository with the commit and {_SCRIPT}); name "
        "another, or leave out --repo"
    )
