# SPDX-License-Identifier: GPL-2.0-or-later
"""A program that an initial RAM disk needs and that is missing or fails is one line."""

from pathlib import Path

import pytest

from schedperf_generators.disk import tree
from schedperf_generators.disk.tree import CannotBuild, write_initrd

RELEASE = "6.1.0-50-cloud-amd64"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root file system without modules; programs are those of tmp_path/bin only."""
    root, programs = tmp_path / "root", tmp_path / "bin"
    programs.mkdir()
    (root / "boot").mkdir(parents=True)
    modules = root / "usr/lib/modules" / RELEASE
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text("")
    (programs / "busybox").write_text("")
    monkeypatch.setattr(tree, "_BUSYBOX", programs / "busybox")
    monkeypatch.setenv("PATH", str(programs))
    return root


def write_cpio(root: Path, script: str) -> None:
    program = root.parent / "bin" / "cpio"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_the_archive_is_written_byte_by_byte(root: Path) -> None:
    write_cpio(root, "printf '\\377\\000'; while read -r name; do printf %s $name,; done")
    write_initrd(root, root.parent, RELEASE)
    # The last name has no line break after it.
    packed = (root / "boot" / f"initrd.img-{RELEASE}").read_bytes()
    assert packed == b"\xff\0bin,bin/busybox,init,"


def test_a_missing_cpio(root: Path) -> None:
    with pytest.raises(CannotBuild, match=r"\Acpio is missing; install it\Z"):
        write_initrd(root, root.parent, RELEASE)


def test_a_failing_cpio(root: Path) -> None:
    write_cpio(root, "echo first >&2; echo no space left >&2; exit 2")
    with pytest.raises(CannotBuild, match=r"\Acpio fails: no space left\Z"):
        write_initrd(root, root.parent, RELEASE)


def test_a_missing_busybox(root: Path) -> None:
    (root.parent / "bin" / "busybox").unlink()
    with pytest.raises(CannotBuild, match=r"busybox is missing; install busybox-static\Z"):
        write_initrd(root, root.parent, RELEASE)
