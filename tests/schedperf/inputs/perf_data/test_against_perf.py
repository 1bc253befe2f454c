# SPDX-License-Identifier: GPL-2.0-or-later
"""Real recordings have what perf itself finds in them, those of other machines as well."""

import gzip
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schedperf.inputs.perf_data import Keep, Recording, read_perf_data
from schedperf.inputs.perf_data.recording import CONTEXT_MAX, CONTEXT_USER, NO_FILE
from schedperf.model.errors import InputError
from tests.shared_data import shared

PRINTED = "data/perfdata/expected-perf6.10"
ByAddress = Callable[[Recording], Counter[tuple[str, int, int]]]

# Period, event and address of a sample line of `perf script`.
SCRIPT_LINE = re.compile(r"(\d+)\s+(\S+?):?\s+([0-9a-f]{6,})\s*$")


def by_address_of_script(text: str) -> Counter[tuple[str, int, int]]:
    found: Counter[tuple[str, int, int]] = Counter()
    for line in text.splitlines():
        match = SCRIPT_LINE.search(line)
        if match:
            event, address = match[2], int(match[3], 16)
            found[event, address, 0] += 1
            found[event, address, 1] += int(match[1])
    return found


@pytest.mark.system
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-g",),
        ("-g", "-z"),
        ("-g", "--threads"),
        ("-e", "cpu-clock,page-faults,context-switches", "-g"),
        ("-e", "{cpu-clock,page-faults}:S", "-g"),
        ("-e", "sched:sched_switch", "-R", "-g"),
        ("--call-graph", "dwarf,512", "-d"),
    ],
    ids=" ".join,
)
def test_a_recording_has_the_samples_that_perf_script_prints(
    recorded_here_with: Any, by_address: ByAddress, options: tuple[str, ...]
) -> None:
    path = recorded_here_with(*options)
    command = ["perf", "script", "-i", str(path), "-G", "-F", "event,ip,period"]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = by_address_of_script(script)
    recording = read_perf_data(path, "perf.data", keep=frozenset(Keep))
    assert by_address(recording) == expected
    assert sum(count for (_, _, what), count in expected.items() if what == 0) > 5
    assert recording.notes == ()
    assert by_address(read_perf_data(path, "perf.data")) == expected


@pytest.mark.system
def test_what_perf_wrote_to_a_pipe_has_the_same_samples(by_address: ByAddress) -> None:
    command = ["perf", "record", "-a", "-N", "-g", "-F", "499", "-o", "-", "--", "sleep", "0.2"]
    data = subprocess.run(command, capture_output=True).stdout
    if not data:
        pytest.skip("perf record -a does not work here")
    script = subprocess.run(
        ["perf", "script", "-i", "-", "-G", "-F", "event,ip,period"],
        input=data, capture_output=True, check=True,
    ).stdout  # fmt: skip
    expected = by_address_of_script(script.decode())
    assert expected
    assert by_address(read_perf_data(data, "perf.data")) == expected


@pytest.mark.system
def test_cpu_and_name_are_those_of_perf_report(recorded_here_with: Any) -> None:
    path = recorded_here_with("-g")
    report = subprocess.run(
        ["perf", "report", "-i", str(path), "--no-children", "-g", "none", "--stdio", "-t", ";",
         "-F", "sample,period,cpu,comm", "--sort", "cpu,comm"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    expected = {}
    for line in report.splitlines():
        fields = [field.strip() for field in line.split(";")]
        if len(fields) == 4 and fields[0].isdigit():
            expected[int(fields[2]), fields[3]] = int(fields[0]), int(fields[1])
    samples = (recording := read_perf_data(path, "x", keep=frozenset({Keep.TASK}))).samples
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for row in range(len(samples)):
        key = int(samples.cpu[row]), recording.tasks[samples.task[row]].comm
        count, period = found.get(key, (0, 0))
        found[key] = count + int(samples.count[row]), period + int(samples.period[row])
    assert found == expected
    assert {"parent", "child"} <= {name for _, name in found}


def offsets_in_files(recording: Recording, row: int) -> tuple[int, ...]:
    """Return a row's call chain as perf script prints it: user code by its place in the file."""
    words = recording.chains[recording.samples.chain[row]]
    spaces = np.full(len(words), recording.samples.space[row])
    files, offsets = recording.spaces.find(spaces, words)
    printed, of_user = [], False
    for word, file, offset in zip(words.tolist(), files.tolist(), offsets.tolist(), strict=True):
        if word >= CONTEXT_MAX:
            of_user = word == CONTEXT_USER
            continue
        is_code = of_user and file != NO_FILE
        path = recording.files[file].path if is_code else ""
        # Memory without a file has no places but its addresses; the vdso is a file of the kernel.
        in_file = path == "[vdso]" or not path.startswith(("//", "[", "/anon", "/dev"))
        printed.append(offset if is_code and in_file else word)
    return tuple(printed)


@pytest.mark.system
def test_call_chains_and_offsets_are_those_of_perf_script(recorded_here_with: Any) -> None:
    path = recorded_here_with("-g")
    # The workload's tasks: where another program of this machine is just being replaced, it is
    # chance which of its files perf still knows.
    names = ("parent", "child")
    command = ["perf", "script", "-i", str(path), "-F", "ip", "--no-inline"]
    command += ["--comms", ",".join(names)]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = Counter(
        tuple(int(line.split()[0], 16) for line in block.splitlines() if line.strip())
        for block in script.split("\n\n")
        if block.strip()
    )
    recording = read_perf_data(path, "perf.data", keep=frozenset({Keep.TASK, Keep.CHAIN}))
    found: Counter[tuple[int, ...]] = Counter()
    for row, count in enumerate(recording.samples.count.tolist()):
        if recording.tasks[recording.samples.task[row]].comm in names:
            found[offsets_in_files(recording, row)] += count
    assert found == expected
    assert max(map(len, expected)) > 5


def test_files_of_other_machines_are_read(foreign_files: dict[str, bytes]) -> None:
    refused = {}
    for name, data in foreign_files.items():
        try:
            recording = read_perf_data(data, name, keep=frozenset(Keep))
        except InputError as error:
            refused[name] = str(error)
        else:
            expected = "has an invalid size" if "zero_size" in name else ""
            assert int(recording.samples.count.sum()) > 0 or expected, name
            assert expected in " ".join(recording.notes), name
            assert not recording.losses.unknown_ids, name
            assert not recording.losses.skipped, name
    assert len(foreign_files) > 30
    assert list(refused) == ["hotspot/perf.data.true.v1"]
    assert (
        "perf.data from before Linux 2.6.39 is not supported"
        in refused["hotspot/perf.data.true.v1"]
    )


def test_samples_of_other_machines_are_those_that_perf_script_printed(
    foreign_files: dict[str, bytes], by_address: ByAddress
) -> None:
    compared = 0
    for script in sorted(shared(PRINTED).glob("*.script.gz")):
        ending = script.name.removesuffix(".script.gz").partition("_")[2]
        names = [name for name in foreign_files if os.path.basename(name) == ending]  # noqa: PTH119
        expected = by_address_of_script(gzip.decompress(script.read_bytes()).decode())
        # perf decodes the branches of Intel PT into samples of its own.
        if not names or not expected or "intel_pt" in ending:
            continue
        found = by_address(read_perf_data(foreign_files[names[0]], names[0]))
        assert found == expected, names[0]
        compared += 1
    assert compared >= 24


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("fibo.compressed2.pipe.data", 547),
        ("sleep.compressed.data", 8),
        ("sleep.compressed.pipe.data", 8),
        ("sleep.compressed2.data", 7),
        ("sleep.compressed2.pipe.data", 7),
    ],
)
def test_compressed_files_of_other_perfs_have_all_samples(
    foreign_files: dict[str, bytes], name: str, samples: int
) -> None:
    counted = re.search(r"SAMPLE: (\d+)", shared(f"{PRINTED}/lpd_{name}.txt").read_text())
    assert counted
    recording = read_perf_data(foreign_files[f"linux-perf-data/{name}"], name)
    assert int(recording.samples.count.sum()) == int(counted[1]) == samples


def test_memory_samples_of_another_machine_are_those_of_its_listing(
    foreign_files: dict[str, bytes],
) -> None:
    listing = shared(f"{PRINTED}/quipper_perf.data.weight_struct.mem.txt").read_text()
    memory = read_perf_data(
        foreign_files["quipper/perf.data.weight_struct"], "x", keep=frozenset({Keep.MEMORY})
    ).memory
    assert memory is not None
    assert len(memory) == 14
    for address, source in zip(memory.address.tolist(), memory.data_src.tolist(), strict=True):
        assert f"{address:x}" in listing
        assert f"{source:x}" in listing
