# SPDX-License-Identifier: GPL-2.0-or-later
"""/proc/schedstat: each number has the name that its version gives it; damage is one line."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.evidence.schedstat.capture import (
    MOST_CPUS,
    Snapshot,
    change_between,
    parse_schedstat,
)
from schedperf.evidence.schedstat.fields import LAYOUTS, Column
from schedperf.model.errors import InputError

MakeSchedstat = Callable[..., str]

# What version 17 writes of one CPU with one domain, made up.
GUEST_17 = """version 17
timestamp 4294987812
cpu0 0 0 9136 3514 5221 1820 1203315521 455123741 5514
domain0 MC 1 0 0 0 0 0 0 0 0 0 0 0 \
36 35 1 0 0 1 0 0 0 0 35 611 590 13 0 0 21 0 8 0 0 590 0 0 0 0 0 0 0 0 0 3001 402 0
"""


def parse(text: str) -> Snapshot:
    return parse_schedstat(text.splitlines(keepends=True), "before")


def problem_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 200
    return message


def value(snapshot: Snapshot, idle: str, field: str) -> int:
    columns = LAYOUTS[snapshot.version].domain
    place = next(n for n, one in enumerate(columns) if (one.idle, one.field) == (idle, field))
    return int(snapshot.domain_counts[0, place])


def test_a_line_of_version_17_is_read_by_name() -> None:
    found = parse(GUEST_17)
    assert (found.version, found.jiffies, found.cpus) == (17, 4294987812, (0,))
    assert found.cpu_counts.tolist() == [
        [0, 0, 9136, 3514, 5221, 1820, 1203315521, 455123741, 5514]
    ]
    assert (found.domains[0].name, found.domains[0].span) == ("MC", 1)
    assert value(found, "idle", "lb_count") == 36
    assert value(found, "newidle", "lb_count") == 611
    assert value(found, "newidle", "lb_gained") == 8
    assert value(found, "newidle", "lb_imbalance_task") == 21
    assert value(found, "", "ttwu_wake_remote") == 3001


@pytest.mark.parametrize("version", [15, 16, 17])
def test_each_field_of_each_version_has_its_own_place(
    version: int, make_schedstat: MakeSchedstat
) -> None:
    for number, column in enumerate(LAYOUTS[version].domain, 1000):
        name = f"{column.idle} {column.field}".strip()
        snapshot = parse(make_schedstat(version, {0: {name: number}, 1: {}}))
        assert value(snapshot, column.idle, column.field) == number
        assert int(snapshot.domain_counts.sum()) == number


def test_versions_15_and_16_differ_in_the_order_of_idle_types_alone() -> None:
    assert set(LAYOUTS[15].domain) == set(LAYOUTS[16].domain)
    assert LAYOUTS[15].domain[:8] == LAYOUTS[16].domain[8:16]
    assert [len(LAYOUTS[version].domain) for version in (15, 16, 17)] == [36, 36, 45]
    assert Column("newidle", "lb_imbalance") not in LAYOUTS[17].domain


def test_another_version_is_refused_and_named() -> None:
    assert problem_of("version 18\ntimestamp 1\n") == (
        "before:1: unsupported schedstat version 18; supported: 15, 16 and 17"
    )
    assert "version 14" in problem_of("version 14\ntimestamp 1\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "before: empty file; pass a copy of /proc/schedstat"),
        ("hello\n", "before:1: invalid line 'hello' (expected `version N`)"),
        ("version 17\n", "before: no `cpuN` lines"),
        ("version 17\ncpu0 1 2\n", "invalid line 'cpu0 1 2' (expected `timestamp N`)"),
        ("version 17\ntimestamp 5\n", "no `cpuN` lines"),
        ("version 17\ntimestamp 5\ncpu0 1 2 3\n", "expected 9 in schedstat version 17"),
        ("version 17\ntimestamp 5\ncpu0 1 2 3 4 5 6 7 8 x\n", "invalid numbers"),
        ("version 17\ntimestamp 5\ncpu99999 1 2 3 4 5 6 7 8 9\n", "cpu99999 is out of range"),
        (
            "version 17\ntimestamp 5\ncpu0 1 2 3 4 5 6 7 8 9\n" * 2,
            "expected `cpuN …` or `domainN …`",
        ),
        (
            f"version 17\ntimestamp 5\ncpu0 {2**32} 0 0 0 0 0 0 0 0\n",
            "(expected at most 32 bits)",
        ),
        ("version 17\ntimestamp 5\ndomain0 MC 1 0\n", "misplaced `domainN` line"),
        (GUEST_17.replace(" MC", ""), "expected a name, a CPU mask and counts"),
        (GUEST_17.replace("MC 1 ", "MC 3 "), "truncated (cpu1 is in a domain, but its own counts"),
        (GUEST_17 + GUEST_17.splitlines()[3] + "\n", "duplicate domain0 of cpu0"),
        ("version 17\ntimestamp 5\n" + "9" * 10_000 + "\n", "line of 10000 characters"),
        (
            "version 17\ntimestamp 5\ncpu0 1 2 3 4 5 6 7 8 9\n\x1b[31m\n",
            "expected `cpuN …` or `domainN …`",
        ),
    ],
)
def test_damage_is_one_line_that_says_where(text: str, problem: str) -> None:
    assert problem in problem_of(text)


def test_a_snapshot_cut_anywhere_is_refused_where_that_can_be_told(
    make_schedstat: MakeSchedstat,
) -> None:
    text = make_schedstat(17, {0: {"pcount": 12345}, 1: {"pcount": 67890}})
    read = [text[:length] for length in range(len(text)) if not _is_refused(text[:length])]
    # One CPU without a domain is what a kernel of one CPU writes.
    assert [part.splitlines()[-1].split(" ")[0] for part in read] == ["cpu0"]
    assert not _is_refused(text)


def _is_refused(text: str) -> bool:
    try:
        parse(text)
    except InputError:
        return True
    return False


@given(st.text(alphabet="version17timesap cpudoman0\n ,fMC-\x00é", max_size=300))
def test_no_text_makes_anything_but_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse(f"version 17\n{text}")


def test_a_machine_of_8192_cpus_is_read(make_schedstat: MakeSchedstat) -> None:
    mask = ",".join(["ffffffff"] * (MOST_CPUS // 32))
    machine = {cpu: {"pcount": cpu} for cpu in range(MOST_CPUS)}
    found = parse(make_schedstat(17, machine, levels=[("MC", mask)]))
    assert found.cpu_counts.shape == (MOST_CPUS, 9)
    assert int(found.cpu_counts[:, 8].sum()) == MOST_CPUS * (MOST_CPUS - 1) // 2


def test_the_first_word_of_a_mask_holds_the_last_cpus(make_schedstat: MakeSchedstat) -> None:
    cpus = 40
    found = parse(
        make_schedstat(17, {cpu: {} for cpu in range(cpus)}, levels=[("MC", "80,00000001")])
    )
    assert {domain.span for domain in found.domains} == {1 << 39 | 1}
    assert len(found.domains) == cpus


def delta(make: MakeSchedstat, before: dict[str, int], after: dict[str, int]) -> tuple[str, ...]:
    first = parse(make(17, {0: before, 1: {}}, jiffies=1000))
    found = change_between(first, parse(make(17, {0: after, 1: {}}, jiffies=1250)), "run")
    assert found.jiffies == 250
    shown = [*found.cpu_counts[0].tolist(), *found.domain_counts[0].tolist()]
    columns = (*LAYOUTS[17].cpu, *LAYOUTS[17].domain)
    names = [f"{one.idle} {one.field}".strip() for one in columns]
    told = [f"{name}={one:.0f}" for name, one in zip(names, shown, strict=True) if one != 0]
    return (*told[:3], *found.notes)


def test_a_counter_of_32_bits_that_wrapped_counts_on(make_schedstat: MakeSchedstat) -> None:
    found = delta(make_schedstat, {"sched_count": 2**32 - 10}, {"sched_count": 90})
    assert found[0] == "sched_count=100"
    assert found[1].startswith("counters that wrapped at 2**32: sched_count (one wrap is assumed")


def test_a_large_rise_is_no_wrap(make_schedstat: MakeSchedstat) -> None:
    assert delta(make_schedstat, {"sched_count": 0}, {"sched_count": 3 * 10**9}) == (
        "sched_count=3000000000",
    )


def test_a_counter_that_started_again_makes_its_line_unknown(
    make_schedstat: MakeSchedstat,
) -> None:
    before = {"newidle lb_count": 1000, "idle lb_count": 4_000_000_000, "pcount": 5}
    after = {"newidle lb_count": 10, "idle lb_count": 10, "pcount": 9}
    found = delta(make_schedstat, before, after)
    assert found[0] == "pcount=4"
    assert found[1].endswith("=nan")
    assert found[-1].startswith("the counters of 1 of 2 domains decreased, so they were reset")


def test_a_time_of_64_bits_never_wraps(make_schedstat: MakeSchedstat) -> None:
    found = delta(make_schedstat, {"run_delay": 2**40}, {"run_delay": 2**40 - 1})
    assert "the counters of 1 of 2 CPUs decreased" in found[-1]


def test_the_slices_of_a_32_bit_kernel_wrap(make_schedstat: MakeSchedstat) -> None:
    assert delta(make_schedstat, {"pcount": 2**32 - 1}, {"pcount": 1})[0] == "pcount=2"
    large = delta(make_schedstat, {"pcount": 2**33}, {"pcount": 1})
    assert "decreased" in large[-1]


def test_cpus_and_domains_that_came_or_went_are_left_out(make_schedstat: MakeSchedstat) -> None:
    before = parse(make_schedstat(17, {0: {}, 1: {}, 2: {}}, levels=[("MC", "7")], jiffies=1))
    after = parse(make_schedstat(17, {0: {}, 1: {}}, levels=[("MC", "3")], jiffies=9))
    found = change_between(before, after, "run")
    assert found.cpus == (0, 1)
    assert found.domains == ()
    assert [note.split(" ")[0] for note in found.notes] == ["CPUs", "domains"]


def test_snapshots_that_do_not_belong_together_are_refused(make_schedstat: MakeSchedstat) -> None:
    early, late = (
        parse(make_schedstat(17, {0: {}, 1: {}}, jiffies=time)) for time in (2**33, 2**34)
    )
    with pytest.raises(InputError, match="the earlier one first"):
        change_between(late, early, "run")
    other = parse(make_schedstat(15, {0: {}, 1: {}}, jiffies=2**34))
    with pytest.raises(InputError, match="run: schedstat version changed from 17 to 15"):
        change_between(early, other, "run")


def test_the_clock_of_a_32_bit_kernel_wraps(make_schedstat: MakeSchedstat) -> None:
    texts = [make_schedstat(17, {0: {}, 1: {}}, jiffies=time) for time in (2**32 - 100, 150)]
    assert change_between(parse(texts[0]), parse(texts[1]), "run").jiffies == 250


@given(
    before=st.integers(0, 2**32 - 1),
    count=st.integers(0, 2**31 - 1),
)
def test_what_was_counted_is_found_wherever_the_counter_stood(before: int, count: int) -> None:
    line = "domain0 MC 1 " + " ".join(["0"] * 45)
    texts = [
        f"version 17\ntimestamp {time}\ncpu0 0 0 {one % 2**32} 0 0 0 0 0 0\n{line}\n"
        for time, one in ((1, before), (2, before + count))
    ]
    found = change_between(parse(texts[0]), parse(texts[1]), "run")
    assert np.nansum(found.cpu_counts) == count
