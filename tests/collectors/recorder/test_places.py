# SPDX-License-Identifier: GPL-2.0-or-later
"""``ab --probe session``: places as the scheduler sees them, and what could not be tried."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._zipapp import write_zipapp
from schedperf_collectors.machine.system import System
from schedperf_collectors.recorder.control_groups import remove_cgroups
from schedperf_collectors.recorder.places import AUTOGROUP, find_session_places

PID = 42
V2 = "25 1 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
SESSION = "/user.slice/user-1000.slice/session-3.scope"
GROUP = "sys/fs/cgroup"
TABLE = Path("/sys/kernel/debug/sched/debug")
PRIVILEGED = Path(AUTOGROUP)
NOBODY = 65534
PYTHON = "/usr/bin/python3"
QUICK = ("-n", "2", "--warmup", "0", "--with", "none")
# The task group in which the scheduler has the first process of the command, which is the shell.
PRINT_GROUP = f"""awk -v pid=$$ '$3 == pid {{ print $NF }}' {TABLE}"""


def machine(
    mounts: str, cgroup: str, *, autogroup: str | None = "1", **files: str
) -> dict[str, str]:
    switch = {} if autogroup is None else {AUTOGROUP[1:]: f"{autogroup}\n"}
    return {
        "proc/self/mountinfo": mounts,
        f"proc/{PID}/cgroup": cgroup,
        f"{GROUP}/cgroup.procs": "",
        f"{GROUP}/cpu/cgroup.procs": "",
        **switch,
        **files,
    }


def controllers(*paths: str) -> dict[str, str]:
    return {f"{GROUP}{path}/cgroup.controllers": "cpuset cpu memory\n" for path in paths}


IN_SESSION = controllers(
    "/user.slice", "/user.slice/user-1000.slice", "/user.slice/user-1000.slice/session-3.scope"
)


@pytest.mark.parametrize("first", ["0", "1"])
def test_a_session_has_four_places_and_its_own_is_the_first(
    make_system: Callable[..., System], first: str
) -> None:
    files = machine(V2, f"0::{SESSION}\n", autogroup=first, **IN_SESSION)
    places = find_session_places(make_system(files), PID)
    on, off = f"echo 1 > {AUTOGROUP}", f"echo 0 > {AUTOGROUP}"
    expected = [
        ("session-autogroup", on),
        ("session-noautogroup", off),
        ("root-autogroup", f"{on}; echo $$ > /sys/fs/cgroup/cgroup.procs"),
        ("root-noautogroup", f"{off}; echo $$ > /sys/fs/cgroup/cgroup.procs"),
    ]
    if first == "0":
        expected = [expected[i] for i in (1, 0, 3, 2)]
    assert [(each.name, each.setup) for each in places.tried] == expected
    assert places.not_tried == ()


@pytest.mark.parametrize(
    ("files", "names", "missing"),
    [
        (
            machine(V2, f"0::{SESSION}\n", autogroup=None, **IN_SESSION),
            ["session", "root"],
            [f"autogroup on and off: no {AUTOGROUP} (boot a kernel with CONFIG_SCHED_AUTOGROUP=y)"],
        ),
        (
            machine(V1, f"4:cpu,cpuacct:{SESSION}\n0::/elsewhere\n"),
            ["session-autogroup", "session-noautogroup", "root-autogroup", "root-noautogroup"],
            [],
        ),
        (
            machine(V1, "4:cpu,cpuacct:/\n0::/elsewhere\n"),
            ["root-autogroup", "root-noautogroup"],
            [("the user's session: this shell runs in the root cgroup (log in as the user, and run "
             "the command there)")],
        ),
        # The controller is passed on to no child of the root, so no process can be moved.
        (
            machine(V2, f"0::{SESSION}\n", **{f"{GROUP}/cgroup.subtree_control": "memory\n"}),
            ["root"],
            [("the user's session: the cpu controller is not enabled in "
             f"{SESSION}, so for the scheduler its tasks are in the root cgroup"),
             ("autogroup on and off: the cpu controller is not enabled in "
             "/sys/fs/cgroup/cgroup.subtree_control (run `echo +cpu > "
             "/sys/fs/cgroup/cgroup.subtree_control`)")],
        ),
        (
            machine("21 1 0:4 / /proc rw - proc proc rw\n", f"0::{SESSION}\n"),
            ["session"],
            ["the root cgroup, and autogroup on and off: cgroup version 2 is not mounted"],
        ),
        # A kernel without cgroups.
        (
            {},
            ["session"],
            [(f"the root cgroup, and autogroup on and off: /proc/{PID}/cgroup: no such file or "
             "directory")],
        ),
    ],
    ids=["no-autogroup", "version-1", "root", "controller-off", "not-mounted", "no-cgroups"],
)  # fmt: skip
def test_what_cannot_be_tried_is_said_with_its_reason(
    make_system: Callable[..., System], files: dict[str, str], names: list[str], missing: list[str]
) -> None:
    places = find_session_places(make_system(files), PID)
    assert [each.name for each in places.tried] == names
    assert list(places.not_tried) == missing


def test_a_container_has_no_root_cgroup_of_the_machine(make_system: Callable[..., System]) -> None:
    files = machine(V2, f"0::{SESSION}\n", **{**IN_SESSION, "proc/self/ns/cgroup": ""})
    places = find_session_places(make_system(files), PID)
    assert [each.name for each in places.tried] == ["session-autogroup", "session-noautogroup"]
    [line] = places.not_tried
    assert line.startswith("the root cgroup: this is a container, whose root cgroup is not that of")


@pytest.fixture
def session() -> Iterator[Path]:
    """A cgroup three levels deep, for this test's shell."""
    if os.geteuid() != 0 or not os.access(PRIVILEGED, os.W_OK):
        pytest.skip("needs root and a kernel with autogroup")
    if not TABLE.exists():
        pytest.skip(f"needs {TABLE}")
    point = Path("/sys/fs/cgroup/cpu")
    if not (point / "cgroup.procs").exists():
        pytest.skip("needs the cpu controller of cgroup version 1")
    top = point / f"schedperf-test-{os.getpid()}"
    folder = top / "user" / "scope"
    folder.mkdir(parents=True)
    before = PRIVILEGED.read_text()
    yield folder
    changed = PRIVILEGED.read_text() != before
    PRIVILEGED.write_text(before)
    # The last process of a killed recording may take a moment to end.
    assert remove_cgroups([folder, folder.parent, top]) == []
    assert not changed


def record_in(session: Path, recorder: Any, *arguments: str) -> Any:
    """Start the recorder in a cgroup."""

    def enter() -> None:
        (session / "cgroup.procs").write_text(f"{os.getpid()}")

    return recorder.start("ab", "--probe", "session", *QUICK, *arguments, preexec_fn=enter)


@pytest.mark.system
@pytest.mark.alone
def test_the_first_process_of_the_command_is_in_the_task_group_of_its_place(
    recorder: Any, read_bundle: Any, session: Path
) -> None:
    with record_in(session, recorder, "--", "sh", "-c", PRINT_GROUP) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    own = f"/{session.relative_to('/sys/fs/cgroup/cpu')}"
    for name, expected in (
        ("session-autogroup", own),
        ("session-noautogroup", own),
        ("root-autogroup", "/autogroup-"),
        ("root-noautogroup", "/"),
    ):
        bundle = read_bundle(recorder.folder / f"probe-{name}.tar")
        for number in range(2):
            group = bundle.members[f"boots/0/runs/00{number}/stdout"].decode().strip()
            assert group.rstrip("0123456789") == expected.rstrip("0123456789"), name


@pytest.mark.system
@pytest.mark.alone
def test_a_killed_probe_is_undone_by_ab_stop(
    recorder: Any, session: Path, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    before = PRIVILEGED.read_text()
    # It hangs in the place with the other setting, whatever the order.
    hang = f"[ $(cat {PRIVILEGED}) = {before.strip()} ] || {{ touch started; exec sleep 1414.3; }}"
    with record_in(session, recorder, "--", "sh", "-c", hang) as process:
        wait_for((recorder.folder / "started").exists)
        process.kill()
        process.communicate(timeout=240)
    assert PRIVILEGED.read_text() != before
    done = recorder("ab", "stop")
    assert done.returncode == 0, done.stderr
    assert str(PRIVILEGED) in done.stdout
    assert PRIVILEGED.read_text() == before
    assert "nothing is left" in recorder("ab", "status").stdout


@pytest.mark.system
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--probe", "shell"), "argument --probe: invalid choice: 'shell' (choose from"),
        (("--probe", "session", "--feature", "PLACE_LAG"),
         "--probe: cannot be combined with --feature; omit one of them"),
        (("--probe", "session", "--setup", "a=true"), "--probe: cannot be combined with --setup"),
        (("--probe", "session", "--base", "a.tar"), "--probe: cannot be combined with --base"),
        (("--probe", "session", "--kernel", "a=1", "--resume", "-o", "x"),
         "--probe: cannot be combined with --kernel"),
    ],
)  # fmt: skip
def test_options_that_contradict_are_one_line(
    recorder: Any, arguments: tuple[str, ...], problem: str
) -> None:
    done = recorder("ab", *arguments, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(recorder.folder) == ["tmp"]  # noqa: PTH208 # bare names


@pytest.fixture
def packed() -> Iterator[Path]:
    """The recorder as a file that all users can read, in a directory of that kind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        write_zipapp(folder / "collect.pyz")
        (folder / "collect.pyz").chmod(0o755)
        yield folder / "collect.pyz"


@pytest.mark.system
def test_an_ordinary_user_is_told_what_could_not_be_tried(packed: Path) -> None:
    if not Path(PYTHON).exists():
        pytest.skip(f"needs {PYTHON}")
    user: dict[str, Any] = (
        {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    done = subprocess.run(
        [PYTHON, "-I", str(packed), "ab", "--probe", "session", "--", "true"],
        capture_output=True, text=True, cwd=packed.parent, check=False, **user,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "schedperf: error: --probe session: this shell's place is the only one; not possible here: "
    )
    assert done.stderr.count("\n") == 1
    assert "run as root" in done.stderr or "boot a kernel" in done.stderr
