import gzip
import os
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedperf.captures.perf_data import (
    ANY_TASK,
    MODE_KERNEL,
    MODE_USER,
    NO_CPU,
    PerfData,
    read_perf_data,
)
from schedperf.errors import InputError

MakePerfData = Callable[..., bytes]

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "perfdata"

# Period, event and address of a sample line of `perf script`.
SCRIPT_LINE = re.compile(r"(\d+)\s+(\S+?):?\s+([0-9a-f]{6,})\s*$")
IP = 0xFFFFFFFF81000010


def counts(recording: PerfData) -> list[dict[Any, list[int]]]:
    return [
        {stack: list(weight) for stack, weight in one.stacks.items()} for one in recording.events
    ]


def by_address(recording: PerfData) -> Counter[tuple[str, int, int]]:
    """Count (event, address) in samples and periods, as perf script prints them."""
    found: Counter[tuple[str, int, int]] = Counter()
    for one in recording.events:
        for (_, _, _, address, _), (samples, period) in one.stacks.items():
            found[one.event.name, address, 0] += samples
            found[one.event.name, address, 1] += period
    return found


def by_address_of_script(text: str) -> Counter[tuple[str, int, int]]:
    found: Counter[tuple[str, int, int]] = Counter()
    for line in text.splitlines():
        match = SCRIPT_LINE.search(line)
        if match:
            event, address = match[2], int(match[3], 16)
            found[event, address, 0] += 1
            found[event, address, 1] += int(match[1])
    return found


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("identifier", [False, True])
def test_samples_are_counted_by_event_cpu_task_address_and_chain(
    make_perf_data: MakePerfData, order: str, *, identifier: bool
) -> None:
    data = make_perf_data(
        [
            {"ip": IP, "cpu": 1, "pid": 7, "period": 10, "chain": (IP, 5)},
            {"ip": IP, "cpu": 1, "pid": 8, "period": 20, "chain": (IP, 5)},
            {"ip": IP, "cpu": 1, "pid": 8, "period": 20, "chain": (IP, 6)},
            {"ip": IP, "cpu": 0, "pid": 0, "period": 3},
            {"ip": 0x400000, "pid": 8, "period": 4, "mode": MODE_USER, "event": 1},
        ],
        events=[("cycles", 0, 0), ("instructions:u", 0, 1)],
        order=order,
        identifier=identifier,
    )
    recording = read_perf_data(data, "perf.data")
    chain = struct.pack(order + "2Q", IP, 5)
    other = struct.pack(order + "2Q", IP, 6)
    assert counts(recording) == [
        {
            (MODE_KERNEL, 1, ANY_TASK, IP, chain): [2, 30],
            (MODE_KERNEL, 1, ANY_TASK, IP, other): [1, 20],
            (MODE_KERNEL, 0, 0, IP, b""): [1, 3],
        },
        {(MODE_USER, 0, 8, 0x400000, b""): [1, 4]},
    ]
    assert [(one.event.name, one.samples, one.period) for one in recording.events] == [
        ("cycles", 4, 53),
        ("instructions:u", 1, 4),
    ]
    assert recording.byte_order == order
    assert recording.notes == ()


@pytest.mark.parametrize("attr_bytes", [64, 72, 136, 4096])
def test_attributes_of_old_and_future_kernels_are_read(
    make_perf_data: MakePerfData, attr_bytes: int
) -> None:
    data = make_perf_data([{"ip": IP}], attr_bytes=attr_bytes)
    assert read_perf_data(data, "perf.data").events[0].samples == 1


def test_fields_that_were_not_asked_for_have_defaults(make_perf_data: MakePerfData) -> None:
    data = bytearray(make_perf_data())
    ip_only = struct.pack("<Q", 1)
    data[104 + 24 : 104 + 32] = ip_only
    start, size = struct.unpack_from("<2Q", data, 40)
    assert size == 0
    data[start:start] = struct.pack("<IHHQ", 9, 1, 16, IP)
    data[48:56] = struct.pack("<Q", 16)
    recording = read_perf_data(bytes(data), "perf.data")
    assert counts(recording) == [{(MODE_KERNEL, NO_CPU, ANY_TASK, IP, b""): [1, 4000]}]


def test_records_that_are_not_known_are_skipped_and_counted(make_perf_data: MakePerfData) -> None:
    records = [(40, b"\0" * 16), (200, b""), (40, b""), (68, b"")]
    recording = read_perf_data(make_perf_data([{"ip": IP}], records=records), "perf.data")
    assert recording.skipped == {40: 2, 200: 1}
    assert recording.events[0].samples == 1


def test_lost_records_and_throttling_are_counted(make_perf_data: MakePerfData) -> None:
    records = [
        (2, struct.pack("<2Q", 1, 5)),
        (13, struct.pack("<Q", 2)),
        (5, struct.pack("<3Q", 0, 1, 1)),
        (6, struct.pack("<3Q", 0, 1, 1)),
    ]
    recording = read_perf_data(make_perf_data(records=records), "perf.data")
    assert (recording.lost, recording.throttled) == (7, 1)


@pytest.mark.parametrize(("kind", "size"), [(66, "<I"), (71, "<Q")])
def test_payload_behind_a_record_is_skipped(
    make_perf_data: MakePerfData, kind: int, size: str
) -> None:
    data = bytearray(make_perf_data([{"ip": IP}], records=[(kind, struct.pack(size, 24))]))
    start = struct.unpack_from("<Q", data, 40)[0] + 8 + struct.calcsize(size)
    data[start:start] = b"\xff" * 24
    data[48:56] = struct.pack("<Q", struct.unpack_from("<Q", data, 48)[0] + 24)
    assert read_perf_data(bytes(data), "perf.data").events[0].samples == 1


def test_a_payload_that_is_longer_than_the_file_is_an_error(make_perf_data: MakePerfData) -> None:
    data = make_perf_data([{"ip": IP}], records=[(71, struct.pack("<Q", 1 << 40))])
    offset = struct.unpack_from("<Q", data, 40)[0]
    with pytest.raises(
        InputError, match=f"the record at offset {offset:#x} has an impossible size"
    ):
        read_perf_data(data, "perf.data")


def test_samples_of_no_known_event_are_counted_in_a_note(make_perf_data: MakePerfData) -> None:
    events = [("cycles", 0, 0), ("instructions", 0, 1)]
    data = make_perf_data([{"ip": IP, "event": 0}, {"ip": IP, "event": 5}], events=events)
    recording = read_perf_data(data, "perf.data")
    assert [one.samples for one in recording.events] == [1, 0]
    assert recording.notes == ("samples that belong to no event of the file: 1",)


def test_events_that_hide_their_ids_from_each_other_are_refused(
    make_perf_data: MakePerfData,
) -> None:
    data = bytearray(make_perf_data([{"ip": IP}], events=[("cycles", 0, 0), ("faults", 1, 2)]))
    without_time = 0x1E7 & ~4
    struct.pack_into("<Q", data, 104 + 24, without_time)
    with pytest.raises(InputError, match="the events have their ids in different places"):
        read_perf_data(bytes(data), "perf.data")


def test_call_chains_behind_the_counts_of_a_group_cost_a_note(
    make_perf_data: MakePerfData,
) -> None:
    data = bytearray(make_perf_data([{"ip": IP, "chain": (IP,)}]))
    with_read, grouped = 0x1E7 | 0x10, 1 << 3
    struct.pack_into("<2Q", data, 104 + 24, with_read, grouped)
    recording = read_perf_data(bytes(data), "perf.data")
    assert counts(recording) == [{(MODE_KERNEL, 0, ANY_TASK, IP, b""): [1, 1]}]
    assert recording.notes == ("cycles: call chains behind the counts of a group are not read",)


def test_mappings_are_inherited_by_children_until_they_map_their_own(
    make_perf_data: MakePerfData,
) -> None:
    data = make_perf_data(
        mappings=[(7, 0x1000, 0x1000, "/bin/sh"), (8, 0x1000, 0x800, "/bin/hackbench")],
        records=[(7, struct.pack("<4IQ", 8, 7, 8, 7, 0)), (7, struct.pack("<4IQ", 7, 8, 7, 8, 0))],
    )
    mappings = read_perf_data(data, "perf.data").mappings
    assert mappings.find(7, 0x1FFF) == "/bin/sh"
    assert mappings.find(7, 0x2000) is None
    assert mappings.find(8, 0x1000) == "/bin/hackbench"
    assert mappings.find(8, 0x1800) == "/bin/sh"
    assert mappings.find(9, 0x1000) is None


def test_the_kernels_own_mapping_says_where_the_kernel_was(make_perf_data: MakePerfData) -> None:
    data = make_perf_data(kernel=("_stext", 0xFFFF800008010000))
    kernel = read_perf_data(data, "perf.data").kernel
    assert kernel is not None
    assert (kernel.symbol, kernel.address) == ("_stext", 0xFFFF800008010000)


@pytest.mark.parametrize("size", [0, 7, 60000])
def test_a_record_of_impossible_size_is_an_error_that_names_its_offset(
    make_perf_data: MakePerfData, size: int
) -> None:
    data = bytearray(make_perf_data([{"ip": IP}, {"ip": IP}]))
    start, length = struct.unpack_from("<2Q", data, 40)
    second = start + length // 2
    struct.pack_into("<H", data, second + 6, size)
    with pytest.raises(InputError, match=f"^perf.data: the record at offset {second:#x}"):
        read_perf_data(bytes(data), "perf.data")


@pytest.mark.parametrize("size", [16, 56])
def test_a_sample_that_is_too_short_is_an_error_that_names_its_offset(
    make_perf_data: MakePerfData, size: int
) -> None:
    body = b"\0" * (size - 8)
    data = make_perf_data(events=[("cycles", 0, 0), ("instructions", 0, 1)], records=[(9, body)])
    offset = struct.unpack_from("<Q", data, 40)[0]
    with pytest.raises(InputError, match=f"^perf.data: the sample at offset {offset:#x} is too"):
        read_perf_data(data, "perf.data")


def test_a_call_chain_that_is_longer_than_its_sample_is_an_error(
    make_perf_data: MakePerfData,
) -> None:
    data = bytearray(make_perf_data([{"ip": IP}]))
    start = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, start + 56, 1 << 61)
    with pytest.raises(InputError, match="too short for its fields"):
        read_perf_data(bytes(data), "perf.data")


def test_a_file_of_a_killed_perf_is_read_to_its_end_with_a_note(
    make_perf_data: MakePerfData,
) -> None:
    whole = make_perf_data([{"ip": IP}] * 3)
    start, size = struct.unpack_from("<2Q", whole, 40)
    killed = bytearray(whole[: start + size - 8])
    killed[48:56] = bytes(8)
    recording = read_perf_data(bytes(killed), "perf.data")
    assert recording.events[0].samples == 2
    assert recording.events[0].event.name == "cycles"
    assert recording.notes == (
        "cut off: perf did not end properly, or the copy is partial",
        f"the last {size // 3 - 8} bytes are not a whole record",
    )


def test_a_partial_copy_is_read_to_its_end_with_a_note(make_perf_data: MakePerfData) -> None:
    whole = make_perf_data([{"ip": IP}] * 3)
    start, size = struct.unpack_from("<2Q", whole, 40)
    recording = read_perf_data(whole[: start + size - 1], "perf.data")
    assert recording.events[0].samples == 2
    assert len(recording.notes) == 2


def test_a_damaged_feature_section_costs_a_note(make_perf_data: MakePerfData) -> None:
    data = make_perf_data([{"ip": IP}], features={2: b"\0" * 9, 12: b"", 14: b""})
    recording = read_perf_data(data, "perf.data")
    assert recording.features.kernel_build_id is None
    assert recording.events[0].event.name == "cycles"
    assert [note.partition(" is damaged: ")[0] for note in recording.notes] == [
        "header section 12",
        "header section 14",
    ]


@pytest.mark.parametrize("cpus", ["0-4294967295", "x", "3-1"])
def test_impossible_lists_of_cpus_cost_a_note(make_perf_data: MakePerfData, cpus: str) -> None:
    recording = read_perf_data(make_perf_data([{"ip": IP}], nodes={0: cpus}), "perf.data")
    assert recording.features.node_of_cpu == {}
    assert "not a list of cpus" in recording.notes[0]


def test_an_absurd_number_of_nodes_costs_a_note(make_perf_data: MakePerfData) -> None:
    nodes = struct.pack("<I", 1 << 31)
    recording = read_perf_data(make_perf_data([{"ip": IP}], features={14: nodes}), "perf.data")
    assert recording.notes[0].endswith(f"{1 << 31} nodes; record it again")


def test_nodes_that_share_cpus_cost_a_note(make_perf_data: MakePerfData) -> None:
    recording = read_perf_data(make_perf_data([{"ip": IP}], nodes={0: "0-3", 1: "3"}), "perf.data")
    assert recording.notes[0].endswith("node 1 has another's CPUs; record it again")


def test_nodes_are_read(make_perf_data: MakePerfData) -> None:
    recording = read_perf_data(
        make_perf_data([{"ip": IP}], nodes={0: "0,2", 1: "1,3-4"}), "perf.data"
    )
    assert recording.features.node_of_cpu == {0: 0, 2: 0, 1: 1, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a perf.data file"),
        (b"\x7fELF" + bytes(200), "not a perf.data file"),
        (b"PERFFILE" + bytes(200), "of before Linux 2.6.39"),
        (b"PERFILE2", "8 bytes wanted at offset 0x8, 0 are left"),
        (b"PERFILE2" + struct.pack("<Q", 16) + bytes(80), "as written to a pipe"),
        (b"PERFILE2" + struct.pack("<Q", 104), "16 bytes are no perf.data header"),
        (b"PERFILE2" + struct.pack("<Q", 104) + bytes(88), "attributes of 0 bytes"),
    ],
)
def test_what_is_no_perf_data_of_a_known_kind_is_one_clear_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_perf_data(data, "base.tar: perf.data")
    assert message in str(caught.value)
    assert str(caught.value).startswith("base.tar: perf.data: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("bit", "message"), [(27, "record it without -z"), (24, "--threads")])
def test_kinds_that_are_not_read_say_how_to_record_instead(
    make_perf_data: MakePerfData, bit: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_perf_data(make_perf_data([{"ip": IP}], features={bit: b""}), "perf.data")


def test_compressed_records_of_a_killed_perf_are_refused_too(make_perf_data: MakePerfData) -> None:
    with pytest.raises(InputError, match="record it without -z"):
        read_perf_data(make_perf_data(records=[(81, b"\0" * 8)]), "perf.data")


def test_enormous_numbers_of_events_and_ids_are_refused(make_perf_data: MakePerfData) -> None:
    data = bytearray(make_perf_data(attr_bytes=64))
    many = data + bytes(80 * 5000)
    struct.pack_into("<2Q", many, 24, 104, 80 * 5000)
    with pytest.raises(InputError, match="5000 events"):
        read_perf_data(bytes(many), "perf.data")
    struct.pack_into("<2Q", data, 104 + 64, 0, 1 << 40)
    with pytest.raises(InputError, match="more than 1048576 event ids"):
        read_perf_data(bytes(data), "perf.data")


def test_a_real_recording_has_the_samples_that_perf_script_prints(recorded: Any) -> None:
    command = ["perf", "script", "-i", recorded.path, "-G", "-F", "event,ip,period"]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    recording = read_perf_data(recorded.path.read_bytes(), "perf.data")
    found = by_address(recording)
    assert found == by_address_of_script(script)
    assert sum(one.samples for one in recording.events) > 20
    assert recording.notes == ()


def test_a_real_recording_knows_its_machine(recorded: Any) -> None:
    recording = read_perf_data(recorded.path.read_bytes(), "perf.data")
    features = recording.features
    assert len(features.node_of_cpu) == os.sysconf("SC_NPROCESSORS_ONLN")
    assert re.fullmatch("[0-9a-f]{40}", features.kernel_build_id or "")
    assert recording.kernel is not None
    assert f"{recording.kernel.address:x} T {recording.kernel.symbol}" in recorded.kallsyms


def foreign_files() -> list[Path]:
    folders = [SAMPLES / name for name in ("quipper", "hotspot", "linux-perf-data", "perfparser")]
    found = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in found if path.read_bytes()[:8] == b"PERFILE2"]


def test_files_of_other_machines_are_read_or_refused_by_kind() -> None:
    files = foreign_files()
    if not files:
        pytest.skip(f"no files of other machines: {SAMPLES} does not exist")
    refused = {}
    for path in files:
        try:
            recording = read_perf_data(path.read_bytes(), path.name)
        except InputError as error:
            refused[path.name] = str(error)
        else:
            assert sum(one.samples for one in recording.events) > 0, path.name
    assert len(files) - len(refused) >= 18
    assert all("pipe" in text or "compressed" in text for text in refused.values()), refused


def test_samples_of_other_machines_are_those_that_perf_script_printed() -> None:
    scripts = sorted((SAMPLES / "expected-perf6.10").glob("*.script.gz"))
    if not scripts:
        pytest.skip(f"no output of perf script: {SAMPLES} does not exist")
    compared = 0
    for script in scripts:
        folder, _, name = script.name.removesuffix(".script.gz").partition("_")
        path = SAMPLES / folder / name
        expected = by_address_of_script(gzip.decompress(script.read_bytes()).decode())
        if not path.exists() or path.read_bytes()[8:16] == struct.pack("<Q", 16) or not expected:
            continue
        found = by_address(read_perf_data(path.read_bytes(), path.name))
        if {event for event, _, _ in found} == {event for event, _, _ in expected}:
            assert found == expected, path.name
            compared += 1
    assert compared >= 8


@pytest.fixture(scope="session")
def small_file(make_perf_data: MakePerfData) -> bytes:
    return make_perf_data(
        [{"ip": IP + i, "cpu": i % 2, "chain": (IP, i), "event": i % 2} for i in range(20)],
        events=[("cycles", 0, 0), ("instructions", 0, 1)],
        kernel=("_text", IP),
        mappings=[(7, 0x1000, 0x1000, "/bin/sh")],
        records=[(7, struct.pack("<4IQ", 8, 7, 8, 7, 0)), (2, struct.pack("<2Q", 1, 5))],
        nodes={0: "0", 1: "1"},
        features={
            7: struct.pack("<2I", 2, 2),
            11: struct.pack("<I", 1) + struct.pack("<I", 8) + b"perf\0\0\0\0",
            20: struct.pack("<2I", 1, 0),
            2: struct.pack("<IHHI24s20s", 0, 1, 56, 0xFFFFFFFF, b"\1" * 20, b"[kernel.kallsyms]\0"),
        },
    )


def read_or_refuse(data: bytes) -> None:
    try:
        recording = read_perf_data(data, "perf.data")
    except InputError:
        return
    assert sum(one.samples for one in recording.events) <= len(data) // 8


@pytest.mark.property
class TestDamage:
    """Any damage gives a result or one InputError."""

    @given(data=st.data())
    def test_truncation(self, small_file: bytes, data: st.DataObject) -> None:
        read_or_refuse(small_file[: data.draw(st.integers(0, len(small_file)))])

    @settings(max_examples=300)
    @given(data=st.data())
    def test_flipped_bits(self, small_file: bytes, data: st.DataObject) -> None:
        damaged = bytearray(small_file)
        for _ in range(data.draw(st.integers(1, 4))):
            bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
            damaged[bit // 8] ^= 1 << bit % 8
        read_or_refuse(bytes(damaged))

    @settings(max_examples=300)
    @given(data=st.data())
    def test_overwritten_words(self, small_file: bytes, data: st.DataObject) -> None:
        damaged = bytearray(small_file)
        offset = data.draw(st.integers(0, len(damaged) // 4 - 1)) * 4
        word = data.draw(st.sampled_from([0, 1, 7, 8, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]))
        damaged[offset : offset + 4] = struct.pack("<I", word)
        read_or_refuse(bytes(damaged))

    @settings(max_examples=20)
    @given(data=st.data())
    def test_a_real_recording(self, recorded: Any, data: st.DataObject) -> None:
        damaged = bytearray(recorded.path.read_bytes())
        for _ in range(8):
            bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
            damaged[bit // 8] ^= 1 << bit % 8
        read_or_refuse(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
