# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged inputs of every format: a result or one InputError, and no silence about a cut.

Each format has one whole input, from a generator or from the examples. It is cut, its bits are
flipped, and pieces are lost, repeated and overwritten, in the same way at every run.

A cut is refused or described where the format has sizes, counts, checksums or an end. Where it has
none, ``_Format.hides_cut`` returns the ends at which nothing tells the rest from a whole input.
"""

import io
import json
import lzma
import random
import shutil
import struct
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.account.capture import parse_account
from schedperf.evidence.account.sampled import parse_samples
from schedperf.evidence.account.waits import parse_waits
from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.evidence.c2c.perf_text import is_c2c_text, parse_c2c_text
from schedperf.evidence.layout.compare import analyse_kernels
from schedperf.evidence.layout.sources import load_kernel
from schedperf.evidence.locks.capture import parse_locks
from schedperf.evidence.pelt.capture import parse_bpf_pelt
from schedperf.evidence.perf_stat.capture import parse_perf_stat
from schedperf.evidence.placement.capture import parse_placement
from schedperf.evidence.preemption.capture import parse_preemption
from schedperf.evidence.schedstat.capture import parse_schedstat
from schedperf.evidence.schedstat.perf_sched import parse_sched_stats_report, read_sched_stats
from schedperf.evidence.wakeup_latency.capture import parse_wakeups
from schedperf.inputs.benchmarks import BadLine, all_parsers
from schedperf.inputs.bundle.host import parse_host
from schedperf.inputs.bundle.manifest import parse_run
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.importers.open import Opener
from schedperf.inputs.kernel.kallsyms import parse_kernel_symbols
from schedperf.inputs.kernel.percpu_units import parse_percpu_log
from schedperf.inputs.kernel.user_symbols import parse_user_symbols
from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.side import name_sides
from schedperf.inputs.tables.read import open_table
from schedperf.model.errors import InputError
from schedperf.model.host import Host, read_host
from schedperf.runs.values import read_run_values
from schedperf_generators.features import Feature
from schedperf_generators.memory import scheduler_kernel, scheduler_run
from schedperf_generators.mmtests import write_results
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data, write_perf_data_pipe
from tests.conftest import bundle_members
from tests.schedperf.conftest import write_btf
from tests.schedperf.evidence.account.conftest import write_account, write_waits
from tests.schedperf.evidence.account.test_sampled import write_samples
from tests.schedperf.evidence.schedstat.conftest import (
    write_report,
    write_sched_stats_data,
)
from tests.schedperf.evidence.wakeup_latency.conftest import with_tail
from tests.schedperf.inputs.kernel.test_elf import link_kernel
from tests.stack_documents import blocking_document, locks_document, preemption_document

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "examples" / "cluster-percpu" / "base.tar.xz"
SEED = 20261123
# With the 28 formats below: 22,400 inputs in test-slow.
CUTS, DAMAGED = 300, 500
# CPU time for one input of some kB; most take milliseconds.
MOST_SECONDS = 5.0
WORDS = (b"\0" * 4, b"\xff" * 4, b"\1\0\0\0", b"\xff\xff\xff\x7f", b"9" * 20, b"-1", b"\n", b"=")

# Offsets in the header of perf.data.
_DATA_SECTION, _FEATURES = 40, 72

# What a reader says about damage; nothing if it takes the input for whole.
Read = Callable[[bytes, Path], Iterable[str]]


def _never(_whole: bytes, _end: int) -> bool:
    return False


def _anywhere(_whole: bytes, _end: int) -> bool:
    return True


def _behind_the_end_of_a_tar(whole: bytes, end: int) -> bool:
    # One block of zeros ends an archive; what follows fills the last record.
    members = -(-len(whole.rstrip(b"\0")) // 512) * 512
    return end >= members + 512


def _in_the_index_of_xz(whole: bytes, end: int) -> bool:
    # All of the tar is there; its members have checksums of their own.
    tar = lzma.LZMADecompressor().decompress(whole[:end])
    return _behind_the_end_of_a_tar(lzma.decompress(whole), len(tar))


def _at_a_line_end(whole: bytes, end: int) -> bool:
    return whole[:end].endswith(b"\n")


def _in_the_memory_topology(whole: bytes, end: int) -> bool:
    # The reader uses neither this header section nor, in files, the one behind it.
    offset, size = struct.unpack_from("<QQ", whole, _DATA_SECTION)
    (features,) = struct.unpack_from("<Q", whole, _FEATURES)
    index = (features & ((1 << Feature.MEM_TOPOLOGY) - 1)).bit_count()
    (start,) = struct.unpack_from("<Q", whole, offset + size + 16 * index)
    return bool(end >= start)


def _at_the_end_of_a_record(whole: bytes, end: int) -> bool:
    # Nothing ends the stream of a pipe.
    at = 16
    while at < end:
        at += int.from_bytes(whole[at + 6 : at + 8], "little")
    return at == end


@dataclass(frozen=True)
class _Format:
    make: Callable[[], bytes]
    read: Read
    hides_cut: Callable[[bytes, int], bool] = _never


def _read_perf_data(data: bytes, _folder: Path) -> Iterable[str]:
    return read_perf_data(data, "perf.data", keep=frozenset(Keep)).notes


def _read_c2c_text(data: bytes, _folder: Path) -> Iterable[str]:
    text = data.decode(errors="replace")
    if not is_c2c_text(text):
        raise InputError("report: unknown format")
    return parse_c2c_text(text, "report").damage


def _read_table(data: bytes, folder: Path) -> Iterable[str]:
    path = folder / "a.csv"
    path.write_bytes(data)
    return [found.text for found in open_table(path).caveats]


BENCHFMT = b"""\
cpu: AMD EPYC
pkg: example.com/x
Unit hits/op better=higher
BenchmarkEncode/format=json-8 50 34201.5 ns/op 12 B/op 3 hits/op
BenchmarkEncode/format=json-8 50 33201.5 ns/op 12 B/op 3 hits/op
"""
# Separates the files of a directory in what is damaged.
BETWEEN_FILES = b"\x1e next \x1e"
MMTESTS = (
    "tests-timestamp", "tests-sysstate.gz", "lscpu.txt.gz", "kernel.version",
    "hackbench-process-pipes/logs/hackbench-4",
)  # fmt: skip


def _mmtests_files() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "base"
        write_results(folder, release="6.12", seconds=0.06, boots=1, seed=1)
        return BETWEEN_FILES.join((folder / "iter-0" / file).read_bytes() for file in MMTESTS)


def _read_mmtests(data: bytes, folder: Path) -> Iterable[str]:
    root = folder / "mmtests"
    for file, content in zip(MMTESTS, data.split(BETWEEN_FILES), strict=False):
        path = root / "iter-0" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return _import(f"mmtests:{root}")


def _read_lkp(data: bytes, folder: Path) -> Iterable[str]:
    root = folder / "lkp"
    root.mkdir(exist_ok=True)
    (root / "stats.json").write_bytes(data)
    return _import(f"lkp:{root}")


def _read_benchfmt(data: bytes, folder: Path) -> Iterable[str]:
    path = folder / "old.txt"
    path.write_bytes(data)
    return _import(f"benchfmt:{path}")


def _mangohud() -> bytes:
    rows = "".join(f"100,{10.0 + i % 7},0,{10**7 * (i + 1)}\n" for i in range(40))
    return f"os,cpu,gpu\nArch,Zen,RX\nfps,frametime,cpu_load,elapsed\n{rows}".encode()


def _read_frames(data: bytes, folder: Path) -> Iterable[str]:
    path = folder / "game.csv"
    path.write_bytes(data)
    return _import(f"frames:{path}")


def _import(path: str) -> Iterable[str]:
    with Opener() as opener:
        bundle = opener.open(Path(path))
        values = read_run_values(name_sides([bundle]))
        return [str(each) for each in (*bundle.caveats, *values.caveats)]


def _read_bundle(data: bytes, folder: Path) -> Iterable[str]:
    path = folder / "a.tar"
    path.write_bytes(data)
    bundle = open_bundle(path)
    return (*bundle.broken_members(), *(str(each) for each in bundle.caveats))


def _compare_layouts(name: str, whole: bytes, data: bytes, folder: Path) -> Iterable[str]:
    kernels = []
    for side, content in (("base", whole), ("new", data)):
        path = folder / f"{side}-{name}"
        path.write_bytes(content)
        kernels.append(load_kernel(path))
    layout = analyse_kernels(kernels, line_bytes=64)
    notes = [f"{kernel.side}: {note}" for kernel in layout.kernels for note in kernel.notes]
    return [*map(str, layout.notes), *notes]


def _read_system_map(data: bytes, folder: Path) -> Iterable[str]:
    return _compare_layouts("System.map", _system_map(), data, folder)


def _read_btf(data: bytes, folder: Path) -> Iterable[str]:
    return _compare_layouts("btf", _btf(), data, folder)


def _read_vmlinux(data: bytes, folder: Path) -> Iterable[str]:
    return _compare_layouts("vmlinux", _vmlinux(), data, folder)


def _read_sched_stats(data: bytes, folder: Path) -> Iterable[str]:
    path = folder / "perf.data"
    path.write_bytes(data)
    read_sched_stats(path, "perf.data")
    return ()


def _read_sched_stats_report(data: bytes, _folder: Path) -> Iterable[str]:
    return parse_sched_stats_report(data.decode(errors="replace").splitlines(), "report").notes


def _read_benchmarks(data: bytes, _folder: Path) -> Iterable[str]:
    lines = data.decode(errors="replace").splitlines()
    items = [item for parser in all_parsers().values() for item in parser.read(lines, "stdout")]
    return [item.problem for item in items if isinstance(item, BadLine)]


def _read_perf_stat(data: bytes, _folder: Path) -> Iterable[str]:
    items = parse_perf_stat(data.decode(errors="replace").splitlines(), "stat")
    return [item.problem for item in items if isinstance(item, BadLine)]


def _read_schedstat(data: bytes, _folder: Path) -> Iterable[str]:
    parse_schedstat(data.decode(errors="replace").splitlines(keepends=True), "schedstat")
    return ()


def _of_text(parse: Callable[[str, str], object]) -> Read:
    def read(data: bytes, _folder: Path) -> Iterable[str]:
        parse(data.decode(errors="replace"), "input")
        return ()

    return read


def _of_bytes(parse: Callable[[bytes, str], object]) -> Read:
    def read(data: bytes, _folder: Path) -> Iterable[str]:
        parse(data, "input")
        return ()

    return read


def _decode_host(data: bytes, label: str) -> Host:
    return read_host(parse_host(data, label))


def _memory() -> Any:
    return scheduler_run("base", numa=Numa(cpus=4, nodes=2), scale=0.01).perf_data()


def _system_map() -> bytes:
    return scheduler_kernel().system_map().encode()


def _btf() -> bytes:
    return write_btf([(f"variable_{i}", 64 * i, 4, 1) for i in range(40)])


def _vmlinux() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return link_kernel(Path(folder))


def _table() -> bytes:
    rows = [f"hackbench,groups={i % 3},time,s,lower,{1 + i / 100:.4f}" for i in range(60)]
    return "\n".join(["workload,point,metric,unit,better,value", *rows, ""]).encode()


def _bundle() -> bytes:
    return lzma.compress(_tar(), preset=0)


def _machine(count: int) -> dict[int, dict[str, int]]:
    counts = {"sched_count": count, "newidle lb_gained": count, "ttwu_wake_remote": count}
    return dict.fromkeys(range(4), counts)


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in bundle_members(runs=2).items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def _member(ending: str) -> Callable[[], bytes]:
    def make() -> bytes:
        bundle = open_bundle(BUNDLE)
        name = next(name for name in bundle.names() if name.endswith(ending))
        return bundle.read(name, 1 << 26)

    return make


def _report() -> bytes:
    if shutil.which("perf") is None:
        pytest.skip("perf not installed; apt-get install linux-perf")
    run = scheduler_run("base", numa=Numa(cpus=4, nodes=2), scale=0.1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "perf.data"
        path.write_bytes(write_perf_data(run.perf_data()))
        return subprocess.run(
            ["perf", "c2c", "report", "-i", str(path), "--stdio"], capture_output=True, check=True
        ).stdout


def _user_symbols() -> bytes:
    lines = "".join(f"{0x1000 + 32 * i:x} 20 function_{i}\n" for i in range(40))
    head = {"format": "schedperf-symbols/1", "build_id": "93ac61ec", "path": "/usr/lib/libc.so.6",
            "table": ".dynsym", "functions": 40, "reason": None}  # fmt: skip
    return f"{json.dumps(head)}\n{lines}".encode()


def _perf_stat() -> bytes:
    rows = [f"{28 + i},,event-{i},203050885,100.00,137.897,/sec" for i in range(30)]
    return "\n".join(["# started on Sat Nov 21 02:14:13 2026", "", *rows, ""]).encode()


FORMATS: Mapping[str, _Format] = {
    "perf.data": _Format(
        lambda: write_perf_data(_memory()), _read_perf_data, _in_the_memory_topology
    ),
    "perf.data of a pipe": _Format(
        lambda: write_perf_data_pipe(_memory()),
        _read_perf_data,
        _at_the_end_of_a_record,
    ),
    "compressed perf.data": _Format(
        lambda: write_perf_data(replace(_memory(), compressed=81)),
        _read_perf_data,
        _in_the_memory_topology,
    ),
    # What perf prints with --stats ends where the details end.
    "c2c text": _Format(
        _report, _read_c2c_text, lambda whole, end: whole[:end].endswith(b"offset,iaddr\n")
    ),
    # A table has no number of rows.
    "table": _Format(_table, _read_table, _at_a_line_end),
    "packed bundle": _Format(_bundle, _read_bundle, _in_the_index_of_xz),
    "bundle": _Format(_tar, _read_bundle, _behind_the_end_of_a_tar),
    "System.map, two sides": _Format(_system_map, _read_system_map),
    "BTF, two sides": _Format(_btf, _read_btf),
    "vmlinux, two sides": _Format(_vmlinux, _read_vmlinux),
    # kallsyms has no end and no count; it ends with the symbols of modules.
    "kallsyms": _Format(
        lambda: scheduler_kernel().kallsyms().encode(), _of_text(parse_kernel_symbols), _anywhere
    ),
    "user symbols": _Format(_user_symbols, _of_bytes(parse_user_symbols)),
    # A machine may have fewer CPUs, and a CPU may have no domains.
    "schedstat": _Format(_member("schedstat/after"), _read_schedstat, _at_a_line_end),
    # Nothing says how many snapshots follow, or how many CPUs and domains a machine has.
    "perf sched stats record": _Format(
        lambda: write_sched_stats_data(17, {1: _machine(2), 2: _machine(5)}), _read_sched_stats
    ),
    "perf sched stats report": _Format(
        lambda: write_report(17, _machine(5)).encode(), _read_sched_stats_report
    ),
    "host.json": _Format(_member("host.json"), _of_bytes(_decode_host)),
    "run.json": _Format(_member("runs/001/run.json"), _of_bytes(parse_run)),
    "PELT": _Format(_member("bpf_pelt/pelt.json"), _of_bytes(parse_bpf_pelt)),
    "placement": _Format(_member("bpf_placement/placement.json"), _of_bytes(parse_placement)),
    "wakeup latency": _Format(
        lambda: json.dumps(with_tail(900)).encode(), _of_bytes(parse_wakeups)
    ),
    "locks": _Format(lambda: json.dumps(locks_document(9)).encode(), _of_bytes(parse_locks)),
    "preemption": _Format(
        lambda: json.dumps(preemption_document(9)).encode(), _of_bytes(parse_preemption)
    ),
    "blocking": _Format(
        lambda: json.dumps(blocking_document(90)).encode(), _of_bytes(parse_blocking)
    ),
    "account": _Format(lambda: write_account().encode(), _of_bytes(parse_account)),
    "task times": _Format(lambda: write_samples().encode(), _of_bytes(parse_samples)),
    "waits": _Format(lambda: write_waits().encode(), _of_bytes(parse_waits)),
    "kernel log": _Format(
        lambda: Numa().percpu_lines().encode(), _of_text(parse_percpu_log), _anywhere
    ),
    "perf stat": _Format(_perf_stat, _read_perf_stat, _anywhere),
    # Results of other tools have no end and no count, except JSON.
    "mmtests": _Format(_mmtests_files, _read_mmtests, _anywhere),
    "LKP": _Format(
        lambda: b'{"hackbench.throughput": 123.5, "time.system_time": 7, "x.y": -1}', _read_lkp
    ),
    "benchfmt": _Format(lambda: BENCHFMT, _read_benchfmt, _anywhere),
    "frame times": _Format(_mangohud, _read_frames, _anywhere),
    "benchmark output": _Format(_member("runs/001/stdout"), _read_benchmarks, _anywhere),
}


def attempt(form: _Format, data: bytes, folder: Path) -> list[str]:
    """Read an input and return what the reader says about damage, or its error."""
    began_s = time.process_time()
    try:
        said = [*form.read(data, folder)]
    except InputError as error:
        assert len(str(error).splitlines()) == 1, str(error)  # noqa: PT017 # it need not be raised
        said = [str(error)]
    assert time.process_time() - began_s < MOST_SECONDS
    return said


def damage(chance: random.Random, whole: bytes) -> bytes:
    """Flip bits, overwrite words, repeat or lose pieces or lines, quote, cut."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        length = chance.randrange(1, 200)
        action = chance.randrange(6)
        if action == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif action == 1:
            word = chance.choice(WORDS)
            data[at : at + len(word)] = word
        elif action == 2:
            data[at:at] = data[at : at + length]
        elif action == 3:
            del data[at : at + length]
        elif action == 4:
            data[:] = data.replace(b"\n", chance.choice((b"\n> ", b"\r\n", b"\n\n", b" ")))
        else:
            lines = bytes(data).split(b"\n")
            chance.shuffle(lines)
            data[:] = b"\n".join(lines)
        data = data or bytearray(b"\0")
    if chance.random() < 0.2:
        del data[chance.randrange(len(data)) :]
    return bytes(data)


every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
tries = pytest.mark.parametrize("share", [20, pytest.param(1, marks=pytest.mark.repeats)])


@pytest.mark.property
@every_format
def test_a_whole_input_is_read_without_a_word(form: _Format, tmp_path: Path) -> None:
    whole = form.make()
    assert not [said for said in form.read(whole, tmp_path) if "trunc" in said or "cut" in said]


@pytest.mark.property
@every_format
@tries
def test_a_cut_is_refused_or_described(form: _Format, share: int, tmp_path: Path) -> None:
    whole = form.make()
    chance = random.Random(SEED)  # noqa: S311 # damage, not a secret
    usual = {*attempt(form, whole, tmp_path)}
    # Blanks at the end are no part of the content.
    content = len(whole.rstrip()) if whole.endswith(b"\n") else len(whole)
    silent = []
    for _ in range(CUTS // share):
        end = chance.randrange(content)
        said = attempt(form, whole[:end], tmp_path)
        if not {*said} - usual and not form.hides_cut(whole, end):
            silent.append(end)
    assert not silent, [whole[max(0, end - 60) : end] for end in silent[:4]]


@pytest.mark.property
@every_format
@tries
def test_damage_gives_a_result_or_one_line(form: _Format, share: int, tmp_path: Path) -> None:
    whole = form.make()
    chance = random.Random(SEED)  # noqa: S311 # damage, not a secret
    for _ in range(DAMAGED // share):
        attempt(form, damage(chance, whole), tmp_path)
