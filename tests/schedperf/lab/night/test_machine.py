# SPDX-License-Identifier: GPL-2.0-or-later
"""What a night asks its machine: kernels, the proof of its boots, a program."""

from pathlib import Path

import pytest

from schedperf.lab.night import machine
from schedperf.lab.night.machine import Target
from schedperf.lab.night.state import NightError


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return this machine, reached by a shell instead of ssh."""
    shell = tmp_path / "ssh"
    shell.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nexec sh -c "$3"\n')
    shell.chmod(0o755)
    monkeypatch.setenv("SCHEDPERF_SSH", str(shell))
    monkeypatch.setattr(machine, "PROOF", tmp_path / "proof.json")
    return Target("ssh:lab")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "not tested by a boot"),
        ("{", "not tested by a boot"),
        ("[]", "not tested by a boot"),
        ('{"state": "armed", "hook": "grub-reboot"}', "has not been checked"),
        ('{"state": "proved", "hook": "bootctl"}', "tested for the hook bootctl only"),
        ('{"state": "failed", "hook": "x", "text": "a\\nb\\u202e"}', "test failed: a b"),
        (f'{{"state": {"[" * 9000}', "not tested by a boot"),
    ],
)
def test_unproven_boots(target: Target, tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "proof.json").write_text(content)
    with pytest.raises(NightError) as error:
        target.check_proof("grub-reboot")
    assert said in str(error.value)
    assert "doctor --boot grub-reboot --prove" in str(error.value)
    assert str(error.value).isprintable()


def test_proven_boots(target: Target, tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_text('{"state": "proved", "hook": "grub-reboot"}')
    target.check_proof("grub-reboot")
    target.check_proof("auto")


def test_hook_of_the_controller_needs_no_proof(target: Target) -> None:
    target.check_proof("command:/srv/hook")


def test_program(target: Target, tmp_path: Path) -> None:
    program = tmp_path / "a program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    first = target.hash_of(str(program))
    program.write_text("#!/bin/sh\n:\n")
    assert target.hash_of(str(program)) != first
    with pytest.raises(NightError, match="no such program"):
        target.hash_of("$(reboot)")


def test_installed_kernels(target: Target) -> None:
    for kernel in target.kernels():
        assert kernel.installed_s > 0


def test_images(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "IMAGES", machine.IMAGES.replace("/boot/", f"{tmp_path}/"))
    (tmp_path / "vmlinuz-6.18.0").write_text("one")
    (tmp_path / "vmlinuz-6.19.0").write_text("two")
    images = target.images(["6.18.0", "6.19.0", "6.20.0", "$(reboot)"])
    assert list(images) == ["6.18.0", "6.19.0"]
    assert len(set(images.values())) == 2


def test_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDPERF_SSH", "sh -c 'echo no route >&2; exit 255'")
    with pytest.raises(NightError) as error:
        Target("ssh:root@lab").kernels()
    assert "ssh:root@lab: not reachable (no route); check with `ssh root@lab true`" in str(
        error.value
    )
    with pytest.raises(NightError, match="check with `ssh -p 2222 root@lab true`"):
        Target("ssh:root@lab:2222").kernels()
    with pytest.raises(NightError, match="invalid target"):
        Target("ssh:a b")
