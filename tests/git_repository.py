# SPDX-License-Identifier: GPL-2.0-or-later
"""Run git in the repository of a test."""

import subprocess
from collections.abc import Callable
from pathlib import Path

Git = Callable[..., str]


def init_git(folder: Path) -> Git:
    """Create a repository with the branch main; return a function that runs git in it."""
    folder.mkdir()

    def run(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        return subprocess.run(
            ["git", "-C", str(folder), *identity, *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    return run
