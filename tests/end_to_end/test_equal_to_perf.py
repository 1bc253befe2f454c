# SPDX-License-Identifier: GPL-2.0-or-later
"""Our profile of a file is perf report's: total periods, and the hottest rows."""

import gzip
import re
import shutil
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pytest

from schedperf.inputs.perf_data import Keep, Recording, read_perf_data
from schedperf.inputs.perf_data.recording import (
    KERNEL_SPACE,
    MODE_GUEST_KERNEL,
    MODE_GUEST_USER,
    MODE_HYPERVISOR,
    MODE_KERNEL,
    MODE_USER,
    NO_FILE,
    NO_TASK,
)
from schedperf.inputs.symbols.local_symbols import symbols_for_file
from schedperf.inputs.symbols.places import KERNEL, place_samples
from schedperf_generators.installed_perf import Reported, perf_report
from schedperf_generators.truth import Counted
from tests.shared_data import shared

KALLSYMS = Path("/proc/kallsyms")
# What perf prints in front of a symbol, by where the CPU was.
LEVELS = {
    MODE_KERNEL: "k", MODE_USER: ".", MODE_GUEST_KERNEL: "g", MODE_GUEST_USER: "u",
    MODE_HYPERVISOR: "H",
}  # fmt: skip
# How perf calls the code that a process generates.
GENERATED = re.compile(r"perf-(\d+)\.map")
UNKNOWN = "[unknown]"
# The pid of a process outside of the recorder's pid namespace, and of one that is about to end.
FOREIGN_PIDS = (0, -1, 0xFFFFFFFF)
# What the recorded load is called. Files of other programs on the machine may be in another root
# directory, which perf does not see.
OWN = "own-hackbench"
# Fewer named rows among the hottest would mean that perf found no symbols to compare with.
LEAST_NAMED = 2
# How many of the collected files even perf 6.1 reads; newer ones read more.
LEAST_READABLE = 25
MAGICS = (b"PERFILE2", b"PERFFILE")
# The length that Qt puts in front of what it compresses.
QT_BYTES = 4


class Place(NamedTuple):
    """An address of the kernel, or in a file that a process had mapped."""

    event: str
    cpu: int
    level: str
    file: str
    address: int


Rows = Mapping[Place, Counted]
NOTHING = Counted(0, 0)


def added(one: Counted, other: Counted) -> Counted:
    return Counted(one.samples + other.samples, one.period + other.period)


def file_name(path: str) -> str:
    """Return perf's name of a mapped file."""
    return GENERATED.sub(r"[JIT] tid \1", PurePosixPath(path).name)


def event_name(recording: Recording, name: str) -> str:
    # Old pipes tell the names of tracepoints in their formats alone, which only perf reads.
    unnamed = any(event.name.startswith("type ") for event in recording.events)
    return "" if unnamed else name


def is_foreign(pid: int | None, pids: AbstractSet[int] | None) -> bool:
    return pid in FOREIGN_PIDS or (pids is not None and pid not in pids)


def is_foreign_code(recording: Recording, row: int, pids: AbstractSet[int] | None = None) -> bool:
    """Return whether it is user code of a process that is left out.

    No one can say of which file the code of FOREIGN_PIDS is; perf looks among those of all
    processes. The idle task has pid 0 too, but no user code.

    :param pids: the others; None for all
    """
    samples = recording.samples
    task = int(samples.task[row])
    pid = FOREIGN_PIDS[0] if task == NO_TASK else recording.tasks[task].pid
    return int(samples.mode[row]) == MODE_USER and is_foreign(pid, pids)


def by_address(recording: Recording) -> Rows:
    """Return our rows by address."""
    samples = recording.samples
    files, offsets = recording.spaces.find(samples.space, samples.ip)
    rows: dict[Place, Counted] = defaultdict(lambda: NOTHING)
    for row in range(len(samples)):
        level = LEVELS.get(int(samples.mode[row]), "")
        name, address = "", int(samples.ip[row])
        if is_foreign_code(recording, row):
            name, address = UNKNOWN, 0
        elif level in {".", "u"}:
            name = UNKNOWN
            if files[row] != NO_FILE:
                name, address = file_name(recording.files[files[row]].path), int(offsets[row])
        event = event_name(recording, recording.events[samples.event[row]].name)
        place = Place(event, int(samples.cpu[row]), level, name, address)
        counted = Counted(int(samples.count[row]), int(samples.period[row]))
        rows[place] = added(rows[place], counted)
    return dict(rows)


def perf_by_address(path: Path, folder: Path, recording: Recording) -> Rows:
    """Return perf's rows by address: it is given no symbols, so that it prints addresses."""
    nothing = folder / "no-symbols"
    nothing.touch()
    options = (
        "--kallsyms", str(nothing), "--symfs", str(folder), "--no-itrace", "--no-branch-stack"
    )  # fmt: skip
    offsets = module_offsets(recording)
    rows: dict[Place, Counted] = defaultdict(lambda: NOTHING)
    for row, counted in perf_report(path, *options, keys="cpu,pid,dso,symbol").items():
        place = perf_place(row, offsets)._replace(event=event_name(recording, row.event))
        rows[place] = added(rows[place], counted)
    return dict(rows)


def module_offsets(recording: Recording) -> Mapping[tuple[str, int], int]:
    """Return the addresses of all sampled instructions of modules by module and offset in it."""
    samples = recording.samples
    kernel = np.isin(samples.mode, (MODE_KERNEL, MODE_GUEST_KERNEL))
    spaces = np.where(kernel, KERNEL_SPACE, samples.space)
    files, offsets = recording.spaces.find(spaces, samples.ip)
    return {
        (module_name(recording.files[file].path), int(offset)): int(address)
        for file, offset, address in zip(files, offsets, samples.ip, strict=True)
        if file != NO_FILE and ".ko" in recording.files[file].path
    }


def module_name(path: str) -> str:
    # As perf: without what the file is compressed with, and with underscores.
    return f"[{PurePosixPath(path).name.partition('.ko')[0].replace('-', '_')}]"


def perf_place(row: Reported, offsets: Mapping[tuple[str, int], int]) -> Place:
    name, address = "", int(row.symbol, 16)
    if row.level == "." and row.pid in FOREIGN_PIDS:
        name, address = UNKNOWN, 0
    elif row.level in {".", "u"}:
        name = row.dso
    else:
        # Until perf has looked for a module's symbols, it prints offsets in the module.
        address = offsets.get((row.dso, address), address)
    assert row.cpu is not None
    return Place(row.event, row.cpu, row.level, name, address)


def assert_equal(path: Path, folder: Path) -> None:
    """Assert that perf and we find the same: every row, not the hottest alone."""
    recording = read_perf_data(path, path.name, keep=frozenset({Keep.TASK}))
    ours, theirs = by_address(recording), perf_by_address(path, folder, recording)
    assert sum(row.period for row in ours.values()) == sum(row.period for row in theirs.values())
    assert ours == theirs


class Named(NamedTuple):
    """A row of ``--sort cpu,dso,symbol``.

    :param symbol: what stands for all names of its address; "" where there is no name
    """

    event: str
    cpu: int
    dso: str
    symbol: str


class Aliases:
    """Names of the same address: of these perf and we may choose differently.

    :param named: address and name
    """

    def __init__(self, named: Iterable[tuple[object, str]]) -> None:
        self._other: dict[str, str] = {}
        names: dict[object, str] = {}
        for address, name in named:
            before = self.first(names.setdefault(address, name))
            if before != self.first(name):
                self._other[self.first(name)] = before

    def first(self, name: str) -> str:
        """Return what stands for all names of an address."""
        while name in self._other:
            name = self._other[name]
        return name


class Naming:
    """What stands for a symbol in both tables: "" for what we do not name, and perf does."""

    def __init__(self, recording: Recording) -> None:
        kallsyms = KALLSYMS.read_text(encoding="utf-8").splitlines()
        words = [line.split() for line in kallsyms]
        self._kernel = Aliases((address, name) for address, _, name, *_ in words)
        self._paths = {PurePosixPath(file.path).name: file.path for file in recording.files}
        self._files: dict[str, tuple[Aliases, frozenset[str]]] = {}

    def symbol(self, dso: str, name: str) -> str:
        """Return it of a file, or of the kernel and its modules."""
        if dso.startswith("["):
            return self._kernel.first(name)
        if dso not in self._files:
            self._files[dso] = _file_symbols(Path(self._paths.get(dso, dso)))
        aliases, functions = self._files[dso]
        # perf makes up a name for each entry of the PLT, which lies behind _init, a symbol without
        # a size; and it takes labels of assembly for functions, as _start of the loader.
        if name not in functions or name == "_init":
            return ""
        return aliases.first(name)


def _file_symbols(path: Path) -> tuple[Aliases, frozenset[str]]:
    if not path.is_file():
        return Aliases(()), frozenset()
    # readelf knows nothing of ours, and is quick where a file has 100,000 symbols.
    listed = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True)
    functions = [
        (int(words[1], 16), words[7].partition("@")[0])
        for words in map(str.split, listed.stdout.splitlines())
        if len(words) >= 8 and words[3] in {"FUNC", "IFUNC"} and words[6] != "UND"
    ]
    return Aliases(functions), frozenset(name for _, name in functions)


def by_symbol(
    recording: Recording, naming: Naming, pids: AbstractSet[int] | None
) -> Mapping[Named, Counted]:
    """Return our rows by symbol; those of other processes than some are one per CPU."""
    notes: list[str] = []
    # Pipes and directories do not say which kernel it was.
    symbols = symbols_for_file(recording, KALLSYMS, notes.append)
    placed = place_samples(recording, symbols)
    samples = recording.samples
    rows: dict[Named, Counted] = defaultdict(lambda: NOTHING)
    for number, code in enumerate(placed.of_row.tolist()):
        place = placed.places[code]
        unresolved = place.symbol.endswith(" unresolved")
        symbol = "" if unresolved else naming.symbol(place.dso, place.symbol)
        dso = place.dso
        if dso == "unknown" or is_foreign_code(recording, number, pids):
            dso, symbol = UNKNOWN, ""
        event = recording.events[samples.event[number]].name
        row = Named(event, int(samples.cpu[number]), dso, symbol)
        counted = Counted(int(samples.count[number]), int(samples.period[number]))
        rows[row] = added(rows[row], counted)
    return dict(rows)


def perf_by_symbol(
    path: Path, naming: Naming, pids: AbstractSet[int] | None
) -> Mapping[Named, Counted]:
    """Return perf's rows by symbol, with our names of files, in the same way."""
    rows: dict[Named, Counted] = defaultdict(lambda: NOTHING)
    for row, counted in perf_report(path, "--no-demangle", keys="cpu,pid,dso,symbol").items():
        dso = KERNEL if row.dso == "[kernel.kallsyms]" else row.dso
        symbol = "" if row.symbol.startswith("0x") else naming.symbol(dso, row.symbol)
        if row.level == "." and is_foreign(row.pid, pids):
            dso, symbol = UNKNOWN, ""
        assert row.cpu is not None
        key = Named(row.event, row.cpu, dso, symbol)
        rows[key] = added(rows[key], counted)
    return dict(rows)


def without_names(
    rows: Mapping[Named, Counted], files: AbstractSet[str]
) -> Mapping[Named, Counted]:
    """Return the rows with each of some files as a whole."""
    found: dict[Named, Counted] = defaultdict(lambda: NOTHING)
    for row, counted in rows.items():
        key = row._replace(symbol="") if row.dso in files else row
        found[key] = added(found[key], counted)
    return dict(found)


def unnamed_files(rows: Mapping[Named, Counted]) -> set[str]:
    """Return the files of processes, and the vdso, in which no address has a name."""
    named = {row.dso for row in rows if row.symbol}
    return {row.dso for row in rows if row.dso == "[vdso]" or not row.dso.startswith("[")} - named


def hottest(rows: Mapping[Named, Counted]) -> list[Named]:
    """Return the rows with the largest periods, at most 50."""
    return sorted(rows, key=lambda row: (-rows[row].period, row))[:50]


def assert_symbols_equal(path: Path, program: str | None = None) -> None:
    """Assert that perf and we name the same symbols of what ran.

    :param program: the only one whose user code is compared; None for all
    """
    recording = read_perf_data(path, path.name, keep=frozenset({Keep.TASK, Keep.CHAIN}))
    naming = Naming(recording)
    pids = None
    if program is not None:
        pids = {task.pid for task in recording.tasks if task.comm == program}
        assert pids
    ours, theirs = by_symbol(recording, naming, pids), perf_by_symbol(path, naming, pids)
    # Compared is what both can resolve.
    files = unnamed_files(ours) | unnamed_files(theirs)
    ours, theirs = without_names(ours, files), without_names(theirs, files)
    assert sum(row.period for row in ours.values()) == sum(row.period for row in theirs.values())
    named = {row for row in hottest(theirs) if row.symbol}
    assert len(named) >= LEAST_NAMED
    chosen = {*hottest(ours), *hottest(theirs)}
    assert {row: ours.get(row) for row in chosen} == {row: theirs.get(row) for row in chosen}


def unpacked(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else zlib.decompress(raw[QT_BYTES:])


def sample_files(folder: Path) -> Iterator[Path]:
    """Yield the collected files; those that are packed are unpacked into a directory."""
    for found in sorted(shared("data/perfdata").rglob("*")):
        path = found
        if found.suffix in {".gz", ".zlib"}:
            path = folder / f"{found.parent.name}-{found.stem}"
            path.write_bytes(unpacked(found))
        if path.is_file() and path.read_bytes()[:8] in MAGICS:
            yield path


def test_files_of_many_perfs_have_the_same_rows_as_in_perf_report(tmp_path: Path) -> None:
    equal, refused = [], []
    for path in sample_files(tmp_path):
        # perf ends with status 0 when it does not know a file's attributes or records.
        try:
            rows = perf_report(path, "--no-itrace", "--no-branch-stack", keys="cpu")
        except subprocess.CalledProcessError:
            rows = {}
        if not rows:
            refused.append(path.name)
            continue
        assert_equal(path, tmp_path)
        equal.append(path.name)
    assert len(equal) >= LEAST_READABLE, refused


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return what records a messaging benchmark on all CPUs with options of perf record."""
    hackbench = shutil.which("hackbench")
    if hackbench is None or shutil.which("perf") is None:
        pytest.skip("needs perf and hackbench; apt-get install linux-perf rt-tests")

    def run(name: str, *options: str, pipe: bool = False) -> Path:
        path = tmp_path_factory.mktemp(name) / "perf.data"
        (path.parent / OWN).symlink_to(hackbench)
        load = [str(path.parent / OWN), "-l", "100", "-g", "1"]
        # Without -N perf would copy the hit files into the user's cache.
        command = ["perf", "record", "-a", "-N", *options, "-o", "-" if pipe else str(path)]
        done = subprocess.run([*command, "--", *load], capture_output=True, timeout=240)
        if done.returncode:
            pytest.skip(f"perf record {' '.join(options)}: {done.stderr[-200:]!r}; run as root")
        if pipe:
            # Between the records stands what hackbench printed in front of them.
            path.write_bytes(done.stdout[done.stdout.index(b"PERFILE2") :])
        return path

    return run


RECORDINGS: Mapping[str, tuple[str, ...]] = {
    "plain": ("-F", "999"),
    "with call chains": ("-F", "999", "-g"),
    "compressed": ("-F", "999", "-g", "-z"),
    "several events": ("-e", "cpu-clock,page-faults,context-switches", "-F", "999"),
    "a group": ("-e", "{cpu-clock,page-faults,context-switches}:S", "-F", "999"),
    "tracepoints": ("-e", "sched:sched_switch", "-g"),
    "threads": ("-F", "999", "-g", "--threads"),
}


@pytest.mark.system
@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_of_this_machine_has_the_same_rows_as_in_perf_report(
    name: str, record: Callable[..., Path], tmp_path: Path
) -> None:
    path = record("recorded", *RECORDINGS[name])
    assert_equal(path, tmp_path)
    assert_symbols_equal(path, OWN)


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_a_pipe_has_the_same_rows_as_in_perf_report(
    record: Callable[..., Path], tmp_path: Path
) -> None:
    path = record("pipe", "-F", "999", "-g", pipe=True)
    assert_equal(path, tmp_path)
    assert_symbols_equal(path, OWN)
