# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of a workload: which files its words name, and their checksums."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf_collectors.recorder.programs import describe_programs


def names(command: Sequence[str]) -> list[str]:
    return [program["name"] for program in describe_programs(command)]


def test_a_program_has_the_checksum_of_its_file() -> None:
    path = shutil.which("ls")
    assert path is not None
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    assert describe_programs(["ls", "-l"]) == [{"name": "ls", "sha256": digest}]


def test_wrappers_and_shell_commands_are_looked_through() -> None:
    assert names(["env", "A=ls", "nice", "-n", "5", "ls"])[:3] == ["env", "nice", "ls"]
    assert names(["sh", "-c", "cat x | sort; ls >/dev/null"]) == ["sh", "cat", "sort", "ls"]


def test_a_script_comes_with_its_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = Path("run.sh")
    script.write_text("#!/usr/bin/env sh\ntrue\n")
    script.chmod(0o755)
    assert names(["./run.sh"]) == ["run.sh", "sh"]
    Path("plain.sh").write_text("true\n")
    assert names(["sh", "plain.sh"]) == ["sh", "plain.sh"]


def test_what_is_no_readable_file_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    words = [str(tmp_path / "fifo"), str(tmp_path), "/nonexistent", "'unbalanced quote", "\udcff"]
    assert names(words) == []
    assert names(["true"] * 10_000) == ["true"]
