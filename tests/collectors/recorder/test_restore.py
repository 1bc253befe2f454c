"""Which files of /proc/sys and which control groups are the recorder's to restore."""

from pathlib import Path

from schedperf_collectors.recorder.ab import differing_paths
from schedperf_collectors.recorder.restore import (
    CgroupMount,
    all_cgroups,
    cgroup_folders,
    cgroup_mounts,
    folder_on,
    read_sysctls,
    remove_new_cgroups,
    restore_sysctls,
)


def test_values_that_the_kernel_itself_moves_are_left_alone() -> None:
    values = read_sysctls()
    names = {str(path) for path in values}
    assert "/proc/sys/kernel/ns_last_pid" not in names
    assert not any(name.startswith("/proc/sys/kernel/random/") for name in names)
    assert all(name.startswith(("/proc/sys/kernel/", "/proc/sys/vm/")) for name in names)


def test_a_value_that_refuses_to_be_restored_is_told(tmp_path: Path) -> None:
    assert restore_sysctls({Path("/proc/sys/kernel/ostype"): b"Hurd\n"}) == [
        "/proc/sys/kernel/ostype: could not be restored; set it to 'Hurd'"
    ]
    (tmp_path / "value").write_text("2")
    assert restore_sysctls({tmp_path / "value": b"1", tmp_path / "gone": b"1"}) == []
    assert (tmp_path / "value").read_text() == "1"


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
    assert remove_new_cgroups(lines, before) == []
    assert all_cgroups() >= {folder for folder in before if folder.parent == Path("/sys/fs/cgroup")}


def test_a_line_that_leads_out_of_the_hierarchy_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert remove_new_cgroups([f"0::/../../../..{tmp_path}/folder"], set()) == []
    assert (tmp_path / "folder").is_dir()


def test_differences_are_dotted_paths() -> None:
    base = {"sched": {"hz": 250, "autogroup": 0}, "cgroup": {"path": "/"}, "tools": {"perf": None}}
    new = {"sched": {"hz": 250, "autogroup": 1}, "cgroup": {"path": "/a"}, "cpu": {"smt": 1}}
    assert differing_paths(base, new) == ["cgroup.path", "cpu", "sched.autogroup", "tools"]
    assert differing_paths(base, base) == []
