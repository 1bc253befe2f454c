# SPDX-License-Identifier: GPL-2.0-or-later
"""Bundles grow run by run, and a full disk costs the run that filled it and nothing else."""

import contextlib
import errno
import hashlib
import io
import json
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.host import Host, Kernel
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.bundle import BundleWriter, check_output, examine
from schedperf_collectors.recorder.recover import recover

Read = Callable[[Path], Any]
MANIFEST: dict[str, object] = {
    "format": "schedperf-bundle",
    "version": {"major": 1, "minor": 0},
    "workload": [],
    "points": [],
    "treatment": [],
    "metric": [],
}


def add_many(writer: BundleWriter) -> None:
    for number in range(100):
        writer.add(f"boots/0/runs/{number:03d}/stdout", b"x" * 300_000, "workload")
        writer.commit()


def fill_up(file: io.FileIO) -> None:
    """Take the rest of a disk."""
    with contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz"])
def test_a_bundle_is_what_was_added_and_the_manifest_comes_last(
    tmp_path: Path, read_bundle: Read, suffix: str
) -> None:
    path = tmp_path / f"b{suffix}"
    writer = BundleWriter(path)
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    entry = writer.add("boots/0/layout/kallsyms", tmp_path / "file", "layout", 0.25)
    writer.add("boots/0/runs/000/stdout", b"", "workload")
    writer.commit()
    assert writer.finish(MANIFEST) == path

    written = read_bundle(path)
    assert [info.name for info in written.infos][-1] == "manifest.json"
    assert written.members["boots/0/layout/kallsyms"] == b"x" * 3_000_000
    assert written.manifest["captures"][0] == entry
    assert entry == {
        "collector": "layout",
        "path": "boots/0/layout/kallsyms",
        "sha256": hashlib.sha256(b"x" * 3_000_000).hexdigest(),
        "bytes": 3_000_000,
        "seconds": 0.25,
        "status": "ok",
        "reason": None,
    }
    assert sorted(item.name for item in tmp_path.iterdir()) == sorted([path.name, "file"])


def test_members_are_plain_files_of_nobody_in_particular(tmp_path: Path, read_bundle: Read) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"1")
    secret.chmod(0o4700)
    os.utime(secret, (-5, -5))
    writer = BundleWriter(tmp_path / "b.tar")
    writer.add("boots/0/host.json", secret, "host")
    writer.commit()
    writer.finish(MANIFEST)
    for info in read_bundle(tmp_path / "b.tar").infos:
        assert info.isreg()
        assert (info.mode, info.uid, info.gid, info.uname) == (0o644, 0, 0, "")
        assert info.mtime >= 0


SIDE_FILES = ("b.tar.gz.manifest", "b.tar.gz.manifest.new", "b.tar.gz.compressing")


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_links_planted_beside_the_output_are_not_followed(
    tmp_path: Path, read_bundle: Read, plant: Callable[[Path, Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    reserve = f".b.tar.gz.{os.getpid()}.reserve"
    for name in (*SIDE_FILES, reserve, "b.tar.gz.reserve"):
        plant(victim, tmp_path / name)
    path = tmp_path / "b.tar.gz"
    writer = BundleWriter(path)
    writer.add("boots/0/host.json", b"{}", "host")
    writer.commit()
    writer.keep_manifest(MANIFEST)
    writer.finish(MANIFEST)
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "b.tar.gz.reserve").samefile(victim)
    assert len(read_bundle(path).members) == 2
    assert stat.S_ISREG(path.lstat().st_mode)
    # The file that says that a recording is running is not replaced.
    plant(victim, tmp_path / "c.tar.partial")
    with pytest.raises(RecordError, match=r"c\.tar: file exists; choose a writable path"):
        BundleWriter(tmp_path / "c.tar")
    assert victim.read_bytes() == b"precious"


def test_runs_are_added_to_no_link(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim.tar", tmp_path / "b.tar"
    BundleWriter(victim).finish({**MANIFEST, "captures": []})
    before = victim.read_bytes()
    path.symlink_to(victim)
    with pytest.raises(RecordError, match="too many levels of symbolic links"):
        BundleWriter(path, examine(path))
    assert victim.read_bytes() == before
    assert path.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
@pytest.mark.parametrize(
    ("mode", "said"), [(0o666, ""), (0o644, "b.tar: operation not permitted; choose a writable")]
)
def test_the_mode_of_a_bundle_of_another_user_stays_or_the_bundle_is_left_alone(
    tmp_path: Path, mode: int, said: str
) -> None:
    tmp_path.chmod(0o777)
    path = tmp_path / "b.tar"
    BundleWriter(path).finish({**MANIFEST, "captures": []})
    os.chown(path, 0, 65534)
    path.chmod(0o660)
    before = examine(path)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.chdir(tmp_path)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            try:
                BundleWriter(Path("b.tar"), examine(Path("b.tar")), mode=mode).discard()
                Path("said").touch()
            except RecordError as error:
                Path("said").write_text(str(error))
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "said").read_text().startswith(said)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b.tar", "said"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert examine(path) == before


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_force_and_recover_refuse_a_planted_partial_file(tmp_path: Path, kind: str) -> None:
    victim, path = tmp_path / "victim", tmp_path / "b.tar"
    victim.write_bytes(b"precious")
    partial = tmp_path / "b.tar.partial"
    if kind == "link":
        partial.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(partial)
    else:
        partial.mkdir()
    one_line = r"^[^\n]*b\.tar\.partial: [^\n]+; [^\n]+$"
    with pytest.raises(RecordError, match=one_line):
        check_output(path, force=True)
    with pytest.raises(RecordError, match=one_line):
        recover(path)
    assert victim.read_bytes() == b"precious"


def test_tar_finds_nothing_to_complain_of(tmp_path: Path) -> None:
    # One of these sizes lets the end of the tar fall just before the end of a record.
    for blocks in range(16, 22):
        path = tmp_path / f"{blocks}.tar"
        writer = BundleWriter(path)
        writer.add("boots/0/host.json", b"x" * 512 * blocks, "host")
        writer.commit()
        writer.finish(MANIFEST)
        listed = subprocess.run(["tar", "tf", str(path)], capture_output=True, text=True)
        assert (listed.returncode, listed.stderr) == (0, "")
        assert path.stat().st_size % tarfile.RECORDSIZE == 0


def test_what_was_committed_can_be_read_while_more_is_written(
    tmp_path: Path, read_bundle: Read
) -> None:
    writer = BundleWriter(tmp_path / "b.tar")
    for number in range(3):
        writer.add(f"boots/0/runs/{number:03d}/run.json", b"{}", "record")
        writer.commit()
        written = read_bundle(tmp_path / "b.tar.partial")
        assert len(written.members) == number + 1
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_rollback_forgets_what_was_not_committed(tmp_path: Path, read_bundle: Read) -> None:
    writer = BundleWriter(tmp_path / "b.tar")
    writer.add("boots/0/host.json", b"{}", "host")
    writer.commit()
    writer.add("boots/0/runs/000/stdout", b"x" * 5000, "workload")
    writer.rollback()
    writer.finish(MANIFEST)
    written = read_bundle(tmp_path / "b.tar")
    assert list(written.members) == ["boots/0/host.json", "manifest.json"]
    assert len(written.manifest["captures"]) == 1


def test_the_manifest_finds_room_on_a_full_disk(small_disk: Path, read_bundle: Read) -> None:
    writer = BundleWriter(small_disk / "b.tar")
    writer.add("boots/0/host.json", b"{}", "host")
    writer.commit()
    with pytest.raises(OSError, match="No space") as full:
        add_many(writer)
    assert full.value.errno == errno.ENOSPC
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        fill_up(filler)
    # The half of a member that was still written gives its room back, too.
    writer.rollback()
    path = writer.finish(MANIFEST)
    written = read_bundle(path)
    assert written.members["boots/0/host.json"] == b"{}"
    assert len(written.members) == len(written.manifest["captures"]) + 1
    assert sorted(item.name for item in small_disk.iterdir()) == ["b.tar", "filler"]


def test_a_bundle_that_finds_no_room_to_be_compressed_stays_plain(
    small_disk: Path, read_bundle: Read
) -> None:
    writer = BundleWriter(small_disk / "b.tar.xz")
    writer.add("boots/0/layout/btf", os.urandom(3_500_000), "layout")
    writer.commit()
    assert writer.finish(MANIFEST) == small_disk / "b.tar"
    assert len(read_bundle(small_disk / "b.tar").members) == 2
    assert [item.name for item in small_disk.iterdir()] == ["b.tar"]


def test_a_read_only_file_system_is_one_clear_line(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    path = small_disk / "b.tar"
    with pytest.raises(RecordError, match="b.tar: read-only file system; choose a writable path"):
        BundleWriter(path)
    check_output(path, force=True)


def test_force_takes_no_file_from_a_recording_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    writer = BundleWriter(path)
    with pytest.raises(RecordError, match="another recording is writing to this file; wait"):
        check_output(path, force=True)
    with pytest.raises(RecordError, match="file exists"):
        BundleWriter(path)
    assert writer.names.partial.exists()
    writer.discard()


def test_force_takes_no_file_that_is_being_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.tar.gz"
    copy = shutil.copyfileobj
    tried: list[str] = []

    def copy_while_another_recording_begins(*arguments: Any) -> None:
        with pytest.raises(RecordError) as refused:
            check_output(path, force=True)
        tried.append(str(refused.value))
        copy(*arguments)

    monkeypatch.setattr(shutil, "copyfileobj", copy_while_another_recording_begins)
    BundleWriter(path).finish(MANIFEST)
    assert "another recording is writing to this file" in tried[0]
    assert [item.name for item in tmp_path.iterdir()] == ["b.tar.gz"]


def test_force_removes_the_file_of_a_killed_recording(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    partial = tmp_path / "b.tar.partial"
    partial.touch()
    check_output(path, force=True)
    assert not partial.exists()


def test_a_disk_that_is_full_from_the_start_is_one_clear_line(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(6_000_000))
    with pytest.raises(RecordError, match="no space left on device"):
        BundleWriter(small_disk / "b.tar")
    assert [item.name for item in small_disk.iterdir()] == ["filler"]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("there.tar", "exists; add --force"),
        ("b.zip", "unknown format"),
        ("b.tar.zst", "unknown format"),
        (".tar", "unknown format"),
        ("no/b.tar", "no such directory"),
        ("busy.tar", "wait if another recording is running, or remove this file"),
    ],
)
def test_a_bad_place_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / "there.tar").touch()
    (tmp_path / "busy.tar.partial").touch()
    with pytest.raises(RecordError, match=complaint):
        check_output(tmp_path / name, force=False)


def test_the_xz_dictionary_finds_repetitions_that_lie_far_apart(tmp_path: Path) -> None:
    # Two boots with the same symbols, 10 MB apart: a dictionary of 8 MiB, xz's own, sees one only.
    data = os.urandom(1_000_000)
    writer = BundleWriter(tmp_path / "b.tar.xz")
    writer.add("boots/0/layout/kallsyms", data, "layout")
    writer.add("boots/0/runs/000/stdout", bytes(10_000_000), "workload")
    writer.add("boots/1/layout/kallsyms", data, "layout")
    writer.commit()
    writer.finish(MANIFEST)
    assert (tmp_path / "b.tar.xz").stat().st_size < 1_500_000
    with lzma.open(tmp_path / "b.tar.xz") as file:
        assert len(file.read()) > 12_000_000


def test_the_reader_reads_it(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "b.tar")
    writer.add("boots/0/host.json", b'{"kernel": {"release": "6.12"}}', "host")
    writer.commit()
    writer.finish({**MANIFEST, "complete": True, "planned_runs": 0, "label": "b"})
    bundle = open_bundle(tmp_path / "b.tar")
    assert bundle.boots[0].host == Host(kernel=Kernel(release="6.12"))
    assert bundle.caveats == ()


def test_a_bundle_that_grows_keeps_what_it_had(tmp_path: Path, read_bundle: Read) -> None:
    path = tmp_path / "b.tar"
    writer = BundleWriter(path)
    writer.add("boots/0/runs/000/run.json", b'{"boot_id": "one"}', "record")
    writer.commit()
    writer.finish(MANIFEST)
    existing = examine(path)
    assert existing.place("one") == (0, 1)
    assert existing.place("two") == (1, 0)
    grown = BundleWriter(path, existing)
    assert not path.exists()
    grown.add("boots/0/runs/001/run.json", b"{}", "record")
    grown.commit()
    grown.finish(MANIFEST)
    written = read_bundle(path)
    assert list(written.members) == [
        "boots/0/runs/000/run.json",
        "boots/0/runs/001/run.json",
        "manifest.json",
    ]
    assert [entry["path"] for entry in written.manifest["captures"]] == list(written.members)[:2]


pytestmark = pytest.mark.system

MANIFEST_TO_EXAMINE = {
    "format": "schedperf-bundle",
    "version": {"major": 1, "minor": 0},
    "workload": ["true"],
    "points": [""],
    "treatment": [],
    "metric": [],
    "captures": [],
    "complete": True,
    "planned_runs": 1,
    "label": "old",
}
QUICK = ("-n", "1", "--warmup", "0", "--with", "none", "-q")


def write_tar(path: Path, members: Mapping[str, object]) -> None:
    with tarfile.open(path, "w:gz" if path.name.endswith(".gz") else "w") as tar:
        for name, content in members.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tar.xz"])
def test_runs_of_the_same_boot_follow_those_that_are_there(
    recorder: Any, read_bundle: Any, name: str
) -> None:
    assert recorder("record", "-o", name, *QUICK, "--", "echo", "1").returncode == 0
    first = read_bundle(recorder.folder / name)
    assert recorder("record", "--append", name, *QUICK, "--", "echo", "2").returncode == 0
    both = read_bundle(recorder.folder / name)
    assert [run["run"] for run in both.runs] == [0, 1]
    assert {run["boot"] for run in both.runs} == {0}
    assert len({run["session"] for run in both.runs}) == 2
    for member, data in first.members.items():
        if member != "manifest.json":
            assert both.members[member] == data
    manifest = both.manifest
    assert manifest["workload"] == ["echo 1", "echo 2"]
    assert (manifest["planned_runs"], manifest["complete"]) == (2, True)
    assert manifest["created"] == first.manifest["created"]
    assert {entry["path"] for entry in manifest["captures"]} == both.members.keys() - {
        "manifest.json"
    }
    bundle = open_bundle(recorder.folder / name)
    assert (len(bundle.runs), bundle.caveats) == (2, ())
    assert recorder.temporary_files() == []


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz"])
def test_runs_of_another_boot_get_a_boot_of_their_own(
    recorder: Any, read_bundle: Any, name: str
) -> None:
    old = {
        "boots/0/host.json": {"system": {"boot_id": "an earlier one"}},
        "boots/0/runs/000/run.json": {"boot_id": "an earlier one", "boot": 0, "run": 0},
        "manifest.json": MANIFEST_TO_EXAMINE,
    }
    write_tar(recorder.folder / name, old)
    done = recorder("record", "--append", name, *QUICK, "--", "true")
    assert done.returncode == 0, done.stderr
    written = read_bundle(recorder.folder / name)
    assert "boots/1/host.json" in written.members
    assert [(run["boot"], run["run"], run.get("label")) for run in written.runs] == [
        (0, 0, None),
        (1, 0, "old"),
    ]


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        (
            {},
            "incomplete bundle (expected manifest.json as the last member); record a new bundle",
        ),
        (
            {"manifest.json": MANIFEST_TO_EXAMINE, "boots/0/runs/000/stdout": b""},
            "expected manifest.json as the last member",
        ),
        (
            {"manifest.json": {**MANIFEST_TO_EXAMINE, "version": {"major": 2, "minor": 0}}},
            "manifest.json: has format 2.0, but this schedperf reads format 1.0",
        ),
        (
            {"manifest.json": {**MANIFEST_TO_EXAMINE, "version": None}},
            "manifest.json: invalid manifest (expected the manifest of a schedperf bundle)",
        ),
        (
            {"manifest.json": {**MANIFEST_TO_EXAMINE, "format": "other"}},
            "manifest.json: invalid manifest (expected the manifest of a schedperf bundle)",
        ),
        (
            {"manifest.json": {**MANIFEST_TO_EXAMINE, "points": 3}},
            "invalid points (expected a list)",
        ),
        (
            {"manifest.json": {**MANIFEST_TO_EXAMINE, "captures": [3]}},
            "invalid capture (expected a JSON object)",
        ),
        ({"manifest.json": b"[1, 2"}, "invalid JSON; record a new bundle"),
        ({"manifest.json": b"[" * 100_000}, "invalid JSON; record a new bundle"),
        ({"manifest.json": b"[]"}, "invalid JSON value (expected an object)"),
        (
            {"boots/0/host.json": b"\xff", "manifest.json": MANIFEST_TO_EXAMINE},
            "host.json: invalid JSON",
        ),
    ],
)
def test_a_bundle_that_cannot_grow_is_refused_and_left_alone(
    recorder: Any, members: Mapping[str, object], complaint: str
) -> None:
    path = recorder.folder / "b.tar"
    write_tar(path, members)
    before = path.read_bytes()
    done = recorder("record", "--append", "b.tar", *QUICK, "--", "true")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert path.read_bytes() == before
    assert not list(recorder.folder.glob("b.tar.*"))


@pytest.mark.parametrize("content", [b"", b"nonsense" * 1000, b"\x1f\x8b\x08broken"])
@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz", "b.tar.xz"])
def test_what_is_no_tar_is_refused(recorder: Any, name: str, content: bytes) -> None:
    (recorder.folder / name).write_bytes(content)
    done = recorder("record", "--append", name, *QUICK, "--", "true")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_truncated_bundle_is_refused(recorder: Any) -> None:
    write_tar(
        recorder.folder / "b.tar.gz",
        {"boots/0/host.json": {}, "manifest.json": MANIFEST_TO_EXAMINE},
    )
    data = (recorder.folder / "b.tar.gz").read_bytes()
    (recorder.folder / "b.tar.gz").write_bytes(data[: len(data) // 2])
    done = recorder("record", "--append", "b.tar.gz", *QUICK, "--", "true")
    assert done.returncode == 2
    assert "incomplete or damaged tar archive; record a new bundle" in done.stderr


def test_a_bundle_that_is_not_there_is_named(recorder: Any) -> None:
    done = recorder("record", "--append", "no.tar", *QUICK, "--", "true")
    assert (
        done.stderr
        == "schedperf: error: no.tar: no such file or directory; pass a readable bundle\n"
    )


def test_an_incomplete_bundle_stays_incomplete(recorder: Any, read_bundle: Any) -> None:
    manifest = {
        **MANIFEST_TO_EXAMINE,
        "complete": False,
        "incomplete_reason": "interrupted after 1 of 2 runs",
    }
    write_tar(recorder.folder / "b.tar", {"manifest.json": manifest})
    assert recorder("record", "--append", "b.tar", *QUICK, "--", "true").returncode == 0
    grown = read_bundle(recorder.folder / "b.tar").manifest
    assert grown["complete"] is False
    assert grown["incomplete_reason"] == "interrupted after 1 of 2 runs"


def test_a_label_belongs_to_the_bundle(recorder: Any) -> None:
    write_tar(recorder.folder / "b.tar", {"manifest.json": MANIFEST_TO_EXAMINE})
    done = recorder("record", "--append", "b.tar", "--label", "x", *QUICK, "--", "true")
    assert done.returncode == 2
    assert "omit --label" in done.stderr
