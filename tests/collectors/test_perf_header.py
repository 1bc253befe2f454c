# SPDX-License-Identifier: GPL-2.0-or-later
"""Events are read back from any perf.data; nothing but BadPerfData comes out of a bad one."""

import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedperf_collectors.perf_header import (
    EVENT_DESC,
    FORMAT_LOST,
    HEADER_BYTES,
    RECORD_LOST,
    RECORD_LOST_SAMPLES,
    TYPE_SOFTWARE,
    BadPerfData,
    read_header,
    summarise,
    summarise_perf_data,
    total_lost,
)
from tests.shared_data import shared


@pytest.fixture(scope="module")
def recorded_here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a file that perf recorded just now and what perf said of it."""
    path = tmp_path_factory.mktemp("recorded") / "perf.data"
    done = subprocess.run(
        ["perf", "record", "-a", "-g", "-N", "-F", "499", "-e", "cpu-clock", "-o", str(path),
         "--", "sleep", "0.2"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("perf record -a does not work here")
    return path, done.stderr


def build(order: str, *, flags: int, records: bytes = b"", clockid: int = 0) -> bytes:
    """Return a file of one cpu-clock attribute of 112 bytes and no features."""
    attr = struct.pack(f"{order}IIQQQQQ", TYPE_SOFTWARE, 112, 0, 999, 0, 0, flags)
    attr = attr.ljust(92, b"\0") + struct.pack(f"{order}i", clockid)
    entry = attr.ljust(112, b"\0") + struct.pack(f"{order}QQ", 0, 4 * 8)
    data_at = HEADER_BYTES + len(entry)
    magic = b"PERFILE2" if order == "<" else b"2ELIFREP"
    sections = (HEADER_BYTES, len(entry), HEADER_BYTES, len(entry), data_at, len(records))
    header = magic + struct.pack(f"{order}6Q", *sections)
    return header.ljust(HEADER_BYTES, b"\0") + entry + records


def record(order: str, kind: int, payload: bytes, misc: int = 0) -> bytes:
    return struct.pack(f"{order}IHH", kind, misc, 8 + len(payload)) + payload


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_the_event_that_perf_really_used_is_read_back(recorded_here: tuple[Path, str]) -> None:
    event, *_ = summarise_perf_data(recorded_here[0]).events
    assert event.plain_name == "cpu-clock"
    assert event.name.startswith("cpu-clock")
    assert (event.rate, event.by_frequency, event.clockid) == (499, True, None)


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_samples_are_counted_as_perf_counts_them(recorded_here: tuple[Path, str]) -> None:
    path, said = recorded_here
    counted = re.search(r"\((\d+) samples\)", said)
    assert counted
    assert summarise_perf_data(path).samples == int(counted.group(1))


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_a_system_wide_event_was_opened_once_a_cpu(recorded_here: tuple[Path, str]) -> None:
    path, _ = recorded_here
    header = subprocess.run(
        ["perf", "report", "--header-only", "-i", str(path)], capture_output=True, text=True
    ).stdout
    online = re.search(r"nrcpus online : (\d+)", header)
    assert online
    assert len(summarise_perf_data(path).events[0].ids) == int(online.group(1))


@pytest.mark.parametrize("order", ["<", ">"])
def test_either_byte_order_is_read(order: str) -> None:
    # freq is bit 10, precise_ip bits 15-16, use_clockid bit 25, counted from the other end in a
    # big-endian file.
    flags = 1 << 10 | 0b10 << 15 | 1 << 25
    if order == ">":
        flags = 1 << 53 | 0b10 << 47 | 1 << 38
    records = b"".join(
        (
            record(order, 9, b"\0" * 8),
            record(order, 2, struct.pack(f"{order}QQ", 7, 30)),
            record(order, 13, struct.pack(f"{order}Q", 12)),
            record(order, 13, struct.pack(f"{order}Q", 1000), misc=1 << 15),
            record(order, 200, b"\0" * 16),
        )
    )
    found = summarise(build(order, flags=flags, records=records, clockid=1), "x")
    [event] = found.events
    assert (event.plain_name, event.rate, event.by_frequency) == ("cpu-clock", 999, True)
    assert (event.precise_ip, event.clockid, len(event.ids)) == (2, 1, 4)
    assert (found.samples, found.lost) == (1, 42)


def test_samples_that_perf_counts_once_more_at_the_end_are_not_lost_twice() -> None:
    lost = {RECORD_LOST: 30_048, RECORD_LOST_SAMPLES: 30_040}
    one = record("<", 9, bytes(8))
    (event,) = summarise(build("<", flags=0, records=one), "x").events
    assert total_lost(lost, [event]) == 60_088
    assert total_lost(lost, [replace(event, read_format=FORMAT_LOST)]) == 30_048


def test_the_payload_of_tracing_data_is_stepped_over() -> None:
    trap = record("<", 9, b"\0" * 8)
    records = record("<", 66, struct.pack("<II", 13, 0)) + trap + record("<", 9, b"\0" * 8)
    assert summarise(build("<", flags=0, records=records), "x").samples == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "invalid magic"),
        (b"PERFILE2", "truncated at offset 0x8 .expected 8 bytes, found 0."),
        (b"x" * 200, "invalid magic"),
        (build("<", flags=0), r"truncated \(perf did not finish writing it\)"),
        (
            build("<", flags=0, records=record("<", 9, b"\0" * 8))[:-4],
            r"truncated \(perf did not finish writing it\)",
        ),
        (
            build("<", flags=0, records=b"\0" * 8),
            "the record at offset 0xe8 has an invalid size of 0 bytes",
        ),
        (
            b"PERFILE2" + struct.pack("<Q", 16) + b"\0" * 200,
            "the recorder does not support perf.data in pipe format",
        ),
    ],
)
def test_a_bad_file_is_one_clear_line(content: bytes, problem: str) -> None:
    with pytest.raises(BadPerfData, match=problem) as caught:
        summarise(content, "perf.data")
    assert str(caught.value).startswith("perf.data: ")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(b"")
    with pytest.raises(BadPerfData, match="empty"):
        summarise_perf_data(path)


def test_names_that_cannot_be_read_cost_a_note() -> None:
    records = record("<", 9, b"\0" * 8)
    content = bytearray(build("<", flags=0, records=records) + struct.pack("<QQII", 0, 0, 1, 1))
    struct.pack_into("<Q", content, 72, 1 << EVENT_DESC)
    header = read_header(bytes(content), "x")
    assert header.events[0].name == "cpu-clock"
    assert header.notes[0].startswith(
        "header section EVENT_DESC is damaged (x: truncated at offset 0x0 (expected 4 bytes"
    )


def test_modifiers_are_no_part_of_an_events_plain_name() -> None:
    [found] = read_header(build("<", flags=0, records=record("<", 9, b"")), "x").events
    for kind, config, name, plain in (
        (TYPE_SOFTWARE, 0, "cycles:P", "cpu-clock"),
        (0, 1 << 32, "cpu_core/cycles/P", "cycles"),
        (2, 300, "sched:sched_switch", "sched:sched_switch"),
        (8, 7, "ibs_op//:pp", "ibs_op//"),
    ):
        assert replace(found, type=kind, config=config, name=name).plain_name == plain


@pytest.mark.property
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_cut_or_flipped_file_is_read_or_refused(
    recorded_here: tuple[Path, str], data: st.DataObject
) -> None:
    content = bytearray(recorded_here[0].read_bytes())
    # The header and the attributes decide everything; flip there more often than elsewhere.
    places = st.one_of(st.integers(0, 400), st.integers(0, len(content) - 1))
    for place in data.draw(st.lists(places, max_size=4)):
        content[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    try:
        found = summarise(bytes(content[:cut]), "x")
    except BadPerfData:
        return
    assert found.events


@pytest.mark.parametrize(
    ("name", "events", "samples", "lost"),
    [
        ("perf.data.hybrid_topology", ["cycles", "cycles", "dummy"], 7, 0),
        ("perf.data.lost_samples-4.4", None, 191, 2),
        ("perf.data.armv7.perf_3.14-3.8", ["cycles"], 700, 0),
        ("perf.data.weight_struct", None, 14, 0),
    ],
)
def test_files_of_other_machines_and_versions_are_read(
    name: str, events: list[str] | None, samples: int, lost: int
) -> None:
    path, *_ = sorted(shared("data/perfdata").rglob(name))
    found = summarise_perf_data(path)
    assert (found.samples, found.lost) == (samples, lost)
    assert events is None or [event.plain_name for event in found.events] == events
