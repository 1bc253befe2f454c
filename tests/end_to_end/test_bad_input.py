# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad input through the real command: one clear line, exit status 2 or 4, no traceback."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

MakeBundle = Callable[..., Path]
RunCli = Callable[..., subprocess.CompletedProcess[str]]
MakeMembers = Callable[..., dict[str, bytes]]
MakeTar = Callable[[Path, Iterable[tuple[str, bytes]]], Path]


def assert_one_line(done: subprocess.CompletedProcess[str], message: str, status: int = 2) -> None:
    assert done.returncode == status, done
    assert done.stderr.startswith("schedperf: error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def add_member(path: Path, **attributes: object) -> Path:
    """Append a member with chosen attributes to a plain tar."""
    info = tarfile.TarInfo("boots/0/x")
    for name, value in attributes.items():
        setattr(info, name, value)
    with tarfile.open(path, "a") as archive:
        archive.addfile(info)
    return path


BAD_MEMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "../x": ({"name": "../x"}, "points outside of the bundle"),
    "an absolute name": ({"name": "/etc/cron.d/x"}, "is an absolute path"),
    "a symbolic link": (
        {"type": tarfile.SYMTYPE, "linkname": "/etc/shadow"},
        "boots/0/x is a symbolic link",
    ),
    "a hard link": ({"type": tarfile.LNKTYPE, "linkname": "y"}, "boots/0/x is a hard link"),
    "a device": ({"type": tarfile.BLKTYPE, "devmajor": 8}, "boots/0/x is a device"),
    "a fifo": ({"type": tarfile.FIFOTYPE}, "boots/0/x is a fifo"),
    "a sparse member": ({"type": tarfile.GNUTYPE_SPARSE}, "boots/0/x is a sparse file"),
    "a second member of one name": (
        {"name": "boots/0/host.json"},
        "duplicate member boots/0/host.json",
    ),
}


@pytest.mark.parametrize("case", BAD_MEMBERS)
def test_a_member_that_no_recorder_writes_is_refused(
    case: str, tmp_path: Path, make_bundle: MakeBundle, run_cli: RunCli
) -> None:
    attributes, message = BAD_MEMBERS[case]
    path = add_member(make_bundle(tmp_path / "base.tar"), **attributes)
    assert_one_line(run_cli("show", path), message)


def test_a_sparse_member_of_10_gb_is_refused(tmp_path: Path, run_cli: RunCli) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(10 * 10**9)
    path = tmp_path / "base.tar"
    subprocess.run(["tar", "-S", "-cf", path, "-C", tmp_path, "hole"], check=True)
    assert_one_line(run_cli("show", path), "hole is a sparse file")


def test_a_member_of_10_gb_in_a_file_with_holes_is_refused(tmp_path: Path, run_cli: RunCli) -> None:
    path = tmp_path / "base.tar"
    info = tarfile.TarInfo("boots/0/x")
    info.size = 10 * 10**9
    with path.open("wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.truncate(info.size + 2048)
    assert_one_line(run_cli("show", path), "boots/0/x has 10000000000 bytes")


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_what_is_no_bundle_at_all_is_refused(
    tmp_path: Path, make_tar: MakeTar, run_cli: RunCli
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    foreign = make_tar(tmp_path / "foreign.tar", [("vmlinux", b"x")])
    cases: list[tuple[Path, str]] = [
        (write(tmp_path / "text.tar", b"Time: 0.123\n" * 100), "invalid tar archive"),
        (write(tmp_path / "nothing.tar", b""), "empty file"),
        (make_tar(tmp_path / "empty.tar", []), "empty.tar: no members"),
        (foreign, "invalid bundle"),
        (tmp_path, "a directory (expected a bundle"),
        (fifo, "not a regular file"),
        (tmp_path / "absent.tar", "no such file"),
        (write(tmp_path / "broken.tar.xz", b"\xfd7zXZ\x00" + b"x" * 99), "cannot be decompressed"),
    ]
    for path, message in cases:
        done = run_cli("show", path)
        assert_one_line(done, message)
        assert done.stdout == ""


def test_a_temporary_folder_that_is_full_is_one_line(
    tmp_path: Path, make_bundle: MakeBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    path = make_bundle(tmp_path / "base.tar.gz", runs=100)
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", small], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setenv("TMPDIR", str(small))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "schedperf", "show", path], capture_output=True, text=True
        )
    finally:
        subprocess.run(["umount", small], check=True)
    assert_one_line(done, f"cannot be decompressed into {small}: no space left on device")
    assert "TMPDIR" in done.stderr


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_truncated_bundle_says_where_and_what_to_do(
    suffix: str, tmp_path: Path, make_bundle: MakeBundle, run_cli: RunCli
) -> None:
    path = make_bundle(tmp_path / f"base.tar{suffix}", runs=40)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    done = run_cli("show", path)
    assert_one_line(done, "truncated at ")
    assert "copy it again" in done.stderr
    assert "runs: " in done.stdout
    assert_one_line(run_cli("compare", path, path), "is readable with `schedperf show")


def test_a_wrong_checksum_is_refused(
    tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar, run_cli: RunCli
) -> None:
    members = make_members()
    members["boots/0/runs/002/stdout"] = b"Time: 0.001\n"
    path = make_tar(tmp_path / "base.tar", members.items())
    message = "boots/0/runs/002/stdout does not match its checksum"
    assert_one_line(run_cli("show", "--verify", path), message)
    assert_one_line(run_cli("compare", path, path), message)


def test_a_manifest_of_a_future_major_version_is_refused(
    tmp_path: Path, make_bundle: MakeBundle, run_cli: RunCli
) -> None:
    path = make_bundle(tmp_path / "base.tar", manifest={"version": {"major": 2, "minor": 1}})
    message = "manifest.json: has format 2.1, but this schedperf reads format 1.0"
    assert_one_line(run_cli("show", path), message)
    assert_one_line(run_cli("compare", path, path), message)


def test_a_missing_manifest_is_rebuilt_with_a_warning(
    tmp_path: Path, make_bundle: MakeBundle, run_cli: RunCli
) -> None:
    path = make_bundle(tmp_path / "base.tar", manifest=None)
    done = run_cli("show", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "base.tar has no usable manifest; the manifest was rebuilt" in " ".join(
        done.stdout.split()
    )


@pytest.mark.parametrize(
    "name", ["manifest.json", "boots/0/host.json", "boots/0/runs/000/run.json"]
)
def test_json_of_absurd_depth_is_refused(
    name: str, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar, run_cli: RunCli
) -> None:
    members = make_members(manifest={} if name == "manifest.json" else None)
    members[name] = b'{"a":' * 200_000 + b"1" + b"}" * 200_000
    path = make_tar(tmp_path / "base.tar", members.items())
    assert_one_line(run_cli("show", path), "nested too deeply (expected at most 32 levels)")


INCOMPARABLE: dict[str, tuple[dict[str, Any], str]] = {
    "zero runs": ({"runs": 0}, "no value recorded in new"),
    "runs that failed": (
        {"runs": [{"exit_status": 1, "stdout": ""}] * 5},
        "no value recorded in new",
    ),
    "output without numbers": (
        {"runs": [{"stdout": "Running in process mode\nTime: fast\n"}] * 5},
        "no value recorded in new",
    ),
    "another workload": (
        {"workload": "sleep 1", "runs": [{"stdout": ""}] * 5},
        "base `hackbench -l 100 -g 4`, new `sleep 1`",
    ),
    "another machine": ({"host": {"cpu": {"model": "Other CPU"}}}, "cpu.model differs"),
}


@pytest.mark.parametrize("case", INCOMPARABLE)
def test_bundles_that_cannot_be_compared_are_invalid_with_the_reason(
    case: str, tmp_path: Path, make_bundle: MakeBundle, run_cli: RunCli
) -> None:
    chosen, reason = INCOMPARABLE[case]
    base = make_bundle(tmp_path / "base.tar")
    new = make_bundle(tmp_path / "new.tar", label="new", **chosen)
    done = run_cli("compare", base, new, "--json", "-")
    assert (done.returncode, done.stderr) == (4, "")
    overall = json.loads(done.stdout)["overall"]
    assert (overall["verdict"], overall["exit_status"]) == ("invalid", 4)
    assert reason in overall["reason"]
    assert "\n" not in overall["reason"]


def test_two_bundles_without_any_run_are_invalid(
    tmp_path: Path, make_bundle: MakeBundle, run_cli: RunCli
) -> None:
    base = make_bundle(tmp_path / "base.tar", runs=0)
    new = make_bundle(tmp_path / "new.tar", runs=0, host={"kernel": {"release": "6.13.0"}})
    done = run_cli("compare", base, new, "--json", "-")
    assert (done.returncode, done.stderr) == (4, "")
    assert (
        "no result, because base has no clean run" in json.loads(done.stdout)["overall"]["reason"]
    )
