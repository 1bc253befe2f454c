# SPDX-License-Identifier: GPL-2.0-or-later
"""Query the kernel's repository: maintainers of changed files, and reverts and fixes of a commit.

Nothing in the repository is executed: no hooks, no programs from its configuration
(:func:`schedperf.inputs.git.run_git`), and no scripts of its trees.
"""

from pathlib import Path

from schedperf.inputs.git import Repository, reason_of, run_git
from schedperf.model.errors import InputError
from schedperf.publish.culprit.record import COMMIT_DIGITS
from schedperf.publish.mail.maintainers import FILE, MOST_BYTES, Change, find_maintainers
from schedperf.publish.mail.recipients import Maintainers

# Minimum number of digits with which git abbreviates the name of a commit by default.
_FEWEST_DIGITS = 7


def ask_maintainers(
    repository: Path, good: str, bad: str, trusted: str | None = None
) -> Maintainers:
    """Return the maintainers of the files that a commit changes.

    :param good: last good commit
    :param bad: the commit; its own tree is untrusted, so its MAINTAINERS is not read
    :param trusted: commit whose MAINTAINERS is read [default: the newest release of mainline before
        good]
    :raises InputError: a commit is unknown, there is no release before good, or MAINTAINERS cannot
        be read or has an invalid pattern or address
    """
    kernel = Repository(repository)
    if trusted is None and (trusted := kernel.find_release(good)) is None:
        raise InputError(
            f"--repo {repository}: no tag of mainline before {good[:COMMIT_DIGITS]} (expected e.g. "
            "v6.18); fetch the tags, or name a tree that you trust with --maintainers-from"
        )
    where = f"{trusted}:{FILE}"
    text = kernel.read_file(kernel.resolve(trusted), FILE, MOST_BYTES)
    commit = kernel.resolve(bad)
    change = Change(files=kernel.changed_files(commit), patch=kernel.patch(commit))
    return find_maintainers(text, change, where)


def find_undoing(repository: Path, commit: str, tree: str | None = None) -> list[str] | None:
    """Return the hashes of the later commits that revert or fix a commit, newest first.

    :param tree: branch that is searched [default: HEAD]; HEAD if it lacks the commit
    :return: None if neither has the commit
    :raises InputError: the repository lacks the commit, or git fails
    """
    where = f"--repo {repository}"
    _git(repository, where, "cat-file", "-e", f"{commit}^{{commit}}")
    for ref in (tree, "HEAD"):
        # An old check-out has no newer commits, which proves nothing.
        if ref is None or not _has(repository, ref, commit):
            continue
        printed = _git(
            repository, where, "log", "--format=%H", "--extended-regexp",
            f"--grep={_undoes(commit)}", "--end-of-options", f"{commit}..{ref}", "--",
        )  # fmt: skip
        return printed.split()
    return None


def _undoes(commit: str) -> str:
    """Return a regular expression for the lines by which commits revert or fix a commit.

    They may abbreviate its hash to 7 digits or more.
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


def _failed(where: str, reason: str) -> InputError:
    return InputError(
        f"{where}: {reason} (expected a kernel repository with the commit); name another, or leave "
        "out --repo"
    )
