# SPDX-License-Identifier: GPL-2.0-or-later
"""A public-inbox on this machine, with a home directory of its own, which b4 asks."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def make_home(path: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> Path:
    """Make a home directory without an identity of git and a cache of b4; skip without programs."""
    for program in ("b4", "public-inbox-init", "public-inbox-httpd", *programs):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install b4 public-inbox")
    path.mkdir()
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(path / name))
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("PI_CONFIG", str(path / "config"))
    (path / "config").write_text(
        "[publicinboxmda]\nspamcheck = none\n[publicinboxwatch]\nspamcheck = none\n"
    )
    return path


def make_inbox(home: Path, name: str, address: str) -> None:
    """Make an empty inbox, which has a full-text index."""
    inbox = (name, str(home / name), f"http://127.0.0.1/{name}", address)
    subprocess.run(["public-inbox-init", "-V2", *inbox], check=True, capture_output=True)


def add_message(address: str, text: str) -> None:
    """Deliver a message to the inbox of an address."""
    subprocess.run(
        ["public-inbox-mda", "--no-precheck"],
        input=text,
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "ORIGINAL_RECIPIENT": address},
    )


@contextmanager
def running_httpd() -> Iterator[str]:
    """Serve all inboxes of the home directory; yield the address: ``http://127.0.0.1:PORT``."""
    command = ["public-inbox-httpd", "-l", "127.0.0.1:0", "-W0"]
    with running(*command) as server:
        assert server.stderr is not None
        bound = re.search(r"http://127\.0\.0\.1:[0-9]+", server.stderr.readline())
        assert bound is not None
        yield bound[0]


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a daemon of public-inbox."""
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
