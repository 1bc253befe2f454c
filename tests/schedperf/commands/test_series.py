# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf series``: requests that cannot be fulfilled end in one line, before any build."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86"
)
GUEST = ("--accel", "tcg", "-o", "out")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--", "true"], "invalid range of commits"),
        (["v1...v2", "--repo", ".", "--", "true"], "invalid range of commits"),
        (["..v2", "--repo", ".", "--", "true"], "invalid range of commits"),
        (["v1..v2", "--", "true"], "--repo: missing"),
        (["v1..v2", "--repo", ".", "--", "true"], "--config: missing"),
        (["v1..v2", "--repo", "gone", "--build", "make", "--", "true"], "no such directory"),
        (["v1..v2", "--repo", ".", "--build", "make", "--", "true"], "not a git repository"),
        (["v1..v2", "--repo", ".", "--build", "make"], "no command given"),
        (["--built", "a=b", "--", "true"], "--built: 1 kernel(s) given"),
        (["--built", "a=x", "--built", "a=y", "--", "true"], "given twice"),
        (["--built", "a=x", "--built", "b=y", "--", "true"], "x: no kernel image"),
        (["--built", "a=x", "--patch", "a@b", "--", "true"], "given together"),
        (["--built", "a=x", "--built", "b=y", "--format", "pdf", "--", "true"], "unknown format"),
        (["v1..v2", "--built", "a=x", "--built", "b=y", "--", "true"], "range of commits is given"),
        (["v1..v2", "--each", "--", "true"], "given without --patch"),
    ],
)
def test_bad_requests_end_in_one_line(
    run_cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: Sequence[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_cli("series", *GUEST, *arguments)
    assert ran.returncode == 2
    errors = [line for line in ran.stderr.splitlines() if "error: " in line]
    assert len(errors) == 1
    assert problem in errors[0]
    assert "Traceback" not in ran.stderr
