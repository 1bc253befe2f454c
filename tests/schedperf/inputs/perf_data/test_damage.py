# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged and hostile files: what can be read is kept, and one line says what is missing."""

import os
import struct
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from schedperf.inputs.perf_data import read_perf_data
from schedperf.inputs.perf_data._forms import open_perf_data
from schedperf.model.errors import InputError
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.perf_data import (
    PerfData,
    write_perf_data,
    write_perf_data_folder,
    write_perf_data_pipe,
)
from schedperf_generators.records import RawRecord, Record
from schedperf_generators.samples import Sample

IP = 0xFFFFFFFF81000010
EVENTS = (Event(sample_type=PLAIN | SampleType.CALLCHAIN),)
THREE = PerfData(events=EVENTS, records=[Sample(ip=IP, chain=(IP, 1))] * 3)


def samples_of(data: bytes | Path) -> tuple[int, tuple[str, ...]]:
    recording = read_perf_data(data, "perf.data")
    return int(recording.samples.count.sum()), recording.notes


def places(data: bytes | bytearray) -> tuple[int, int]:
    start, size = struct.unpack_from("<2Q", data, 40)
    return start, size


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "invalid magic"),
        (b"\x7fELF" + bytes(200), "invalid magic"),
        (b"PERFFILE" + bytes(200), "perf.data from before Linux 2.6.39 is not supported"),
        (b"PERFILE2", "truncated at offset 0x8 (expected 8 bytes, found 0)"),
        (b"PERFILE2" + struct.pack("<Q", 16) + bytes(80), "no events"),
        (b"PERFILE2" + struct.pack("<Q", 104), "16 bytes (expected at least 104, the header"),
        (b"PERFILE2" + struct.pack("<Q", 104) + bytes(88), "attributes of 0 bytes"),
    ],
)
def test_what_is_no_perf_data_is_one_clear_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_perf_data(data, "base.tar: perf.data")
    assert message in str(caught.value)
    assert str(caught.value).startswith("base.tar: perf.data: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 7, 60000])
def test_behind_a_record_of_impossible_size_nothing_is_read(size: int) -> None:
    data = bytearray(write_perf_data(THREE))
    start, length = places(data)
    second = start + length // 3
    struct.pack_into("<H", data, second + 6, size)
    note = (
        f"the record at offset {second:#x} has an invalid size; "
        f"the last {length * 2 // 3} bytes were skipped"
    )
    assert samples_of(bytes(data)) == (1, (note,))


def test_an_endless_row_of_empty_records_ends() -> None:
    data = bytearray(write_perf_data_pipe(PerfData(events=EVENTS)) + bytes(1 << 20))
    count, notes = samples_of(bytes(data))
    assert count == 0
    assert "has an invalid size" in notes[0]


@pytest.mark.parametrize("body", [8, 48])
def test_samples_that_are_too_short_are_counted(body: int) -> None:
    records: list[Record] = [Sample(ip=IP), RawRecord(kind=9, body=b"\xff" * body), Sample(ip=IP)]
    data = write_perf_data(PerfData(events=EVENTS, records=records))
    assert samples_of(data) == (2, ("1 sample(s) with invalid or truncated fields are left out",))


@pytest.mark.parametrize(("period", "kept"), [((1 << 63) - 1, 3), (1 << 63, 2), ((1 << 64) - 1, 2)])
def test_a_period_that_cannot_be_costs_its_sample(period: int, kept: int) -> None:
    records: list[Record] = [Sample(ip=IP), Sample(ip=IP), Sample(ip=IP, period=period)]
    count, notes = samples_of(write_perf_data(PerfData(events=EVENTS, records=records)))
    assert count == kept
    assert bool(notes) == (kept < 3)


@pytest.mark.parametrize("length", [3, 1 << 32, 1 << 61, (1 << 64) - 1])
def test_a_call_chain_that_is_longer_than_its_sample_costs_that_sample(length: int) -> None:
    data = bytearray(write_perf_data(THREE))
    start, size = places(data)
    at = start + size // 3 - 3 * 8
    assert struct.unpack_from("<Q", data, at)[0] == 2
    struct.pack_into("<Q", data, at, length)
    assert samples_of(bytes(data)) == (
        2,
        ("1 sample(s) with invalid or truncated fields are left out",),
    )


def test_a_file_of_a_killed_perf_is_read_to_its_end() -> None:
    whole = write_perf_data(THREE)
    start, size = places(whole)
    killed = bytearray(whole[: start + size - 8])
    killed[48:56] = bytes(8)
    cut = "the file is truncated: perf did not finish writing it, or the copy is incomplete"
    partial = f"the last record is truncated to its first {size // 3 - 8} bytes"
    assert samples_of(bytes(killed)) == (2, (cut, partial))
    assert samples_of(whole[: start + size - 8]) == (2, (cut, partial))


def test_compressed_records_of_a_killed_perf_are_read() -> None:
    data = PerfData(events=EVENTS, records=[Sample(ip=IP)] * 99, compressed=81, chunk_bytes=500)
    killed = bytearray(write_perf_data(data))
    start, size = places(killed)
    killed[48:56] = bytes(8)
    count, notes = samples_of(bytes(killed[: start + size * 2 // 3]))
    assert 30 < count < 99
    assert notes


def test_damaged_compressed_records_keep_what_is_in_front() -> None:
    records: list[Record] = [Sample(ip=IP + i, chain=(i,) * (i % 9)) for i in range(900)]
    data = PerfData(events=EVENTS, records=records, compressed=81, chunk_bytes=2000)
    damaged = bytearray(write_perf_data(data))
    start, size = places(damaged)
    middle = start + size // 2
    damaged[middle : middle + 400] = b"\xff" * 400
    count, notes = samples_of(bytes(damaged))
    assert 0 < count < 900
    assert notes


def test_a_little_that_claims_to_be_gigabytes_is_not_believed() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    pieces = [bomb[at : at + 60000] for at in range(0, len(bomb), 60000)]
    records: list[Record] = [Sample(ip=IP), *(RawRecord(kind=81, body=piece) for piece in pieces)]
    data = write_perf_data(PerfData(events=EVENTS, records=records, features={27: bytes(20)}))
    tracemalloc.start()
    count, notes = samples_of(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1
    assert any("expands to more than 100 times its size" in note for note in notes)
    assert peak < 32 << 20


@pytest.mark.parametrize("kind", [3, 5, 7, 9, 10])
def test_millions_of_empty_records_in_a_few_kilobytes_are_not_read(kind: int) -> None:
    packed = zstandard.ZstdCompressor().compress(RawRecord(kind=kind).pack("<", EVENTS) * (8 << 20))
    bomb: list[Record] = [RawRecord(kind=81, body=packed)]
    data = write_perf_data(PerfData(events=EVENTS, records=bomb, features={27: bytes(20)}))
    assert len(data) < 16 << 10
    # The file's size limits the number of records, of 8 bytes or more, and so the time.
    opened = open_perf_data(data, "perf.data")
    (_, walked), *inner = opened.streams
    sizes = [stream.end - stream.start for stream, _ in inner]
    assert sum(sizes) <= (1 << 20) + 100 * len(data)
    assert any("expands to more than 100 times its size" in note for note in opened.notes)
    assert len(walked.others) == 1


@pytest.mark.parametrize("kind", [66, 71, 83])
@pytest.mark.parametrize("length", [1 << 20, 1 << 40, (1 << 64) - 1])
def test_a_payload_that_is_longer_than_the_file_costs_what_follows(kind: int, length: int) -> None:
    body = struct.pack("<Q", length)
    records: list[Record] = [Sample(ip=IP), RawRecord(kind=kind, body=body), Sample(ip=IP)]
    features = {27: bytes(20)} if kind == 83 else {}
    count, notes = samples_of(
        write_perf_data(PerfData(events=EVENTS, records=records, features=features))
    )
    # The tracing data's length is a number of 32 bits.
    if kind == 66 and length == 1 << 40:
        assert (count, notes) == (2, ())
    else:
        assert count == 1
        assert "has an invalid size" in notes[0]


def test_enormous_numbers_of_events_and_ids_are_refused() -> None:
    data = bytearray(write_perf_data(PerfData(events=(Event(attr_bytes=64),))))
    attrs = struct.unpack_from("<Q", data, 24)[0]
    many = data + bytes(80 * 5000)
    struct.pack_into("<2Q", many, 24, len(data), 80 * 5000)
    with pytest.raises(InputError, match="5000 events"):
        read_perf_data(bytes(many), "perf.data")
    struct.pack_into("<2Q", data, attrs + 64, 0, 1 << 40)
    with pytest.raises(InputError, match="more than 1048576 event ids"):
        read_perf_data(bytes(data), "perf.data")


@pytest.mark.parametrize("name", ["data", "data.1"])
def test_a_link_in_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "perf.data"
    write_perf_data_folder(THREE, folder)
    moved = (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(moved)
    with pytest.raises(InputError, match=f"^perf.data: {name}: not a regular file"):
        read_perf_data(folder, "perf.data")


def test_a_gap_in_the_files_of_a_folder_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "perf.data"
    write_perf_data_folder(THREE, folder)
    (folder / "data.0").rename(folder / "data.2")
    recording = read_perf_data(folder, "perf.data")

    assert (
        "1 of 3 data files in the directory are missing, so their samples are not counted"
        in recording.notes
    )


def test_other_files_of_a_folder_are_not_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "perf.data"
    write_perf_data_folder(THREE, folder)
    (folder / "data.x").write_bytes(b"x")
    (folder / "data.old").symlink_to("/etc/passwd")
    (folder / "data.7").touch()
    assert samples_of(folder)[0] == 3


def test_a_folder_without_its_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory without a file `data`"):
        read_perf_data(tmp_path, "perf.data")


def test_one_file_of_a_folder_says_that_others_are_missing(tmp_path: Path) -> None:
    folder = tmp_path / "perf.data"
    write_perf_data_folder(THREE, folder)
    count, notes = samples_of(folder / "data")
    assert count == 0
    assert "samples of the other files are missing" in notes[0]


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^perf.data: no such file or directory"):
        read_perf_data(tmp_path / "nothing", "perf.data")
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="^perf.data: empty"):
        read_perf_data(tmp_path / "empty", "perf.data")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="^perf.data: not a regular file"):
        read_perf_data(tmp_path / "pipe", "perf.data")


def test_many_damaged_records_of_a_pipes_header_are_a_few_notes() -> None:
    damaged: list[Record] = [RawRecord(kind=64, body=bytes(8))] * 1000
    data = write_perf_data_pipe(PerfData(events=EVENTS, records=damaged))
    _, notes = samples_of(data)
    assert len(notes) == 11
    assert notes[-1] == "990 further header records are damaged"


def test_millions_of_records_in_a_few_compressed_bytes_stay_numbers() -> None:
    throttles: list[Record] = [RawRecord(kind=5)] * 50_000
    data = write_perf_data(PerfData(events=EVENTS, records=throttles, compressed=81))
    tracemalloc.start()
    recording = read_perf_data(data, "perf.data")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert recording.losses.throttled == 50_000
    assert peak < 200 * 50_000
