# SPDX-License-Identifier: GPL-2.0-or-later
"""Ask the kernel's repository: who maintains what a commit changes, and what undoes a commit."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from schedperf.culprit.record import COMMIT_DIGITS
from schedperf.mail.recipients import Maintainers, parse_maintainers
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

_LIMIT_S = 60.0
_SCRIPT = "scripts/get_maintainer.pl"
_NEEDED = (_SCRIPT, "MAINTAINERS")
# A configuration must not start programs.
_GIT = ("-c", "core.fsmonitor=false", "-c", "core.pager=cat", "-c", "log.showSignature=false")


def ask_get_maintainer(repository: Path, commit: str) -> Maintainers:
    """Run the get_maintainer.pl of a commit's own tree, without git history.

    :raises InputError: the tree has none, or it fails
    """
    where = f"--repo {repository}"
    with tempfile.TemporaryDirectory() as folder:
        for name in _NEEDED:
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(
                _git(repository, where, "show", "--end-of-options", f"{commit}:{name}")
            )
        patch = _git(
            repository, where, "show", "--format=", "--no-ext-diff", "--no-textconv", commit
        )
        words = ["perl", _SCRIPT, "--no-tree", "--no-git", "--no-git-fallback", "--roles", "-"]
        printed = _run(words, where, folder=Path(folder), given=patch)
    return parse_maintainers(printed.decode("utf-8", "replace").splitlines())


def find_undoing(repository: Path, commit: str) -> list[str]:
    """Return the commits since then, up to HEAD, that revert a commit or fix it.

    :raises InputError: the repository lacks the commit
    """
    printed = _git(
        repository, f"--repo {repository}", "log", "--format=%H", "--fixed-strings",
        f"--grep=This reverts commit {commit}",
        f"--grep=Fixes: {commit[:COMMIT_DIGITS]}",
        f"{commit}..HEAD", "--",
    )  # fmt: skip
    return printed.decode("ascii", "replace").split()


def _git(repository: Path, where: str, *words: str) -> bytes:
    return _run(["git", "-C", str(repository), *_GIT, *words], where)


def _run(
    words: Sequence[str], where: str, *, folder: Path | None = None, given: bytes = b""
) -> bytes:
    try:
        ran = subprocess.run(
            words, cwd=folder, input=given, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{where}: {words[0]} failed ({clean_line(str(error))[:80]})") from None
    if ran.returncode:
        said = clean_line(ran.stderr.decode("utf-8", "replace"))[:120]
        raise InputError(
            f"{where}: {words[0]} failed ({said or f'exit status {ran.returncode}'}; expected a "
            f"kernel tree with {_SCRIPT}); name another, or leave out --repo"
        )
    return ran.stdout
