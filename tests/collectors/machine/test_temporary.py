# SPDX-License-Identifier: GPL-2.0-or-later
"""Temporary directories of killed processes are removed, and no others."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from schedperf_collectors.contract import temporary_prefix
from schedperf_collectors.machine.temporary import remove_abandoned


def test_only_what_killed_processes_of_this_user_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = Path(tempfile.mkdtemp(prefix=temporary_prefix()))
    child = os.fork()
    if child == 0:
        Path(tempfile.mkdtemp(prefix=temporary_prefix()), "file").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    [left] = set(tmp_path.iterdir()) - {own}
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = {own, outside}
    _, _, namespace, boot, _ = left.name.split("-")
    assert len(boot) == 8
    # Another PID namespace, another machine, a name of other programs, a link, a file.
    for name in (
        f"schedperf-{child}-1-{boot}-abcdefgh",
        f"schedperf-{child}-{namespace}-{boot[::-1]}-abcdefgh",
        f"schedperf-{child}-{namespace}-abcdefgh",
        f"other-{child}-{namespace}-{boot}-abcdefgh",
    ):
        (tmp_path / name).mkdir()
        kept.add(tmp_path / name)
    link = tmp_path / f"schedperf-{child}-{namespace}-{boot}-link"
    link.symlink_to(outside)
    file = tmp_path / f"schedperf-{child}-{namespace}-{boot}-file"
    file.touch()
    kept |= {link, file}
    if os.geteuid() == 0:
        foreign = tmp_path / f"schedperf-{child}-{namespace}-{boot}-foreign"
        foreign.mkdir()
        os.chown(foreign, 65534, 65534)
        kept.add(foreign)
    remove_abandoned()
    assert set(tmp_path.iterdir()) == kept
