# SPDX-License-Identifier: GPL-2.0-or-later
"""No bundle below 1 MB takes more than 500 MB of memory or 10 s of CPU time, whatever it holds."""

import gzip
import hashlib
import io
import json
import lzma
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import zstandard

from schedperf.inputs.benchmarks import all_parsers
from schedperf.inputs.bundle.json import MOST_JSON_VALUES
from tests.conftest import bundle_members, write_tar
from tests.golden_evidence import samples as samples_of_profile
from tests.schedperf.inputs.benchmarks.samples import samples

SMALL_BYTES = 1_000_000
# Of the 10 s, one is left for the start of the command.
MOST_MB, MOST_SECONDS = 500, 9
MIB = 1 << 20
# All parsers read it.
EVERY_SAMPLE = "".join(f"{samples(parser)[0].text}\n" for parser in all_parsers().values())
HOST, RUN, MANIFEST = "boots/0/host.json", "boots/0/runs/000/run.json", "manifest.json"

# It has imported what a comparison needs, which would take most of the time of a command. Of each
# line of stdin it runs the command in a child, and prints what that took; children of the child are
# counted. What commands print goes to stderr.
MEASURE = """\
import json, os, sys
from schedperf.cli import main
results = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
main(["compare", sys.argv[1], sys.argv[1]])
sys.stdout.flush()
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        status = main(json.loads(line))
        sys.stdout.flush()
        os._exit(status)
    _, status, took = os.wait4(pid, 0)
    status = os.waitstatus_to_exitcode(status)
    print(status, took.ru_maxrss * 1024 / 1e6, took.ru_utime + took.ru_stime, file=results)
    results.flush()
"""


class Took(NamedTuple):
    """What a command printed, how it ended, and what it took."""

    said: str
    status: float
    memory_mb: float
    seconds: float


Measure = Callable[[Sequence[str]], Took]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measure]:
    """Return a function that runs a command of schedperf and measures it."""
    folder = tmp_path_factory.mktemp("measure")
    sound = write_tar(folder / "sound.tar", bundle_members().items())
    program = [sys.executable, "-c", MEASURE, str(sound)]
    with (
        (folder / "said").open("wb") as stderr,
        (folder / "said").open("rb") as said,
        subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin, process.stdout

        def run(words: Sequence[str]) -> Took:
            print(json.dumps(words), file=to, flush=True)
            took = map(float, back.readline().split())
            return Took(said.read().decode(errors="replace"), *took)

        yield run
        to.close()


def _with(content: bytes, later: bytes) -> bytes:
    """Return a JSON object with a field that no reader knows."""
    return content.rstrip()[:-1] + b', "later": ' + later + b"}"


def _fill(*names: str, later: bytes) -> Callable[[], Mapping[str, bytes]]:
    def make() -> Mapping[str, bytes]:
        members = bundle_members(runs=1)
        return {
            name: _with(content, later) if name in names else content
            for name, content in members.items()
        }

    return make


def _many_runs() -> Mapping[str, bytes]:
    lists = b"[" + b"[]," * (8 * MIB // 3 - 3000) + b"0]"
    members = bundle_members(runs=40)
    return {
        name: _with(content, lists) if name.endswith("run.json") else content
        for name, content in members.items()
    }


def _densest(values: int) -> bytes:
    # An object for each value.
    nest = b'{"a":' * 20 + b"{}" + b"}" * 20
    return b"[" + b",".join([nest] * (values // 22 - 100)) + b"]"


def _accepted_runs() -> Mapping[str, bytes]:
    """Return runs that have as many values as a bundle may have."""
    members = bundle_members(runs=10)
    host = json.loads(members[HOST])
    host["kernel"]["later"] = json.loads(_densest(MOST_JSON_VALUES * 9 // 10))
    return {
        name: (
            json.dumps(host, separators=(",", ":")).encode()
            if name == HOST
            else _with(content, _densest(MOST_JSON_VALUES // 10))
            if name.endswith("run.json")
            else content
        )
        for name, content in members.items()
    }


def _with_checksums(members: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Write the checksums of changed members into the manifest, whose size may be anything."""
    manifest = members[MANIFEST]
    runs = sum(name.endswith("run.json") for name in members)
    for name, content in bundle_members(runs=runs).items():
        if name != MANIFEST:
            old, new = (hashlib.sha256(each).hexdigest() for each in (content, members[name]))
            manifest = manifest.replace(old.encode(), new.encode())
    return {**members, MANIFEST: manifest}


LISTS = b"[" + b"[]," * (20 * MIB) + b"0]"
DOCUMENTS: Mapping[str, Callable[[], Mapping[str, bytes]]] = {
    "60 MiB of lists in the manifest": _fill(MANIFEST, later=LISTS),
    "60 MiB of lists in host.json and run.json": _fill(HOST, RUN, later=LISTS),
    "8 MiB of lists in each of 40 run.json": _many_runs,
    "as many objects as a manifest may have": _fill(MANIFEST, later=_densest(MOST_JSON_VALUES)),
    "as many objects as a bundle may have": _accepted_runs,
    "a character of four bytes in a long manifest": _fill(
        MANIFEST, later=b'"' + "\N{GRINNING FACE}".encode() + b"a" * (30 * MIB) + b'"'
    ),
}


def _zeros(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield bytes(MIB)


def _bomb(count: int) -> Iterator[bytes]:
    """Yield a tar with so many MiB of zeros in members of 256 MiB."""
    for name, content in bundle_members(runs=1).items():
        info = tarfile.TarInfo(name)
        info.size = len(content)
        yield info.tobuf() + content + bytes(-len(content) % 512)
    for number in range(count // 256):
        info = tarfile.TarInfo(f"boots/0/runs/000/zeros-{number}")
        info.size = 256 * MIB
        yield info.tobuf()
        yield from _zeros(256)
    yield bytes(1024)


def _gz_bomb(path: Path) -> None:
    # A MiB of zeros takes 1 kB.
    with gzip.open(path, "wb") as file:
        file.writelines(_bomb(768))


def _xz_bomb(path: Path) -> None:
    with lzma.open(path, "wb", preset=0) as file:
        file.writelines(_bomb(768))


def _zst_bomb(path: Path) -> None:
    with path.open("wb") as raw, zstandard.ZstdCompressor(level=1).stream_writer(raw) as file:
        for part in _bomb(8 * 1024):
            file.write(part)


def _check(
    measure: Measure,
    folder: Path,
    hostile: Path,
    *,
    base: Mapping[str, bytes] | None = None,
    is_read: bool = False,
) -> None:
    """Compare a bundle with a sound one and show it, and measure both.

    :param base: the sound one; None: without evidence
    :param is_read: whether the bundle is accepted
    """
    assert hostile.stat().st_size < SMALL_BYTES
    sound = write_tar(folder / "base.tar", (base or bundle_members()).items())
    for words in (["show", hostile], ["compare", sound, hostile, "--strict"]):
        command = list(map(str, words))
        took = measure(command)
        assert "Traceback" not in took.said
        assert took.status in ({0, 1, 3, 4} if is_read else {0, 1, 2, 3, 4}), took.said
        assert took.memory_mb < MOST_MB, command
        assert took.seconds < MOST_SECONDS, command


def _check_packed(
    measure: Measure,
    folder: Path,
    members: Mapping[str, bytes],
    *,
    base: Mapping[str, bytes] | None = None,
    is_read: bool = False,
) -> None:
    """Pack a bundle, and check it."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path = folder / "new.tar.zst"
    path.write_bytes(zstandard.ZstdCompressor(level=3).compress(plain.getvalue()))
    _check(measure, folder, path, base=base, is_read=is_read)


@pytest.mark.parametrize("make", DOCUMENTS.values(), ids=DOCUMENTS)
def test_large_json_in_a_small_bundle(
    make: Callable[[], Mapping[str, bytes]], measure: Measure, tmp_path: Path
) -> None:
    _check_packed(measure, tmp_path, _with_checksums(make()))


@pytest.mark.parametrize(
    ("text", "size_bytes", "runs", "is_read"),
    [
        # Too much, and as much as is read.
        ("\n", 15 * MIB, 1, False),
        ("\n", 1_000_000, 3, True),
        ("a ", 9 * MIB, 2, False),
        ("a ", 3 * MIB, 5, True),
        (EVERY_SAMPLE, 4 * MIB, 2, False),
        (EVERY_SAMPLE, 700_000, 4, True),
    ],
    ids=lambda value: value[:2] if isinstance(value, str) else value,
)
def test_much_printed_text_in_a_small_bundle(
    text: str, size_bytes: int, runs: int, measure: Measure, tmp_path: Path, *, is_read: bool
) -> None:
    printed = text * (size_bytes // len(text))
    members = bundle_members(runs=[{"stdout": printed}] * runs)
    _check_packed(measure, tmp_path, members, is_read=is_read)


WAIT = "  100.000000 [0000]  hackbench[1/1]  0.000  0.010  0.020\n"
EMPTY_LINES = {
    f"{name}/{when}{table}": "\n" * (60 * MIB)
    for name, table in (("schedstat", ""), ("system_counters", "/interrupts"))
    for when in ("before", "after")
}


@pytest.mark.parametrize(
    ("files", "runs"),
    [
        ({**EMPTY_LINES, "system_counters/facts.json": "{}"}, 1),
        ({"wakeup_latency/timehist.txt": WAIT * (30 * MIB // len(WAIT))}, 4),
    ],
    ids=["empty lines", "waits"],
)
def test_long_texts_of_collectors_in_a_small_bundle(
    files: Mapping[str, str], runs: int, measure: Measure, tmp_path: Path
) -> None:
    probed = [{"kind": "instrumented", "files": files}] * runs
    _check_packed(
        measure, tmp_path, bundle_members(runs=[{"time_s": 0.6}, {"time_s": 0.61}, *probed])
    )


def _instrumented(runs: int, **files: bytes) -> Mapping[str, bytes]:
    name = {name: files[key] for key, name in MEMBERS.items() if key in files}
    return bundle_members(runs=[{}, *[{"kind": "instrumented", "files": name}] * runs])


def _symbols(lines: int) -> Mapping[str, bytes]:
    table = (
        "ffffffff81000000 T _stext\nffffffff82000000 D _sdata\nffffffff83000000 D _edata\n"
        "0000000000000000 D __per_cpu_start\n0000000000030000 D __per_cpu_end\n"
        + "0000000000020000 d x\n"
        * lines
    )
    return bundle_members(files={"boots/0/layout/System.map": table})


def _counters(lines: int) -> Mapping[str, bytes]:
    line = b"12,,cycles,100,100.00,,\n"
    return _instrumented(60, perf_stat=line * lines)


def _commands(records: int) -> Mapping[str, bytes]:
    """Return a bundle whose perf.data has so many names of commands."""
    whole = samples_of_profile(0, 1)
    start, size = struct.unpack_from("<2Q", whole, 40)
    command = struct.pack("<IHH2I16s3Q", 3, 0, 56, 1, 1, b"x", 1, 1, 0)
    data = whole[start : start + size] + command * records
    # No features behind the data.
    sizes = struct.pack("<Q", len(data)) + bytes(48)
    return _instrumented(1, perf_data=whole[:48] + sizes + whole[104:start] + data)


def _wide_text(characters: int) -> Mapping[str, bytes]:
    text = "\N{GRINNING FACE}".encode() + b"a" * (characters * 32)
    return _instrumented(1, wakeups=b'{"later": "' + text + b'"}')


MEMBERS = {
    "perf_stat": "perf_stat/perf_stat.csv",
    "perf_data": "perf_profile/perf.data",
    "wakeups": "wakeup_latency/wakeups.json",
}
FEW = 3


# Too much, and about as much as is read.
@pytest.mark.parametrize(
    ("make", "many"),
    [
        (_symbols, 1_900_000), (_wide_text, 1_900_000),
        (_counters, 150_000), (_counters, 20_000),
        (_commands, 1_900_000), (_commands, 550_000),
    ],
)  # fmt: skip
def test_much_evidence_in_a_small_bundle(
    make: Callable[[int], Mapping[str, bytes]], many: int, measure: Measure, tmp_path: Path
) -> None:
    _check_packed(measure, tmp_path, make(many), base=make(FEW))


@pytest.mark.parametrize("write", [_gz_bomb, _xz_bomb, _zst_bomb])
def test_gibibytes_of_zeros_in_a_small_bundle(
    write: Callable[[Path], None], measure: Measure, tmp_path: Path
) -> None:
    path = tmp_path / "new.tar.packed"
    write(path)
    _check(measure, tmp_path, path)
