# SPDX-License-Identifier: GPL-2.0-or-later
"""What perf makes of schedstat: text and records say the same; the published table is corrected."""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.schedstat.capture import Change, change_between
from schedperf.evidence.schedstat.fields import LAYOUTS
from schedperf.evidence.schedstat.perf_sched import (
    parse_sched_stats_report,
    read_sched_stats,
)
from schedperf.model.errors import InputError

Make = Callable[..., str]
MakeData = Callable[..., bytes]

# Version of /proc/schedstat by kernel; every kernel of the set but those of GOLDEN is held out.
VERSIONS = {
    "6.5.13": 15, "6.6.91": 15, "6.8.12": 15, "6.12.29": 16, "6.13.12": 16, "6.14.7": 17,
    "6.15.rc3": 17, "6.15.rc4": 17, "6.15.rc5": 17, "6.15.rc6": 17, "6.15.rc7": 17,
}  # fmt: skip
# Means as perf's own summary prints them: busy, idle, newidle. It divides by one CPU too few.
GOLDEN = {"6.5.13": (22, 13365, 1466518), "6.15.rc4": (2, 16402, 1519026)}


def parse(text: str) -> Change:
    return parse_sched_stats_report(text.splitlines(), "report")


def read(path: Path) -> Change:
    return change_between(*read_sched_stats(path, path.name), path.name)


def sums(change: Change) -> dict[str, float]:
    columns = LAYOUTS[change.version].domain
    totals = change.domain_counts.sum(axis=0).tolist()
    return {
        f"{one.idle} {one.field}".strip(): total for one, total in zip(columns, totals, strict=True)
    }


@pytest.mark.parametrize("version", [15, 16, 17])
def test_a_report_is_read_by_its_sentences(version: int, make_report: Make) -> None:
    for number, column in enumerate(LAYOUTS[version].domain, 1000):
        name = f"{column.idle} {column.field}".strip()
        change = parse(make_report(version, {0: {name: number}, 1: {name: 1}}))
        assert change.version == version
        assert {key: one for key, one in sums(change).items() if one} == {name: number + 1}


def test_a_report_has_time_cpus_and_domains(make_report: Make) -> None:
    change = parse(make_report(17, {0: {"sched_count": 7}, 1: {"run_delay": 2**40}}, name="MC"))
    assert (change.jiffies, change.cpus) == (150000, (0, 1))
    assert [(one.cpu, one.name, one.span) for one in change.domains] == [(0, "MC", 3), (1, "MC", 3)]
    assert change.cpu_counts[0, 2] == 7
    assert change.cpu_counts[1, 7] == 2**40
    assert parse(make_report(15, {0: {}, 1: {}}, name="0")).domains[0].name is None


def test_perfs_own_wrap_of_a_difference_is_unknown(make_report: Make) -> None:
    change = parse(make_report(17, {0: {"busy lb_count": 4294967287, "idle lb_count": 5}, 1: {}}))
    assert np.isnan(change.domain_counts[0]).all()
    assert not np.isnan(change.domain_counts[1]).any()
    assert change.notes[0].startswith("the counters of 1 of 2 domains decreased")


def test_damaged_reports_are_one_line(make_report: Make) -> None:
    text = make_report(17, {0: {}, 1: {}}, name="MC")
    lines = text.splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("CPU 1, "))
    cases = {
        "\n".join(lines[: last + 9]): "truncated",
        "\n".join(lines[: lines.index("CPU 0, DOMAIN MC CPUS <0-1, \b\b>")]): "no domain follows",
        "\n".join([*lines[: last - 1], "-" * 60]): "the last line of dashes is shorter",
        "\n".join(lines[: lines.index("CPU 1")]): "cpu1 is in a domain, but",
        text.replace("pull_task() count on cpu busy", "push_task() count on cpu busy"): "unknown",
        text.replace("CPU 1\n", "CPU 0\n"): "duplicate CPU 0",
        text.replace("<0-1, ", "<1-0, "): "invalid CPU list",
        text.replace("<0-1, ", "<0-99999, "): "invalid CPU list",
        "Columns description\n": "no CPU counters",
        text.replace("schedule() called  ", f"schedule() called : {10**19} "): "(expected at most",
        text.replace(
            ":           0  (", ":           0,          0  |  (", 1
        ): "perf sched stats diff",
    }
    for damaged, problem in cases.items():
        with pytest.raises(InputError, match="report:.*") as caught:
            parse(damaged)
        assert problem in str(caught.value)


MACHINES: Mapping[int, Mapping[int, Mapping[str, int]]] = {
    100: {0: {"sched_count": 2**32 - 5, "idle lb_count": 3}, 1: {"run_delay": 9}},
    350: {0: {"sched_count": 5, "idle lb_count": 9}, 1: {"run_delay": 2**41}},
}


@pytest.mark.parametrize("form", ["patches", "upstream"])
@pytest.mark.parametrize("version", [15, 16, 17])
@pytest.mark.parametrize("order", ["<", ">"])
def test_both_forms_of_records_are_read(
    form: str, version: int, order: str, make_sched_stats_data: MakeData, tmp_path: Path
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(make_sched_stats_data(version, MACHINES, form=form, order=order))
    change = read(path)
    assert (change.version, change.jiffies, change.cpus) == (version, 250, (0, 1))
    assert change.cpu_counts[0, 2] == 10
    assert change.cpu_counts[1, 7] == 2**41 - 9
    assert {key: one for key, one in sums(change).items() if one} == {"idle lb_count": 6}
    assert [(one.name, one.span) for one in change.domains] == [
        ("MC" if version == 17 else None, 3)
    ] * 2


def test_compressed_data_is_not_taken_for_schedstat(
    make_sched_stats_data: MakeData, tmp_path: Path
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(make_sched_stats_data(17, MACHINES, features=1 << 27))
    with pytest.raises(InputError, match=r"no schedstat snapshots \(expected 2\)"):
        read(path)


def test_one_snapshot_and_an_unknown_version_are_refused(
    make_sched_stats_data: MakeData, tmp_path: Path
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(make_sched_stats_data(17, {100: MACHINES[100]}))
    with pytest.raises(InputError, match=r"1 schedstat snapshot \(expected 2\)"):
        read(path)
    good = make_sched_stats_data(17, MACHINES)
    version_at = good.index(struct.pack("<IH", 0, 17))
    path.write_bytes(good[: version_at + 4] + b"\x63\x00" + good[version_at + 6 :])
    with pytest.raises(
        InputError, match=r"unsupported schedstat version 99 \(supported: 15, 16 and 17\)"
    ):
        read(path)


@given(data=st.data())
def test_a_damaged_recording_is_an_input_error_or_a_change(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good = _RECORDINGS["patches" if data.draw(st.booleans()) else "upstream"]
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.data"
    path.write_bytes(bytes(raw[: data.draw(st.integers(8, len(raw)))]))
    try:
        assert read(path).cpus
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 # either outcome is right


_RECORDINGS: dict[str, bytes] = {}


@pytest.fixture(autouse=True)
def _recordings(make_sched_stats_data: MakeData) -> None:
    for form in ("patches", "upstream"):
        _RECORDINGS.setdefault(form, make_sched_stats_data(17, MACHINES, form=form))


@pytest.mark.parametrize("mode", ["default", "batch"])
@pytest.mark.parametrize("kernel", VERSIONS)
def test_text_and_records_of_eleven_kernels_say_the_same(
    kernel: str, mode: str, samples: Path
) -> None:
    name = f"perf-k{kernel}-{mode}"
    text = parse((samples / f"{name}.report").read_text())
    records = read(samples / f"{name}.data")
    assert (text.version, text.jiffies) == (VERSIONS[kernel], records.jiffies)
    assert text.domains == records.domains
    assert np.array_equal(text.cpu_counts, records.cpu_counts)
    assert np.array_equal(text.domain_counts, records.domain_counts)
    assert (text.cpus, text.notes) == (tuple(range(16)), ())


@pytest.mark.parametrize("kernel", GOLDEN)
def test_sums_over_cpus_are_perfs_summary(kernel: str, samples: Path) -> None:
    found = sums(read(samples / f"perf-k{kernel}-default.data"))
    means = tuple(int(found[f"{idle} lb_count"] / 15) for idle in ("busy", "idle", "newidle"))
    assert means == GOLDEN[kernel]
