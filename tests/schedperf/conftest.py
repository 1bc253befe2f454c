# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the tests of the library: BTF, bundles of a benchmark or with profiles, real files."""

import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.profile.record import Profile, ProfilePoint, ProfileRow
from schedperf.evidence.profile.section import profile
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf_generators.events import Event
from schedperf_generators.features import BuildId, Machine
from schedperf_generators.kernel import BUILD_ID
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.samples import Sample
from tests.record_schema import check_schema
from tests.shared_data import shared_kernel

# Name, offset, size, linkage (0 static, 1 global) of a per-CPU variable.
BtfRow = tuple[str, int, int, int]


class _Strings:
    def __init__(self) -> None:
        self.table = b"\0"

    def add(self, text: str) -> int:
        offset = len(self.table)
        self.table += text.encode() + b"\0"
        return offset


def write_btf(
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
    return write_btf


@pytest.fixture(scope="session")
def real_kernel() -> Callable[[str], Path]:
    """Return the directory with one real kernel's System.map and btf; skip where it is absent."""
    return shared_kernel


PROFILED = ("update_cfs_group", "update_load_avg.isra.0", "vfs_write", "default_idle")
KERNEL_TEXT = 0xFFFFFFFF81000000
FUNCTION_BYTES = 0x100
NMI = {
    "event": "cycles",
    "clock": "pmu",
    "blind": False,
    "blind_reason": "the PMU interrupt is an NMI",
}
KERNEL_BUILD_ID = BuildId(path="[kernel.kallsyms]", raw=BUILD_ID, mode=1)


def _kallsyms(names: Sequence[str]) -> str:
    symbols = ["_text", *names, "end_of_text"]
    starts = [KERNEL_TEXT - 0x1000]
    starts += [KERNEL_TEXT + FUNCTION_BYTES * number for number in range(len(names) + 1)]
    return "".join(f"{at:016x} T {name}\n" for at, name in zip(starts, symbols, strict=True))


@dataclass(frozen=True, slots=True)
class ProfiledBundles:
    """Bundles whose profiles have known weights, and what the section says of them.

    :param folder: where the bundles go
    """

    folder: Path
    make_bundle: Callable[..., Path]

    def perf_data(
        self,
        nodes: Mapping[int, Mapping[str, int]],
        *,
        event: Event | None = None,
        names: Sequence[str] = PROFILED,
        slide: int = 0,
        **chosen: Any,
    ) -> bytes:
        """Write a perf.data: ``perf_data({cpu: {"vfs_write": weight}})``.

        CPU n is on node n // 2 of the generated machine.
        """
        samples = [
            Sample(
                ip=KERNEL_TEXT + slide + FUNCTION_BYTES * names.index(name) + 8,
                cpu=cpu,
                period=weight,
                pid=0 if name == "default_idle" else 9,
            )
            for cpu, weights in nodes.items()
            for name, weight in weights.items()
        ]
        records = (*chosen.pop("records", ()), *samples)
        machine = replace(chosen.pop("machine", Machine()), build_ids=(KERNEL_BUILD_ID,))
        data = PerfData(events=(event or Event(),), records=records, machine=machine, **chosen)
        return write_perf_data(data)

    def run(
        self, perf_data: bytes, facts: Mapping[str, Any] | None = NMI, **chosen: Any
    ) -> dict[str, Any]:
        """Return an instrumented run with this perf.data and perf_profile.json."""
        files: dict[str, bytes | str] = {"perf_profile/perf.data": perf_data}
        if facts is not None:
            files["perf_profile/perf_profile.json"] = json.dumps(facts)
        return {"kind": "instrumented", "files": files, **chosen}

    def runs(self, *per_mille: int, event: Event | None = None, **chosen: Any) -> list[Any]:
        """Return instrumented runs, one for each share of update_cfs_group in per mille."""
        weights = [{"update_cfs_group": hot, "vfs_write": 1000 - hot} for hot in per_mille]
        return [self.run(self.perf_data({0: one}, event=event), **chosen) for one in weights]

    def weighted(self, names: Sequence[str], *runs: Sequence[int]) -> list[Any]:
        """Return instrumented runs: of each the weights of these functions."""
        weights = [dict(zip(names, one, strict=True)) for one in runs]
        return [self.run(self.perf_data({0: one}, names=names)) for one in weights]

    def compare(
        self,
        *sides: Sequence[Mapping[str, Any]],
        names: Sequence[str] = PROFILED,
        layout: Mapping[str, str] | None = None,
        **chosen: Any,
    ) -> Profile:
        """Return the record for sides that are given as runs; it follows its schema."""
        captured = {"kallsyms": _kallsyms(names)} if layout is None else layout
        files = {f"boots/0/layout/{name}": text for name, text in captured.items()}
        paths = [
            self.make_bundle(self.folder / f"{number}.tar", runs=runs, files=files, **chosen)
            for number, runs in enumerate(sides)
        ]
        data = profile(name_sides([open_bundle(path) for path in paths]))
        check_schema(data)
        return data

    def points(self, data: Profile) -> tuple[ProfilePoint, ...]:
        """Return the points of the first event of the first new side."""
        return data.comparisons[0].events[0].points

    def row(self, data: Profile, symbol: str = "update_cfs_group") -> ProfileRow:
        """Return a function's row at the first point."""
        return next(row for row in self.points(data)[0].rows if row.symbol == symbol)

    def kallsyms(self, names: Sequence[str] = PROFILED) -> str:
        """Return the symbols of the kernel that is profiled."""
        return _kallsyms(names)


# Seconds of hackbench; runs that scatter by 1 %.
TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)


@pytest.fixture
def base(make_bundle: Callable[..., Path], tmp_path: Path) -> str:
    """Write the base bundle; return its path."""
    return str(make_bundle(tmp_path / "base.tar", runs=[{"time_s": time} for time in TIMES]))


@pytest.fixture
def slower(make_bundle: Callable[..., Path], tmp_path: Path) -> str:
    """Write a bundle that is 30 % slower; return its path."""
    runs = [{"time_s": 1.3 * time} for time in TIMES]
    return str(make_bundle(tmp_path / "new.tar", runs=runs, label="new"))


@pytest.fixture
def analyse_with(tmp_path: Path, make_bundle: Callable[..., Path]) -> Callable[..., Any]:
    """Analyse bundles that are given as runs; the result follows the published schema.

    ``analyse_with(counters)(runs_of_base, runs_of_new, **of_the_bundles)``
    """

    def make(section: Callable[..., Any]) -> Callable[..., Any]:
        def analyse(*sides: Sequence[Mapping[str, object]], **chosen: object) -> Any:
            paths = [
                make_bundle(tmp_path / f"{number}.tar", runs=runs, **chosen)
                for number, runs in enumerate(sides)
            ]
            data = section(name_sides([open_bundle(path) for path in paths]))
            check_schema(data)
            return data

        return analyse

    return make


@pytest.fixture
def profiled(tmp_path: Path, make_bundle: Callable[..., Path]) -> ProfiledBundles:
    """Make bundles with profiles: ``profiled.compare(profiled.runs(10), profiled.runs(110))``."""
    return ProfiledBundles(tmp_path, make_bundle)


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What perf really recorded here, with the symbols of the kernel that ran."""

    path: Path
    kallsyms: str


@pytest.fixture(scope="session")
def recorded_here(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
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
