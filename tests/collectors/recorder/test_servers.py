# SPDX-License-Identifier: GPL-2.0-or-later
"""The server of a workload is found at the start, stored, and repeated by rerun."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.machine.processes import read_process
from schedperf_collectors.recorder import servers
from schedperf_collectors.recorder.control_groups import CgroupMount
from schedperf_collectors.recorder.options import collectors_of_options, make_parser
from schedperf_collectors.recorder.servers import FoundServer, find_server

pytestmark = pytest.mark.system


def find(*words: str) -> FoundServer | None:
    return find_server(make_parser("record", "schedperf").parse_args(["-o", "a.tar", *words]))


@pytest.fixture
def server() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "999"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def group(tmp_path: Path, server: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory like that of a cgroup, on a mount of which ``tmp_path`` is the root."""
    for controllers, name in ((frozenset({"cpuset"}), "cpuset"), (None, "unified")):
        folder = tmp_path / name / "system.slice" / "db.service"
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(f"{server}\n" if controllers is None else "")
    mounts = [
        CgroupMount(frozenset({"cpuset"}), "/", tmp_path / "cpuset"),
        CgroupMount(None, "/", tmp_path / "unified"),
    ]
    monkeypatch.setattr(servers, "cgroup_mounts", lambda: mounts)
    return tmp_path / "unified" / "system.slice" / "db.service"


def answer(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a systemctl on PATH."""
    program = folder / "systemctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_an_option_there_is_no_server() -> None:
    assert find() is None


def test_a_process_is_found_with_its_start(server: int) -> None:
    found = find("--workload-pid", str(server))
    assert found is not None
    assert found.text == "process sleep"
    assert found.server.pids == {server: read_process(server).began_ticks}
    assert found.server.cgroups == ()
    assert [name for name, _, _ in found.settings] == ["account", "account"]


def test_a_cgroup_is_given_by_its_path_in_the_hierarchy_or_its_directory(group: Path) -> None:
    for path in ("/system.slice/db.service", str(group)):
        found = find("--workload-cgroup", path)
        assert found is not None
        assert found.server.cgroups == (str(group),)
        assert found.text == f"cgroup {path}"


def test_a_unit_is_found_by_its_cgroup(
    group: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(tmp_path, monkeypatch, 'test "$4" = db && echo ControlGroup=/system.slice/db.service')
    found = find("--workload-unit", "db")
    assert found is not None
    assert (found.server.cgroups, found.text) == ((str(group),), "unit db")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo ControlGroup=", "no such unit, or it is not active; see `systemctl status db`"),
        ("echo Host is down >&2; exit 1", "cannot ask systemd (Host is down); give --workload-"),
        ("echo ControlGroup=/gone", "no such cgroup (expected a directory"),
    ],
)
def test_a_unit_that_is_not_active_is_refused(
    group: Path, script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert group.is_dir()
    answer(tmp_path, monkeypatch, script)
    with pytest.raises(RecordError) as error:
        find("--workload-unit", "db")
    assert str(error.value).startswith("--workload-unit db: ")
    assert said in str(error.value)


def test_an_empty_cgroup_and_that_of_the_recorder_are_refused(group: Path) -> None:
    for content, said in (("", "no process in it"), (f"{os.getpid()}\n", "this recorder is in it")):
        (group / "cgroup.procs").write_text(content)
        with pytest.raises(RecordError, match=f"^--workload-cgroup {group}: {said}"):
            find("--workload-cgroup", str(group))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload-pid", str(2**22 + 1)), f"--workload-pid {2**22 + 1}: no such process; give"),
        (("--workload-pid", "1"), "--workload-pid 1: this recorder is in it; give only the"),
        (("--workload-pid", "x"), "--workload-pid: invalid number 'x'"),
        (("--workload-unit", "a b"), "--workload-unit: invalid unit 'a b' (expected a name, e.g."),
        (("--workload-unit=-H",), "--workload-unit: invalid unit '-H'"),
        (("--workload-cgroup", "db"), "--workload-cgroup: invalid cgroup 'db' (expected an abs"),
        (("--workload-cgroup", "/gone"), "--workload-cgroup /gone: no such cgroup (expected a dir"),
        (
            ("--workload-pid", "2", "--without", "account"),
            "--without account: --workload-pid needs this collector; omit one of the two",
        ),
    ],
)
def test_a_server_that_is_not_there_is_refused_in_one_line(
    recorder: Any, words: tuple[str, ...], said: str
) -> None:
    done = recorder("record", "-o", "b.tar", *words, "--", "true")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert said in line
    assert not (recorder.folder / "b.tar").exists()


def test_pids_are_refused_for_other_boots(recorder: Any) -> None:
    boots = ("--kernel", "a=6.1", "--kernel", "b=6.2", "--on", "ssh:nowhere")
    done = recorder("ab", "-o", "x/", *boots, "--workload-pid", "1", "--", "true")
    assert done.returncode == 2
    assert "--workload-pid: cannot be combined with --kernel" in done.stderr


def test_a_server_needs_the_collector_of_the_account() -> None:
    parser = make_parser("ab", "schedperf")
    given = parser.parse_args(["-o", "x/", "--with", "none", "--workload-unit", "db"])
    assert collectors_of_options(given) == {"account": "--workload-unit"}


def test_the_server_is_in_the_bundle_and_runs_without_it_are_not_added(
    recorder: Any, server: int, read_bundle: Any
) -> None:
    given = ("--workload-pid", str(server))
    quick = ("-n", "1", "--warmup", "0", "--with", "none")
    done = recorder("record", "-o", "b.tar", *quick, *given, "--", "true")
    if "taskstats" in done.stderr:
        assert done.returncode == 2
        assert "schedperf: error: --workload-pid: " in done.stderr
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    written = read_bundle(recorder.folder / "b.tar")
    assert written.manifest["server"] == "process sleep"
    assert written.runs[0]["server"] == "process sleep"
    assert written.json("boots/0/runs/000/account/account.json")["server"]["tasks"] == 1
    assert written.manifest["recordings"][0]["command"][-4:] == [*given, "--", "true"]
    refused = recorder("record", "--append", "b.tar", *quick, "--", "true")
    assert refused.returncode == 2
    assert "b.tar: recorded with the tasks of a server (process sleep); give" in refused.stderr
    assert recorder("record", "--append", "b.tar", *quick, *given, "--", "true").returncode == 0
    # Another side without the server.
    assert recorder("record", "-o", "c.tar", *quick, "--", "true").returncode == 0
    bundles = [open_bundle(recorder.folder / name) for name in ("b.tar", "c.tar")]
    assert bundles[0].server == "process sleep"
    compared = compare_bundles(bundles)
    [found] = [each for each in compared.comparability.differences if each.path == "server"]
    assert (found.base, found.new, found.severity) == ("process sleep", None, "noted")
