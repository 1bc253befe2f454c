"""Shared by the tests of the library: writers of BTF and perf.data, and real files."""

import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Name, offset, size, linkage (0 static, 1 global) of a per-CPU variable.
BtfRow = tuple[str, int, int, int]

KERNELS = Path(__file__).resolve().parents[3] / "shared" / "kernels"


class _Strings:
    def __init__(self) -> None:
        self.table = b"\0"

    def add(self, text: str) -> int:
        offset = len(self.table)
        self.table += text.encode() + b"\0"
        return offset


def _write_btf(
    rows: Sequence[BtfRow],
    *,
    order: str = "<",
    section: str = ".data..percpu",
    section_bytes: int = 4096,
) -> bytes:
    """Write BTF that holds one type of every kind, then the variables and their DATASEC."""
    strings = _Strings()
    words: list[int] = []

    def add(kind: int, members: int, third: int, *more: int, name: str = "") -> None:
        words.extend((strings.add(name), kind << 24 | members, third, *more))

    add(1, 0, 4, 32, name="int")  # type 1: INT
    add(2, 0, 1)  # PTR
    add(3, 0, 0, 1, 1, 8)  # ARRAY
    add(4, 2, 8, 0, 1, 0, 0, 4, 32, name="loop")  # STRUCT whose second member is itself
    add(5, 1, 8, 0, 4, 0)  # UNION
    add(6, 1, 4, 0, 7)  # ENUM
    add(7, 0, 0, name="forward")  # FWD
    add(8, 0, 8, name="self")  # TYPEDEF of itself
    add(9, 0, 10)  # VOLATILE and CONST, each of the other
    add(10, 0, 9)
    add(11, 0, 2)  # RESTRICT
    add(13, 1, 1, 0, 1)  # FUNC_PROTO
    add(12, 0, 12, name="schedule")  # FUNC
    add(16, 0, 8, name="double")  # FLOAT
    add(17, 0, 4, 0, name="tag")  # DECL_TAG
    add(18, 0, 1, name="rcu")  # TYPE_TAG
    add(19, 1, 8, 0, 1, 0)  # type 17: ENUM64
    for name, _, _, linkage in rows:
        add(14, 0, 1, linkage, name=name)
    members = [
        word
        for number, (_, offset, size, _) in enumerate(rows)
        for word in (18 + number, offset, size)
    ]
    add(15, len(rows), section_bytes, *members, name=section)
    types = struct.pack(f"{order}{len(words)}I", *words)
    header = struct.pack(
        order + "HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings.table)
    )
    return header + types + strings.table


@pytest.fixture(scope="session")
def make_btf() -> Callable[..., bytes]:
    """Write raw BTF: ``make_btf([("sd_llc_id", 0x38, 4, 1)], order=">") -> bytes``."""
    return _write_btf


@pytest.fixture(scope="session")
def real_kernel() -> Callable[[str], Path]:
    """Return the folder with one real kernel's System.map and btf; skip where it is absent."""

    def find(name: str) -> Path:
        folder = KERNELS / name
        if not (folder / "System.map").exists():
            pytest.skip(f"no real kernel files: {folder} does not exist")
        return folder

    return find


def _record(order: str, kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack(order + "IHH", kind, misc, 8 + len(body)) + body


def _perf_text(order: str, text: str) -> bytes:
    padded = text.encode() + b"\0" * (64 - len(text) % 64)
    return struct.pack(order + "I", len(padded)) + padded


def _sample(order: str, sample: Mapping[str, Any], *, identifier: bool) -> bytes:
    number = 100 + sample.get("event", 0)
    pid, chain = sample.get("pid", 1), sample.get("chain", ())
    start, middle = ((number,), ()) if identifier else ((), (number,))
    numbers = (*start, sample["ip"])
    body = struct.pack(f"{order}{len(numbers)}Q2IQ", *numbers, pid, pid, 7)
    body += struct.pack(f"{order}{len(middle)}Q", *middle)
    body += struct.pack(
        f"{order}2I2Q", sample.get("cpu", 0), 0, sample.get("period", 1), len(chain)
    )
    body += struct.pack(f"{order}{len(chain)}Q", *chain)
    return _record(order, 9, body, misc=sample.get("mode", 1))


def _mapping(order: str, pid: int, place: tuple[int, int, int], name: str) -> bytes:
    padded = name.encode() + b"\0" * (8 - len(name) % 8)
    return _record(order, 1, struct.pack(order + "2I3Q", pid, pid, *place) + padded)


def _write_perf_data(
    samples: Sequence[Mapping[str, Any]] = (),
    *,
    events: Sequence[tuple[str, int, int]] = (("cycles", 0, 0),),
    order: str = "<",
    identifier: bool = False,
    attr_bytes: int = 128,
    kernel: tuple[str, int] | None = None,
    mappings: Sequence[tuple[int, int, int, str]] = (),
    nodes: Mapping[int, str] = {},
    records: Sequence[tuple[int, bytes]] = (),
    features: Mapping[int, bytes] = {},
) -> bytes:
    """Write perf.data.

    :param samples: ``{"ip": …}`` and, if wanted, event (its index), cpu, pid, period, mode, chain
    :param events: name, type, config
    :param kernel: the symbol and the address that perf found for it
    :param mappings: pid, start, length, file
    :param records: type and body of further records, in front of the samples
    :param features: further feature sections
    """
    ids_start = 104 + len(events) * (attr_bytes + 16)
    # IP, TID, TIME, CALLCHAIN, CPU, PERIOD, and IDENTIFIER or ID.
    sample_type = 0x1A7 | (0x10000 if identifier else 0x40)
    attrs = b""
    for index, (_, kind, config) in enumerate(events):
        attr = struct.pack(order + "2I4Q", kind, attr_bytes, config, 4000, sample_type, 4)
        ids = struct.pack(order + "2Q", ids_start + 8 * index, 8)
        attrs += attr.ljust(attr_bytes, b"\0") + ids
    attrs += struct.pack(f"{order}{len(events)}Q", *range(100, 100 + len(events)))
    data = b"".join(
        [
            *([_mapping(order, 0xFFFFFFFF, (0, 1, kernel[1]), f"[kernel.kallsyms]{kernel[0]}")]
              if kernel else []),
            *(_mapping(order, pid, (start, size, 0), name) for pid, start, size, name in mappings),
            *(_record(order, kind, body) for kind, body in records),
            *(_sample(order, sample, identifier=identifier) for sample in samples),
        ]
    )  # fmt: skip
    sections = {
        3: _perf_text(order, "bench01"),
        12: struct.pack(order + "2I", len(events), attr_bytes)
        + b"".join(
            b"\0" * attr_bytes + struct.pack(order + "I", 0) + _perf_text(order, name)
            for name, _, _ in events
        ),
        14: struct.pack(order + "I", len(nodes))
        + b"".join(
            struct.pack(order + "I2Q", node, 0, 0) + _perf_text(order, cpus)
            for node, cpus in nodes.items()
        ),
        **features,
    }
    offset = ids_start + 8 * len(events) + len(data) + 16 * len(sections)
    table = b""
    for bit in sorted(sections):
        table += struct.pack(order + "2Q", offset, len(sections[bit]))
        offset += len(sections[bit])
    bits = [sum(1 << bit % 64 for bit in sections if bit // 64 == word) for word in range(4)]
    start = ids_start + 8 * len(events)
    header = b"PERFILE2" if order == "<" else b"2ELIFREP"
    places = (104, attr_bytes + 16, 104, ids_start - 104, start, len(data), 0, 0)
    header += struct.pack(order + "12Q", *places, *bits)
    return header + attrs + data + table + b"".join(sections[bit] for bit in sorted(sections))


@pytest.fixture(scope="session")
def make_perf_data() -> Callable[..., bytes]:
    """Write perf.data: ``make_perf_data([{"ip": 0xffffffff81000000}]) -> bytes``."""
    return _write_perf_data


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What perf really recorded here, with the symbols of the kernel that ran."""

    path: Path
    kallsyms: str


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Record all CPUs for a second of hackbench; skip where that is not allowed."""
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    missing = [program for program in ("perf", "hackbench") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed; apt-get install linux-perf rt-tests")
    command = ["perf", "record", "-a", "-g", "-N", "-F", "499", "-o", str(path)]
    done = subprocess.run(
        [*command, "--", "hackbench", "-l", "200", "-g", "1"], capture_output=True, text=True
    )
    kallsyms = Path("/proc/kallsyms").read_text(encoding="utf-8")
    if done.returncode or kallsyms.startswith("0000000000000000"):
        pytest.skip(f"all CPUs cannot be profiled here, which needs root: {done.stderr[-200:]!r}")
    return Recorded(path=path, kallsyms=kallsyms)
