"""``record --append``: more runs for a bundle, which is checked before it is touched."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle.open import open_bundle

pytestmark = pytest.mark.system

MANIFEST = {
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
        "manifest.json": MANIFEST,
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
        ({}, "does not end with manifest.json"),
        ({"manifest.json": MANIFEST, "boots/0/runs/000/stdout": b""}, "does not end with"),
        ({"manifest.json": {**MANIFEST, "version": {"major": 2, "minor": 0}}}, "version 2, and"),
        ({"manifest.json": {**MANIFEST, "version": None}}, "not that of a bundle"),
        ({"manifest.json": {**MANIFEST, "format": "other"}}, "not that of a bundle"),
        ({"manifest.json": {**MANIFEST, "points": 3}}, "points is not a list"),
        ({"manifest.json": {**MANIFEST, "captures": [3]}}, "a capture is not an object"),
        ({"manifest.json": b"[1, 2"}, "not JSON"),
        ({"manifest.json": b"[" * 100_000}, "not JSON"),
        ({"manifest.json": b"[]"}, "not a JSON object"),
        ({"boots/0/host.json": b"\xff", "manifest.json": MANIFEST}, "not JSON"),
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
    write_tar(recorder.folder / "b.tar.gz", {"boots/0/host.json": {}, "manifest.json": MANIFEST})
    data = (recorder.folder / "b.tar.gz").read_bytes()
    (recorder.folder / "b.tar.gz").write_bytes(data[: len(data) // 2])
    done = recorder("record", "--append", "b.tar.gz", *QUICK, "--", "true")
    assert done.returncode == 2
    assert "not a whole tar" in done.stderr


def test_a_bundle_that_is_not_there_is_named(recorder: Any) -> None:
    done = recorder("record", "--append", "no.tar", *QUICK, "--", "true")
    assert (
        done.stderr
        == "schedperf: error: no.tar: no such file or directory; name a bundle that can be read\n"
    )


def test_an_incomplete_bundle_stays_incomplete(recorder: Any, read_bundle: Any) -> None:
    manifest = {**MANIFEST, "complete": False, "incomplete_reason": "interrupted after 1 of 2 runs"}
    write_tar(recorder.folder / "b.tar", {"manifest.json": manifest})
    assert recorder("record", "--append", "b.tar", *QUICK, "--", "true").returncode == 0
    grown = read_bundle(recorder.folder / "b.tar").manifest
    assert grown["complete"] is False
    assert grown["incomplete_reason"] == "interrupted after 1 of 2 runs"


def test_a_label_belongs_to_the_bundle(recorder: Any) -> None:
    write_tar(recorder.folder / "b.tar", {"manifest.json": MANIFEST})
    done = recorder("record", "--append", "b.tar", "--label", "x", *QUICK, "--", "true")
    assert done.returncode == 2
    assert "leave it out" in done.stderr
