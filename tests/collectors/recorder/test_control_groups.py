# SPDX-License-Identifier: GPL-2.0-or-later
"""Cgroups that setups create are found and removed, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedperf_collectors.recorder.control_groups import (
    CgroupMount,
    all_cgroups,
    cgroup_folders,
    cgroup_mounts,
    folder_on,
    new_cgroups,
    remove_cgroups,
)

pytestmark = pytest.mark.system


def test_a_line_of_cgroup_names_a_folder_of_its_hierarchy() -> None:
    version_1 = CgroupMount(frozenset({"rw", "cpu", "cpuacct"}), "/", Path("/cg/cpu"))
    version_2 = CgroupMount(None, "/", Path("/cg"))
    inside = CgroupMount(None, "/docker/1", Path("/cg"))
    assert folder_on(version_1, "cpu,cpuacct", "/a/b") == Path("/cg/cpu/a/b")
    assert folder_on(version_1, "memory", "/a/b") is None
    assert folder_on(version_1, "", "/a/b") is None
    assert folder_on(version_2, "", "/a/b") == Path("/cg/a/b")
    assert folder_on(version_2, "cpu", "/a/b") is None
    assert folder_on(inside, "", "/docker/1/a") == Path("/cg/a")
    assert folder_on(inside, "", "/docker/1") == Path("/cg")
    assert folder_on(inside, "", "/docker/12") is None


def test_our_own_control_groups_exist() -> None:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    folders = cgroup_folders(lines)
    assert bool(folders) == bool(cgroup_mounts())
    assert folders <= all_cgroups()
    assert all((folder / "cgroup.procs").exists() for folder in folders)


def test_nothing_that_existed_before_is_removed() -> None:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    before = all_cgroups()
    assert new_cgroups(lines, before) == []
    assert remove_cgroups([]) == []
    assert all_cgroups() >= {folder for folder in before if folder.parent == Path("/sys/fs/cgroup")}


def test_a_line_that_leads_out_of_the_hierarchy_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert new_cgroups([f"0::/../../../..{tmp_path}/folder"], set()) == []
