# SPDX-License-Identifier: GPL-2.0-or-later
"""percpu.json and percpu.txt: where each CPU's per-CPU memory begins."""

import json
import random
from typing import Any

import pytest

from schedperf.inputs.kernel.percpu_units import parse_percpu_log, parse_percpu_units
from schedperf.model.errors import InputError
from schedperf_collectors.bpf.percpu_units import UnitBases, describe_units
from schedperf_collectors.machine.system import System

LOG = """\
setup_percpu: NR_CPUS:256 nr_cpumask_bits:2 nr_cpu_ids:2 nr_node_ids:1
percpu: Embedded 53 pages/cpu s185496 r0 d31592 u1048576
"""
GOOD: dict[str, Any] = {
    "method": "kcore",
    "units": {"0": "0xffff88807dc00000", "1": "0xffff88807dd00000"},
    "stable": True,
    "tried": {"kcore": None, "tracepoint": None},
    "missing_cpus": [],
    "static_bytes": 185496,
    "reserved_bytes": 0,
    "dynamic_bytes": 31592,
    "unit_bytes": 1048576,
}


def encode(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_units_are_read_by_cpu() -> None:
    found = parse_percpu_units(encode(), "percpu.json")
    assert found.method == "kcore"
    assert found.units == {0: 0xFFFF88807DC00000, 1: 0xFFFF88807DD00000}
    assert found.first_chunk_bytes == 185496 + 31592
    assert found.unit_bytes == 1 << 20


def test_what_the_collector_writes_of_this_machine_is_read() -> None:
    system = System()
    bases = UnitBases(system, {})
    before, after = bases.read(), bases.read()
    if before.method is None:
        pytest.skip(f"this user may not ask the kernel for its units: {dict(before.tried)}")
    written = describe_units(system, before, after)
    found = parse_percpu_units(json.dumps(written).encode(), "percpu.json")
    assert (found.method, found.units) == (before.method, before.units)
    assert found.unit_bytes == written["unit_bytes"]


def test_alignment_alone_has_no_units() -> None:
    found = parse_percpu_units(encode(method="alignment", units=None, stable=None), "percpu.json")
    assert (found.method, found.units, found.unit_bytes) == ("alignment", {}, 1 << 20)


def test_sizes_that_are_not_known_are_none() -> None:
    found = parse_percpu_units(encode(static_bytes=None, unit_bytes=None), "percpu.json")
    assert (found.first_chunk_bytes, found.unit_bytes) == (None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stable": False}, "units changed during the run"),
        ({"method": None, "units": None, "tried": {"kcore": "no /proc/kcore"}}, "kcore: no /proc"),
        ({"method": None, "units": None, "tried": None}, "reason unknown"),
        (
            {"units": None, "unit_bytes": None},
            "contains neither addresses nor the size of per-CPU units",
        ),
        ({"units": {"0": "here"}}, "expected str matching regex .*0x"),
        ({"units": {"0": 5}}, "expected str, got int"),
        ({"units": {"x": "0x0"}}, r"key in \$.units is invalid .expected int, got str"),
        ({"units": {"99999999": "0x0"}}, "expected int <= 8191"),
        ({"units": {"0": "0x1000", "00": "0x2000"}}, "expected int, got str"),
        ({"units": {"\u0663": "0x1000"}}, "expected int, got str"),
        ({"units": {"0": "0x10", "1": "0x10"}}, "two CPUs have the same per-CPU unit"),
        (
            {"units": {str(cpu): hex(cpu) for cpu in range(8193)}},
            "of length <= 8192|expected int <= 8191",
        ),
        ({"unit_bytes": 3}, "a power of two"),
        ({"static_bytes": -1}, "static_bytes is -1 .expected int >= 0"),
    ],
)
def test_what_is_not_usable_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_percpu_units(encode(**changes), "percpu.json")
    assert "\n" not in str(caught.value)


def test_the_kernel_log_has_the_sizes_and_the_cpus() -> None:
    found = parse_percpu_log(LOG, "percpu.txt")
    assert (found.method, found.units, found.unit_bytes) == ("alignment", {}, 1 << 20)
    assert found.first_chunk_bytes == 185496 + 31592
    assert found.cpus == 2
    assert parse_percpu_log(LOG.splitlines()[1], "percpu.txt").cpus is None


@pytest.mark.parametrize(
    "text", ["", "percpu: nothing", "percpu: s1 r1 d1 u3", "percpu: s9 r9 d9 u16", "\0" * 99]
)
def test_a_log_without_usable_sizes_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no valid per-CPU unit sizes"):
        parse_percpu_log(text, "percpu.txt")


@pytest.mark.property
def test_damaged_files_give_units_or_one_line() -> None:
    chance, whole = random.Random(3), encode()  # noqa: S311 # test data
    for _ in range(2000):
        raw = bytearray(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            if raw:
                raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            found = parse_percpu_units(bytes(raw), "percpu.json")
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 # it need not be raised
        else:
            assert all(0 <= base < 1 << 64 for base in found.units.values())
