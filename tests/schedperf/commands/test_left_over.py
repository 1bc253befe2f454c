# SPDX-License-Identifier: GPL-2.0-or-later
"""What a killed recording left is said by the next command, also by one that records nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf_collectors.recorder.journal import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep journals in a folder of the test."""
    folder = tmp_path / "journals"
    monkeypatch.setattr("schedperf.commands._left_over.journal_folder", lambda: folder)
    return folder


@pytest.mark.parametrize("command", ["compare", "show"])
def test_commands_that_record_nothing_say_it_too(
    make_bundle: Callable[..., Path],
    journals: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    command: str,
) -> None:
    bundles = [make_bundle(tmp_path / f"{name}.tar", label=name) for name in ("base", "new")]
    arguments = [command, *map(str, bundles[: 2 if command == "compare" else 1])]
    main(arguments)
    assert "a killed recording" not in capsys.readouterr().err
    value = tmp_path / "value"
    value.write_text("60\n")
    with Journal({value: "60"}, journals):
        [journal] = journals.iterdir()
        content = journal.read_bytes()
    journal.write_bytes(content)
    value.write_text("61\n")
    if command == "show":
        # As with a full /run.
        monkeypatch.chdir(tmp_path)
        journal.rename("schedperf-ab-1.jsonl")
    main(arguments)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("schedperf: warning: a killed recording left ")
    assert f"echo 60 > {value}" in line
