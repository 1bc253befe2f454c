# SPDX-License-Identifier: GPL-2.0-or-later
"""ssh to a target that stalls, fails, prints without end, or answers nonsense: one clear line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from schedperf_collectors.boots import target as target_module
from schedperf_collectors.boots.shell import OUTPUT_BYTES, Ssh, Unreachable
from schedperf_collectors.boots.target import Here, There
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.signals import signals


@pytest.fixture
def set_ssh(monkeypatch: pytest.MonkeyPatch) -> object:
    """Replace ssh by a shell script, which ignores its arguments."""
    monkeypatch.setenv("SCHEDPERF_TARGET", "")

    def replace(script: str) -> There:
        monkeypatch.setenv("SCHEDPERF_SSH", f"sh -c {shlex.quote(script)}")
        there = There(Ssh("lab"))
        monkeypatch.setattr(there, "_sudo", [])
        return there

    return replace


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exec sleep 60", "no answer within 0 s"),
        ("echo Connection refused >&2; exit 255", "Connection refused"),
        ("kill -KILL $$", "ssh ended with status -9"),
    ],
)
def test_a_connection_that_fails_is_one_line(
    monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("SCHEDPERF_SSH", f"sh -c {shlex.quote(script)}")
    with signals, pytest.raises(Unreachable) as error:
        Ssh("lab").run(["true"], limit_s=0.4 if "sleep" in script else 60)
    assert str(error.value) == said


def test_a_program_with_an_open_quote_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDPERF_SSH", "ssh -o 'User=root")
    with pytest.raises(RecordError) as error:
        Ssh("lab").run(["true"])
    assert str(error.value) == (
        'SCHEDPERF_SSH: invalid command "ssh -o \'User=root": no closing quotation (expected ssh '
        "and its options, e.g. 'ssh -F lab.conf'); correct it"
    )


def test_output_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDPERF_SSH", "sh -c 'head -c 50000000 /dev/zero'")
    with signals:
        assert len(Ssh("lab").run(["true"]).stdout) == OUTPUT_BYTES


@pytest.mark.parametrize(
    "answer",
    ["", "nonsense", "[1]", "{}", "[" * 9999, '{"boot_id": 5, "job": []}', '{"error": [1]}'],
)
def test_an_answer_that_is_none_is_one_line(set_ssh: object, answer: str) -> None:
    assert callable(set_ssh)
    there = set_ssh(f"printf %s {shlex.quote(answer)}; echo words >&2")
    with signals, pytest.raises(RecordError) as error:
        there.act("look")
    assert str(error.value).startswith("lab: ")
    assert "\n" not in str(error.value)


def test_a_disk_that_is_full_at_the_copy_keeps_the_older_bundle(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "BUNDLES", tmp_path)
    (tmp_path / "base.tar").write_bytes(b"first")
    path = small_disk / "night-base.tar"
    Here().fetch("base", path, 0o600)
    (tmp_path / "base.tar").write_bytes(b"more" * (8 << 20))
    with pytest.raises(RecordError) as error:
        Here().fetch("base", path, 0o600)
    assert str(error.value) == f"{path}: no space left on device; free space and continue"
    assert path.read_bytes() == b"first"
    assert [each.name for each in small_disk.iterdir()] == ["night-base.tar"]
    path = tmp_path / "none" / "night-base.tar"
    with pytest.raises(RecordError, match="no such file or directory; make it writable and cont"):
        Here().fetch("base", path, 0o600)
