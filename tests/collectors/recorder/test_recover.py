# SPDX-License-Identifier: GPL-2.0-or-later
"""Killed recordings: their finished runs are recovered, whatever the file ends with."""

import fcntl
import json
import tarfile
from pathlib import Path

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.command_line.main import main
from schedperf_collectors.contract import MANIFEST, run_folder
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.bundle import Names, examine
from schedperf_collectors.recorder.recover import recover

pytestmark = pytest.mark.system


def _record(path: Path, option: str = "-o") -> None:
    arguments = ["record", option, str(path), "-q", "-n", "2", "--warmup", "0", "--with", "none"]
    assert main([*arguments, "--", "echo", "done"]) == 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of two recordings of two runs each."""
    path = tmp_path_factory.mktemp("recorded") / "base.tar"
    _record(path)
    _record(path, "--append")
    return path


def _members(path: Path) -> list[tuple[str, int, int]]:
    """Return the name, offset and end of the data of each member."""
    with tarfile.open(path) as tar:
        return [(each.name, each.offset, each.offset_data + each.size) for each in tar]


def _runs_before(path: Path, size: int) -> int:
    return sum(name.endswith("/run.json") and end <= size for name, _, end in _members(path))


def _cut(recorded: Path, folder: Path, size: int, *, manifest: bool) -> Path:
    path = folder / "base.tar"
    data = recorded.read_bytes()
    Names(path).partial.write_bytes(data[:size])
    if manifest:
        record = dict(examine(recorded).manifest)
        Names(path).manifest.write_text(json.dumps({**record, "label": "kept"}))
    return path


def _cuts(path: Path) -> list[int]:
    """Return every member boundary, and places in headers, data and padding."""
    return sorted(
        {
            place
            for _, offset, end in _members(path)
            for place in (offset, offset + 100, offset + 512, (offset + 512 + end) // 2, end)
        }
    )


@pytest.mark.parametrize("manifest", [True, False])
def test_runs_before_any_cut_are_recovered(
    recorded: Path, tmp_path: Path, *, manifest: bool
) -> None:
    last = _members(recorded)[-1]
    assert last[0] == MANIFEST
    cuts = [size for size in _cuts(recorded) if size < last[2]]
    assert len(cuts) > 30
    for number, size in enumerate(cuts):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = _cut(recorded, folder, size, manifest=manifest)
        expected = _runs_before(recorded, size)
        assert recover(path) == expected, size
        if expected == 0:
            assert list(folder.iterdir()) == []
            continue
        assert [each.name for each in folder.iterdir()] == ["base.tar"]
        assert _runs_before(path, path.stat().st_size) == expected
        bundle = open_bundle(path)
        assert len(bundle.runs) == expected
        assert bundle.label == ("kept" if manifest else "base")
        assert recover(path) is None


def test_runs_are_added_to_a_recovered_bundle(recorded: Path, tmp_path: Path) -> None:
    _, offset, _ = _members(recorded)[-3]
    path = _cut(recorded, tmp_path, offset + 700, manifest=False)
    assert recover(path) == 3
    _record(path, "--append")
    assert len(open_bundle(path).runs) == 5


def test_a_run_with_damaged_output_is_cut_off(recorded: Path, tmp_path: Path) -> None:
    path = _cut(recorded, tmp_path, recorded.stat().st_size, manifest=True)
    places = {name: (offset, end) for name, offset, end in _members(recorded)}
    with Names(path).partial.open("r+b") as file:
        file.truncate(places[MANIFEST][0])
        file.seek(places[f"{run_folder(0, 2)}/stdout"][1] - 2)
        file.write(b"\0")
    assert recover(path) == 2


def test_a_complete_partial_gets_its_name(recorded: Path, tmp_path: Path) -> None:
    path = _cut(recorded, tmp_path, recorded.stat().st_size, manifest=True)
    assert recover(path) == 4
    assert path.read_bytes() == recorded.read_bytes()


def test_a_running_recording_is_left_alone(recorded: Path, tmp_path: Path) -> None:
    path = _cut(recorded, tmp_path, 4096, manifest=False)
    with Names(path).partial.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RecordError, match="another recording is writing"):
            recover(path)
    assert Names(path).partial.stat().st_size == 4096


@pytest.mark.parametrize("data", [b"", b"x" * 5000, bytes(10240)])
def test_a_file_without_runs_is_removed(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "base.tar"
    Names(path).partial.write_bytes(data)
    Names(path).manifest.write_bytes(b"[" * 100_000)
    assert recover(path) == 0
    assert list(tmp_path.iterdir()) == []
