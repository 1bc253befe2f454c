# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the commits of a range, and check them out without touching the user's work tree.

Commits are checked out in a separate repository, which borrows the objects of the user's
(``objects/info/alternates``). Nothing is written to the user's repository, and its configuration
(hooks, filters, monitors of the file system) has no effect on the check-out.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut, list_some

# Largest number of commits; two kernel releases are fewer commits apart.
MOST_COMMITS = 20_000
_GIT_LIMIT_S = 120.0
# Checking out a kernel takes a minute on a slow disk.
_CHECKOUT_LIMIT_S = 1800.0
_LONGEST_REF = 256
_HASH = re.compile(r"\A[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
# Options that prevent the configuration from starting programs.
_OPTIONS = (
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "core.pager=cat",
    "-c", "core.sshCommand=false",
    "-c", "protocol.allow=never",
    "-c", "log.showSignature=false",
    "-c", "commit.gpgSign=false",
    "-c", "diff.submodule=short",
    "-c", "diff.noPrefix=false",
    "-c", "diff.mnemonicPrefix=false",
    "-c", "color.ui=false",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
)  # fmt: skip
# Attributes of a tree select filter and diff drivers, which the repository's configuration defines;
# these attributes override them.
_DIFF = ("--no-commit-id", "--root", "-r", "-c", "--no-renames", "--no-ext-diff", "--no-textconv")
# Tags of mainline releases and release candidates, but not of stable releases such as v6.18.3.
_RELEASES = ("--match=v[0-9]*.[0-9]*", "--exclude=v*.*.*")
# Digits of a hash that texts show.
HASH_DIGITS = 12
_TRUSTED = "safe.directory"
_MOST_CONFLICTS = 3
_IDENTITY = ("-c", "user.name=schedperf", "-c", "user.email=schedperf@localhost")


# Fields of a commit that a bundle stores (schedperf_collectors.recorder.source).
_FORMAT = "%s%x00%an <%ae>%x00%cn <%ce>%x00%cI%x00%(trailers:key=Link,valueonly,separator=%x01)"
_FIELDS = 5
_LONGEST_TEXT = 500
_MOST_LINKS = 100


class Commit(Struct, frozen=True, kw_only=True):
    """One commit of a series.

    :param subject: one line without control characters
    """

    hash: Annotated[str, Meta(pattern=_HASH.pattern)]
    subject: str

    @property
    def short(self) -> str:
        """Return the beginning of its hash, which texts show."""
        return self.hash[:HASH_DIGITS]


class Repository:
    """The user's repository, which is only read.

    :raises InputError: the directory is not a repository, or git is not installed
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise InputError(f"--repo {path}: no such directory (expected a git repository)")
        self._path = path
        self._objects = Path(self._ask("rev-parse", "--git-path", "objects"))
        if not self._objects.is_absolute():
            self._objects = path / self._objects

    def resolve(self, ref: str) -> str:
        """Return the hash of the commit that a branch, tag or hash names.

        :raises InputError: the commit is unknown, or the name is invalid
        """
        if not ref or len(ref) > _LONGEST_REF or not ref.isprintable():
            raise InputError(
                f"{clean_line(ref)[:40]!r}: invalid name of a commit (expected e.g. v6.1)"
            )
        ran = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        commit = ran.stdout.strip()
        if ran.returncode or not _HASH.match(commit):
            raise InputError(
                f"{ref}: no such commit in {self._path} (expected a branch, tag or hash); "
                "check the name, or fetch it"
            )
        return commit

    def series(self, base: str, head: str) -> list[Commit]:
        """Return base and the commits from it to head by their first parents, oldest first.

        :raises InputError: a commit is unknown; base equals head or is not on its first-parent
            history; or there are more than 20,000 commits
        """
        first, last = self.resolve(base), self.resolve(head)
        if first == last:
            raise InputError(f"{base}..{head}: empty, both are {first[:12]}; name two commits")
        if not self.is_ancestor(first, last):
            if self.is_ancestor(last, first):
                raise InputError(
                    f"{base}..{head}: reversed (expected older..newer); use {head}..{base}"
                )
            if self._ask("rev-parse", "--is-shallow-repository") == "true":
                raise InputError(
                    f"{base}..{head}: not connected in {self._path}, which is a shallow clone; "
                    "run there: git fetch --unshallow"
                )
            raise InputError(
                f"{base}..{head}: {base} is not an ancestor of {head}; rebase the series"
            )
        log = self._log("--first-parent", "--reverse", f"{first}..{last}")
        if len(log) > MOST_COMMITS:
            raise InputError(
                f"{base}..{head}: {len(log)} commits (expected at most {MOST_COMMITS}); "
                "name a shorter range"
            )
        _, parents = log[0]
        if first not in parents[:1]:
            raise InputError(
                f"{base}..{head}: {base} is not on the first-parent history of {head}; name "
                f"{parents[0][:12]} as base"
                if parents
                else f"{base}: no parent"
            )
        return [self._commit(first), *(commit for commit, _ in log)]

    def branches(self, merge: str, parent: str) -> list[tuple[Commit, ...]]:
        """Return the branches that a merge adds to one of its parents, in the order of its parents.

        Each is the merge base and the commits from it to the tip of the branch, oldest first: by
        their first parents, or by another parent where only that one leads to the merge base. If
        there is none, or several (a criss-cross merge), only the tip is returned. An octopus merge
        adds one branch after the other: what two of them share belongs to the first.

        :param merge: hash of any commit; only a merge has branches
        :param parent: hash of a parent of it
        :raises InputError: a commit is unknown, or git cannot read the history
        """
        branches = []
        merged = [parent]
        for tip in self.show(merge, "%P").split():
            base = self._merge_base(tip, merged)
            merged.append(tip)
            if base != tip:
                branches.append((self._commit(tip),) if base is None else self._path_to(tip, base))
        return branches

    def _merge_base(self, tip: str, merged: Sequence[str]) -> str | None:
        """Return the merge base of a tip and the merge of others; None if there is not one."""
        ran = self._run("merge-base", "--all", tip, *merged)
        if ran.returncode > 1:
            raise InputError(f"--repo {self._path}: {reason_of(ran.stderr)}")
        bases = ran.stdout.split()
        return bases[0] if len(bases) == 1 else None

    def _path_to(self, tip: str, base: str) -> tuple[Commit, ...]:
        log = {
            commit.hash: (commit, parents)
            for commit, parents in self._log("--ancestry-path", f"{base}..{tip}")
        }
        path = []
        step = tip
        while step != base:
            commit, parents = log[step]
            path.append(commit)
            step = next(each for each in parents if each in log or each == base)
        return self._commit(base), *reversed(path)

    def _log(self, *arguments: str) -> list[tuple[Commit, list[str]]]:
        """Return the commits that ``git log`` lists, with the hashes of their parents."""
        printed = self._read(
            "log", "--format=%H %P%x00%s%x00", "--encoding=UTF-8", "--no-patch", *arguments, "--"
        )
        # A subject may have line breaks of other systems, but no NUL.
        fields = printed.split("\0")
        hashes = (head.split() for head in fields[:-1:2])
        return [
            (Commit(hash=commit, subject=clean_line(subject)), parents)
            for (commit, *parents), subject in zip(hashes, fields[1::2], strict=True)
        ]

    def has(self, ref: str) -> bool:
        """Return whether a name or hash is that of a commit here."""
        try:
            self.resolve(ref)
        except InputError:
            return False
        return True

    def between(self, base: str, head: str) -> list[Commit]:
        """Return the commits of ``head`` that ``base`` lacks, newest first, without merges.

        The history may have been rebased between both.

        :raises InputError: a commit is unknown, or there are more than 20,000 commits
        """
        span = f"{self.resolve(base)}..{self.resolve(head)}"
        log = self._log("--no-merges", f"--max-count={MOST_COMMITS + 1}", span)
        if len(log) > MOST_COMMITS:
            raise InputError(
                f"{base}..{head}: more than {MOST_COMMITS} commits; name a shorter range"
            )
        return [commit for commit, _ in log]

    def touching(self, base: str, head: str, paths: Sequence[str]) -> set[str]:
        """Return the hashes of the commits of :meth:`series` that change one of these paths.

        A merge counts if it differs there from its first parent.

        :param paths: relative to the repository
        :raises InputError: the commit is unknown
        """
        span = f"{self.resolve(base)}..{self.resolve(head)}"
        return set(self._ask("rev-list", "--first-parent", span, "--", *paths).split())

    def describe(self, commit: str, ref: str | None = None) -> dict[str, Any]:
        """Return the fields of a commit that a bundle stores, in the form of ``record --source``.

        :param commit: its hash
        :param ref: the user's name for it; kept if it is a branch or tag
        :return: the fields that are known, as texts; "links" is always a list
        :raises InputError: the commit is unknown
        """
        printed = self.show(commit, _FORMAT)
        subject, author, committer, committed, links = (
            *printed.split("\0"), *[""] * _FIELDS,
        )[:_FIELDS]  # fmt: skip
        described = self._run("describe", "--tags", commit).stdout
        texts = {
            "commit": commit,
            "tree": _without_login(self._run("config", "--get", "remote.origin.url").stdout),
            "ref": ref if ref is not None and self._is_named(ref) else "",
            "subject": subject,
            "author": author,
            "committer": committer,
            "committed": committed,
            "describe": described,
        }
        cleaned = {key: cut(clean_line(text), _LONGEST_TEXT) for key, text in texts.items() if text}
        found = (cut(clean_line(link), _LONGEST_TEXT) for link in links.split("\1"))
        return {
            **{key: text for key, text in cleaned.items() if text},
            "links": [link for link in found if link][:_MOST_LINKS],
        }

    def _is_named(self, ref: str) -> bool:
        """Return whether ``ref`` is the name of a branch or tag, not e.g. HEAD~3."""
        whole = self._run("rev-parse", "--symbolic-full-name", "--end-of-options", ref).stdout
        return any(line.startswith("refs/") for line in whole.splitlines())

    def show(self, commit: str, form: str) -> str:
        """Return the output of ``git log --format`` for one commit.

        :param form: the format
        :raises InputError: the commit is unknown
        """
        return self._ask("log", "-1", f"--format={form}", "--encoding=UTF-8", commit, "--")

    def find_release(self, commit: str) -> str | None:
        """Return the newest release of mainline in the history of a commit: ``v6.18-rc3``.

        None if the repository has no such tag.

        :raises InputError: git does not finish in time
        """
        ran = self._run("describe", "--tags", "--abbrev=0", *_RELEASES, "--end-of-options", commit)
        return ran.stdout.strip() or None

    def read_file(self, commit: str, name: str, most_bytes: int) -> str:
        """Return the content of a file of a commit.

        :raises InputError: there is no such file, or it is too large
        """
        size = self._ask("cat-file", "-s", "--end-of-options", f"{commit}:{name}")
        if int(size) > most_bytes:
            raise InputError(
                f"{commit[:HASH_DIGITS]}:{name}: {size} bytes (expected at most {most_bytes}); "
                "name another commit"
            )
        return self._read("cat-file", "blob", "--end-of-options", f"{commit}:{name}")

    def changed_files(self, commit: str) -> list[str]:
        """Return the files that a commit changes; for a merge, those that differ from every parent.

        :raises InputError: the commit is unknown
        """
        printed = self._read("diff-tree", *_DIFF, "--name-only", "-z", "--end-of-options", commit)
        return [name for name in printed.split("\0") if name]

    def patch(self, commit: str) -> str:
        """Return the patch of a commit; files above 1 MiB count as binary.

        :raises InputError: the commit is unknown
        """
        return self._read("-c", "core.bigFileThreshold=1m", "diff-tree", *_DIFF, "--patch",
                          "--end-of-options", commit)  # fmt: skip

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return whether ``older`` is ``newer`` or in its history; False if one is unknown.

        :raises InputError: git does not finish in time
        """
        return not self._run("merge-base", "--is-ancestor", older, newer).returncode

    def _commit(self, commit: str) -> Commit:
        return Commit(hash=commit, subject=clean_line(self.show(commit, "%s")))

    def borrow(self, folder: Path) -> "Checkouts":
        """Return a repository that borrows all objects of this one.

        :param folder: directory for the repository and its check-outs; created if missing
        :raises InputError: the repository cannot be created
        """
        return Checkouts(folder, self._objects)

    def _ask(self, *arguments: str) -> str:
        return self._read(*arguments).strip()

    def _read(self, *arguments: str) -> str:
        ran = self._run(*arguments)
        if ran.returncode:
            raise InputError(f"--repo {self._path}: {reason_of(ran.stderr)}")
        return ran.stdout

    def _run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_git(self._path, arguments)


class Revert(Struct, frozen=True, kw_only=True):
    """A commit that reverts another one, or why there is none.

    :param commit: its hash; None if it does not revert
    :param reason: why not; None if it reverts
    """

    commit: str | None
    reason: str | None


class Checkouts:
    """Check-outs of commits in a separate repository, which borrows the user's objects.

    :param folder: directory for the repository and the check-outs
    :param objects: the directory ``objects`` of the user's repository
    :raises InputError: the repository cannot be created
    """

    def __init__(self, folder: Path, objects: Path) -> None:
        self._folder = folder = folder.absolute()
        self._path = folder / "repository"
        if not self._path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            self._do(folder, "init", "--quiet", "--bare", "--template=", str(self._path))
        info = self._path / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(f"{objects.resolve()}\n")
        shallow = objects.parent / "shallow"
        if shallow.is_file():
            shutil.copyfile(shallow, self._path / "shallow")

    def has(self, name: str) -> bool:
        """Return whether there is a check-out of this name."""
        return (self._folder / name).exists()

    def move(self, name: str, commit: str) -> Path:
        """Check a commit out into a directory that may have another commit; return the directory.

        Files that are not of a commit, e.g. objects, stay, and files that are equal in both commits
        keep their times.

        :param name: name of the directory
        :raises InputError: git fails
        """
        tree = self._folder / name
        if not self.has(name):
            return self.add(name, commit)
        self._do(tree, "checkout", "--quiet", "--detach", "--force", commit, "--")
        return tree

    def add(self, name: str, commit: str) -> Path:
        """Check a commit out; return its directory.

        :param name: name of the directory; a previous check-out there is removed
        :raises InputError: git fails
        """
        tree = self._folder / name
        self.remove(name)
        self._do(
            self._path,
            "worktree",
            "add",
            "--quiet",
            "--detach",
            # Twice: git locks a check-out while it makes it, and a kill leaves it locked.
            "--force",
            "--force",
            str(tree.resolve()),
            commit,
        )
        return tree

    def tree_of(self, commit: str) -> str:
        """Return the hash of a commit's tree.

        :raises InputError: the commit is unknown
        """
        ran = run_git(
            self._path, ["rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}"]
        )
        if ran.returncode:
            raise InputError(f"{self._path}: {reason_of(ran.stderr)}")
        return ran.stdout.strip()

    def apply(self, tree: Path, mailbox: Path) -> str:
        """Apply patches to a check-out; return the hash of the last commit.

        Dates are taken from the patches and the committer is always the same, so that the hashes
        are reproducible.

        :param tree: directory of the check-out
        :param mailbox: file with the patches
        :raises InputError: a patch does not apply
        """
        ran = run_git(
            tree,
            [*_IDENTITY, "am", "--quiet", "--committer-date-is-author-date", "--no-gpg-sign",
             "--", str(mailbox.resolve())],
            limit_s=_CHECKOUT_LIMIT_S,
        )  # fmt: skip
        if ran.returncode:
            reason = reason_of(f"{ran.stderr}\n{ran.stdout}")
            raise InputError(f"the patches do not apply to base ({reason}); choose another base")
        return run_git(tree, ["rev-parse", "HEAD"]).stdout.strip()

    def revert(self, tip: str, commit: str, parent: str) -> "Revert":
        """Create a commit that reverts another one on top of a third, without a check-out.

        :param tip: hash of the commit that becomes the parent of the new one
        :param commit: hash of the commit to revert, or of the last one of several
        :param parent: hash of the commit before it, or before them
        :return: the new commit, whose hash is the same at each call, or why there is none
        :raises InputError: a commit is unknown, or git is too old
        """
        # The change from the commit to its parent is merged into the tip.
        when = run_git(self._path, ["log", "-1", "--format=@%ct +0000", tip, "--"]).stdout.strip()
        base = self._commit_tree(commit, [], "before the revert", when)
        sides = [self._commit_tree(each, [base], "revert", when) for each in (tip, parent)]
        merged = run_git(
            self._path,
            ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", *sides],
        )
        if merged.returncode not in {0, 1}:
            raise InputError(
                f"{self._path}: git merge-tree failed ({reason_of(merged.stderr)}); install git "
                "2.38 or newer"
            )
        tree, *conflicts = merged.stdout.split("\0")[:-1]
        if merged.returncode:
            names = list_some(list(dict.fromkeys(map(clean_line, conflicts))), _MOST_CONFLICTS)
            return Revert(commit=None, reason=f"does not revert: CONFLICT in {names}")
        if tree == self.tree_of(tip):
            return Revert(commit=None, reason="nothing to revert: its change is not there any more")
        subject = run_git(self._path, ["log", "-1", "--format=%s", commit, "--"]).stdout.strip()
        reverted = self._commit_tree(tree, [tip], f'Revert "{subject}"', when)
        return Revert(commit=reverted, reason=None)

    def _commit_tree(self, tree: str, parents: Sequence[str], message: str, when: str) -> str:
        """Create a commit; return its hash, which depends on the arguments only."""
        made = run_git(
            self._path,
            [*_IDENTITY, "commit-tree", "--no-gpg-sign", "-m", message,
             *(word for parent in parents for word in ("-p", parent)), f"{tree}^{{tree}}"],
            variables={"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when},
        )  # fmt: skip
        if made.returncode:
            raise InputError(f"{self._path}: git commit-tree failed ({reason_of(made.stderr)})")
        return made.stdout.strip()

    def remove(self, name: str) -> None:
        """Remove a check-out; do nothing if there is none.

        :param name: name of its directory

        :raises InputError: git does not finish in time
        """
        shutil.rmtree(self._folder / name, ignore_errors=True)
        run_git(self._path, ["worktree", "prune"])

    def as_repository(self) -> Repository:
        """Return this repository, to read commits that patches created.

        :raises InputError: git cannot read the repository
        """
        return Repository(self._path)

    def _do(self, folder: Path, *arguments: str) -> None:
        ran = run_git(folder, arguments, limit_s=_CHECKOUT_LIMIT_S)
        if ran.returncode:
            raise InputError(f"{folder}: git {arguments[0]} failed ({reason_of(ran.stderr)})")


def run_git(
    folder: Path,
    arguments: Sequence[str],
    limit_s: float = _GIT_LIMIT_S,
    variables: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run git without hooks, pagers, prompts, network and the user's configuration.

    Of the user's and the system's configuration, only ``safe.directory`` has an effect. That of the
    repository is used, except settings that start programs or change the output.

    :param limit_s: time limit in s
    :param variables: further variables of the environment
    :return: the finished process; its exit status is not checked
    :raises InputError: git is missing or times out
    """
    try:
        return subprocess.run(
            git_words(folder, arguments),
            env={**clean_environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        raise InputError("git: not found; run: apt-get install -y git") from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{folder}: git did not finish within {limit_s:.0f} s; try again"
        ) from None


def git_words(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Return the command line that :func:`run_git` uses."""
    trusted = (word for each in trusted_directories() for word in ("-c", f"{_TRUSTED}={each}"))
    return ["git", "-C", str(folder), "--no-pager", *_OPTIONS, *trusted, *arguments]


@cache
def trusted_directories() -> tuple[str, ...]:
    """Return the repositories of other users that this user's git may read: ``safe.directory``."""
    found: list[str] = []
    for level in ("--system", "--global"):
        words = ["git", "config", level, "--null", "--type=path", "--get-all", _TRUSTED]
        with suppress(OSError, subprocess.TimeoutExpired):
            ran = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_LIMIT_S,
                check=False,
            )  # fmt: skip
            found += map(os.fsdecode, ran.stdout.split(b"\0")[:-1])
    return tuple(found)


def clean_environment() -> Mapping[str, str]:
    """Return the environment in which git runs: PATH, TMPDIR, SUDO_UID and fixed settings."""
    # With SUDO_UID, git trusts the repositories of the user who called sudo.
    names = ("PATH", "TMPDIR", "SUDO_UID")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        # Older versions still fetch missing objects, so all protocols are disabled.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_ATTR_NOSYSTEM": "1",
    }


def _without_login(url: str) -> str:
    """Return a URL without user and password.

    >>> _without_login("https://me:secret@git.example.org/linux.git")
    'https://git.example.org/linux.git'
    """
    return re.sub(r"^(\w+://)[^/]*@", r"\1", url.strip())


def reason_of(output: str) -> str:
    """Return the line of git's output that states what is wrong, without its prefix.

    It is the first error, else the first line, else "no message"; at most 200 characters.
    """
    lines = [clean_line(line) for line in output.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    text = (named or lines or ["no message"])[0]
    return text.removeprefix("fatal: ").removeprefix("error: ")[:200]
