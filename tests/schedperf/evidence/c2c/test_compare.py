# SPDX-License-Identifier: GPL-2.0-or-later
"""Two sides' cache lines: what is compared, per operation, and what is not and why."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.evidence.c2c.compare import MemoryComparison, compare_memory
from schedperf.evidence.c2c.merge import MemorySamples, see_lines
from schedperf.evidence.c2c.model import Access, Line, MemoryProfile, NodeAccesses
from schedperf.model.base_new import BaseNew
from schedperf.model.run import Captured, Operations, RunKey

MESSAGES = Operations(count=1_000_000.0, unit="message", exact=True)
PERIOD = 100


def access(name: str | None, offset: int = 0, **values: Any) -> Access:
    chosen: dict[str, Any] = {
        "size": None if name is None else 8,
        "grade": None if name is None else "B",
        "reads": 10,
        "writes": 0,
        "local": 0,
        "remote": 5,
        "readers": frozenset({1}),
        "writers": frozenset(),
        "nodes": {0: NodeAccesses(10, 0, 0, 5)},
        "symbols": {"update_cfs_group": 10},
        "writing_symbols": {},
        "commands": {"hackbench": 10},
        "mean_weight": None,
    }
    return Access(offset=offset, name=name, **chosen | values)


def line(key: str, remote: int, *names: str, local: int = 0, **values: Any) -> Line:
    chosen: dict[str, Any] = {
        "address": 0xFFFF888000000000,
        "copies": 1,
        "name": names[0] if names else None,
        "records": remote + local,
        "counts": {"rmt_hitm": remote, "lcl_hitm": local, "store": 3},
        "sharing": "false",
        "false_share": 1.0,
        "accesses": tuple(access(name, 8 * place) for place, name in enumerate(names)),
        "pairs": {},
    }
    return Line(key=key, **chosen | values)


def profile(*lines: Line, **values: Any) -> MemoryProfile:
    chosen: dict[str, Any] = {
        "observable": "hitm",
        "is_text": False,
        "event": ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"),
        "perf_events": (),
        "period": PERIOD,
        "ldlat": 30,
        "line_bytes": 64,
        "totals": {
            "load_remote_hitm": sum(one.counts.get("rmt_hitm", 0) for one in lines),
            "load_local_hitm": sum(one.counts.get("lcl_hitm", 0) for one in lines),
            "store_operations": sum(one.counts.get("store", 0) for one in lines),
        },
        "notes": (),
    }
    return MemoryProfile(lines=lines, **chosen | values)


def run(
    *lines: Line, boot: str = "boot", kernel: str = "kernel", **values: Any
) -> Captured[MemorySamples]:
    operations, period = values.pop("operations", MESSAGES), values.pop("store_period", PERIOD)
    return Captured(
        key=RunKey(side="", workload="", point="", boot=0, run=0),
        ops=operations,
        content=MemorySamples(
            profile=profile(*lines, **values), store_period=period, boot=boot, kernel=kernel
        ),
    )


Counts = Mapping[str, tuple[int, ...]]


def runs(lines: Counts, **values: Any) -> list[Captured[MemorySamples]]:
    """Return a run for each place of the counts of remote HITMs, by ``key name``."""
    number = len(next(iter(lines.values())))
    named = [(*named.partition(" ")[::2], counts) for named, counts in lines.items()]
    return [
        run(*(line(key, counts[place], *names.split()) for key, names, counts in named), **values)
        for place in range(number)
    ]


LOAD_AVG = "task_group+0x100 task_group.load_avg"
OTHER = "percpu+0x40 runqueues.nr_running"


def only(found: MemoryComparison) -> Any:
    (one,) = found.lines
    return one


def test_rates_are_accesses_per_thousand_operations() -> None:
    found = compare_memory(
        runs({LOAD_AVG: (31, 30, 32)}, boot="b"), runs({LOAD_AVG: (4, 3, 5)}, boot="n")
    )
    remote = only(found).remote
    assert (found.reason, found.unit, found.per) == (None, "message", 1000)
    assert tuple(remote.samples) == (93, 12)
    # 31 samples stand for 3100 accesses of 1000 thousand messages.
    assert remote.base == pytest.approx(3.1)
    assert remote.new == pytest.approx(0.4)
    assert remote.ratio_low < 12 / 93 < remote.ratio_high < 0.3
    assert remote.changed
    assert remote.least_ratio > 1.0
    assert found.least_ratio == remote.least_ratio
    assert found.model == "Poisson"


def test_more_work_is_no_change() -> None:
    long = replace(MESSAGES, count=4e6)
    found = compare_memory(
        runs({LOAD_AVG: (30, 28, 33)}), runs({LOAD_AVG: (120, 117, 131)}, operations=long)
    )
    assert only(found).remote.ratio == pytest.approx(1.0, abs=0.05)
    assert not only(found).remote.changed


def test_where_one_line_calms_down_the_others_do_not_change() -> None:
    quiet = {f"percpu+{number:#x} v{number}": (20, 21, 19) for number in range(0, 640, 64)}
    found = compare_memory(
        runs({LOAD_AVG: (900, 910, 890), **quiet}), runs({LOAD_AVG: (9, 10, 8), **quiet})
    )
    assert [one.base.name for one in found.lines if one.base and one.remote.changed] == [
        "task_group.load_avg"
    ]


def test_runs_of_a_fixed_amount_of_work_are_one_operation_each() -> None:
    whole = Operations(count=1.0, unit="run", exact=True)
    found = compare_memory(
        runs({OTHER: (5, 6)}, operations=whole), runs({OTHER: (5, 7)}, operations=whole)
    )
    assert (found.per, only(found).remote.base) == (1, pytest.approx(550.0))


def test_a_named_line_that_a_side_does_not_have_was_counted_zero_times() -> None:
    found = compare_memory(
        runs({LOAD_AVG: (9, 8, 7), OTHER: (5, 5, 5)}), runs({OTHER: (5, 6, 5)}, kernel="new")
    )
    gone = next(one for one in found.lines if one.new is None)
    assert (gone.remote.samples, gone.remote.new, gone.unmatched) == (
        BaseNew(base=24, new=0),
        0.0,
        None,
    )
    assert gone.remote.changed


def test_totals_that_a_text_does_not_have_are_no_zeros() -> None:
    text = runs({LOAD_AVG: (9,)}, is_text=True, period=None, totals={})
    found = compare_memory(runs({LOAD_AVG: (9,)}), text)
    assert found.reason == "the output of `perf c2c report` does not contain the sampling period"
    assert tuple(found.totals.remote.samples) == (9, None)
    assert tuple(only(found).remote.samples) == (9, 9)


def test_an_address_is_compared_within_one_boot_only() -> None:
    address = "0xffff88801234ab00"
    apart = compare_memory(runs({address: (9, 8)}, boot="one"), runs({address: (2, 1)}, boot="two"))
    assert [one.unmatched for one in apart.lines] == ["addresses differ between boots"] * 2
    assert all(one.remote.base is one.remote.q is None for one in apart.lines)
    assert apart.notes == ("2 lines are not compared: addresses differ between boots",)
    together = compare_memory(runs({address: (9, 8)}), runs({address: (2, 1)}))
    assert tuple(only(together).remote.samples) == (17, 3)


def test_an_offset_without_a_name_is_compared_within_one_build_only() -> None:
    key = "percpu+0x2ba40"
    apart = compare_memory(runs({key: (9, 8)}, kernel="6.12"), runs({key: (2, 1)}, kernel="6.13"))
    assert [(one.remote.samples, one.remote.new) for one in apart.lines] == [
        (BaseNew(base=17, new=None), None),
        (BaseNew(base=None, new=3), None),
    ]
    assert {one.unmatched for one in apart.lines} == {
        "offsets of unnamed lines differ between builds"
    }
    same = compare_memory(runs({key: (9, 8)}, boot="a"), runs({key: (2, 1)}, boot="b"))
    assert tuple(only(same).remote.samples) == (17, 3)


def test_lines_of_two_builds_are_one_where_the_same_names_are_on_them() -> None:
    found = compare_memory(
        runs({"percpu+0x40 sd_llc_id": (9, 8), "percpu+0x80 jiffies": (1, 1)}, kernel="a"),
        runs({"percpu+0x40 jiffies": (1, 1), "percpu+0x80 sd_llc_id": (2, 1)}, kernel="b"),
    )
    first = found.lines[0]
    assert first.base is not None
    assert first.new is not None
    assert (first.base.key, first.new.key) == ("percpu+0x40", "percpu+0x80")
    assert tuple(first.remote.samples) == (17, 3)


def test_a_line_whose_fields_parted_is_the_one_with_most_of_their_samples() -> None:
    whole = line("g+0x0", 9, "g.hot", "g.cold")
    hot = line("g+0x0", 9, "g.cold", accesses=(access("g.cold", reads=1),))
    rest = line("g+0x40", 9, "g.hot", accesses=(access("g.hot", reads=50),))
    found = compare_memory([run(whole)] * 2, [run(hot, rest, kernel="b")] * 2)
    pairs = {
        (one.base and one.base.key, one.new and one.new.key): one.unmatched for one in found.lines
    }
    assert pairs == {("g+0x0", "g+0x40"): None, (None, "g+0x0"): None}


def test_a_name_that_may_be_hidden_behind_an_address_is_not_counted_as_zero() -> None:
    base = runs({"globals:nohz nohz.nr_cpus": (9, 8)}, boot="b")
    new = runs({"0xffffffff82a00000": (9, 9)}, boot="n")
    found = compare_memory(base, new)
    named = next(one for one in found.lines if one.base is not None)
    assert named.unmatched == "the line may be one of the 1 unnamed line(s) of new"
    assert named.remote.q is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"observable": "peer"},
            "kinds of contended loads differ between runs (hitm in base, peer in new)",
        ),
        ({"period": 200}, "sampling periods differ between runs (100 in base, 200 in new)"),
        ({"ldlat": None}, "minimum load latencies differ between runs (30 in base, none in new)"),
        ({"line_bytes": 128}, "cache line sizes differ between runs (64 in base, 128 in new)"),
        ({"event": ("x",)}, "events differ between runs (cpu/mem-loads,ldlat=30/P and cpu/mem-"),
        (
            {"operations": Operations(count=1.0, unit="run", exact=True)},
            "units of operations differ between runs (message in base, run in new)",
        ),
        ({"operations": None}, "the number of benchmark operations per run is unknown"),
    ],
)
def test_different_questions_are_not_compared(values: dict[str, Any], reason: str) -> None:
    found = compare_memory(runs({LOAD_AVG: (9, 8)}), runs({LOAD_AVG: (2, 1)}, **values))
    assert (found.reason or "").startswith(reason)
    assert (found.model, found.least_ratio) == (None, None)
    totals = found.totals
    for change in (only(found).remote, totals.remote, totals.local, totals.stores):
        assert change.base is change.ratio is change.q is None
    assert found.lines[0].remote.samples.base == 17


def test_runs_of_one_side_with_different_periods_are_not_compared() -> None:
    mixed = [*runs({OTHER: (1,)}), *runs({OTHER: (1,)}, period=7)]
    found = compare_memory(mixed, mixed)
    assert found.reason == "sampling periods differ between runs (100, 7 in both base and new)"


def test_samples_that_perf_chose_stand_for_no_number_of_accesses() -> None:
    either = runs({OTHER: (1, 2)}, period=None)
    assert compare_memory(either, either).reason == (
        "the sampling period is not fixed, so accesses per sample are unknown"
    )


def test_stores_have_a_period_of_their_own() -> None:
    side = runs({OTHER: (10, 10)}, store_period=1000)
    totals = compare_memory(side, side).totals
    assert totals.remote.base == pytest.approx(1.0)
    assert totals.stores.base == pytest.approx(3.0)
    unknown = compare_memory(side, runs({OTHER: (10, 10)}, store_period=None)).totals
    assert unknown.stores.base is None
    assert tuple(unknown.stores.samples) == (6, 6)
    assert unknown.remote.base is not None


def test_peers_are_counted_as_what_they_are() -> None:
    seen = line(
        "percpu+0x40", 0, "runqueues.cpu", counts={"rmt_peer": 7, "lcl_peer": 5, "rmt_hitm": 99}
    )
    totals = {"load_hit_remote_peer": 7, "load_hit_local_peer": 5, "store_operations": 0}
    side = [run(seen, observable="peer", totals=totals)] * 2
    found = compare_memory(side, side)
    assert tuple(only(found).remote.samples) == (14, 14)
    assert tuple(only(found).local.samples) == (10, 10)
    assert tuple(found.totals.local.samples) == (10, 10)


def test_with_several_boots_a_side_boots_are_what_is_independent() -> None:
    def side(counts: list[int], boots: str) -> list[Captured[MemorySamples]]:
        return [
            run(line("percpu+0x40", count, "x"), boot=boot)
            for count, boot in zip(counts, boots, strict=True)
        ]

    by_run = compare_memory(side([50, 50, 90, 90], "aaaa"), side([95, 95, 130, 130], "bbbb"))
    by_boot = compare_memory(side([50, 50, 90, 90], "aabb"), side([95, 95, 130, 130], "ccdd"))
    assert (by_run.replication, by_boot.replication) == ("runs", "boots")
    assert only(by_boot).remote.base == only(by_run).remote.base
    assert (only(by_boot).remote.p or 0.0) > (only(by_run).remote.p or 1.0)


def test_one_run_a_side_has_rates_without_intervals_and_says_so() -> None:
    found = compare_memory(runs({OTHER: (10,)}), runs({OTHER: (90,)}))
    remote = only(found).remote
    assert (remote.base, remote.new) == (pytest.approx(1.0), pytest.approx(9.0))
    assert remote.ratio_low is remote.p is remote.least_ratio is found.model is None
    assert found.notes[0] == "base: only one run, so run-to-run variance is unknown"


def test_lines_that_few_samples_hit_are_not_tested() -> None:
    found = compare_memory(runs({OTHER: (1, 0)}), runs({OTHER: (1, 2)}))
    assert only(found).remote.p is None
    assert only(found).remote.ratio == pytest.approx(3.0)


def test_no_run_is_an_error_of_the_caller_and_no_line_is_none() -> None:
    with pytest.raises(ValueError, match="a side has no runs"):
        compare_memory([], [run()])
    found = compare_memory([run()] * 2, [run()] * 2)
    assert found.lines == ()
    assert found.least_ratio is None
    assert (found.totals.remote.base, found.totals.remote.ratio) == (0.0, None)
    assert (found.totals.remote.base_high or 0.0) > 0.0


def test_what_could_not_be_seen_is_said_once_a_side() -> None:
    side = runs({OTHER: (5, 5)}, notes=("stores carry no level",))
    assert compare_memory(side, side).notes == (
        "base: stores carry no level",
        "new: stores carry no level",
    )


def test_notes_that_differ_in_their_numbers_alone_are_said_once() -> None:
    base = [run(line("percpu+0x40", 5, "x"), notes=(f"{lost} records lost",)) for lost in (3, 4, 5)]
    assert compare_memory(base, [run(), run()]).notes == (
        "base: 3 records lost (similar in 2 more runs)",
    )


def test_lines_of_several_objects_of_one_struct_are_added_up() -> None:
    def side(*counts: int) -> list[Captured[MemorySamples]]:
        objects = [
            line("task_group+0x100", count, "task_group.load_avg", local=2 * count)
            for count in counts
        ]
        return [run(*objects), run(*objects)]

    found = only(compare_memory(side(30, 20, 10), side(3, 2)))
    assert (found.remote.samples, found.local.samples) == (
        BaseNew(base=120, new=10),
        BaseNew(base=240, new=20),
    )
    assert found.base.remote == {0: 60, 1: 60}


def test_all_runs_of_a_side_make_one_line() -> None:
    first = line(
        "percpu+0x40", 4, "a", "b", copies=3, sharing="false", false_share=1.0,
        accesses=(access("a", readers=frozenset({1})), access("b", 8, writes=4, remote=0)),
    )  # fmt: skip
    on_node = NodeAccesses(3, 2, 0, 3)
    second = line(
        "percpu+0x40", 9, "b", copies=5, sharing="true", false_share=0.0,
        accesses=(
            access("a", readers=frozenset({2}), remote=15, nodes={1: on_node}, grade="A"),
        ),
    )  # fmt: skip
    (seen,) = see_lines([run(first), run(second)]).values()
    assert (seen.name, seen.copies, seen.sharing, seen.contended) == ("b", 5, "mixed", 13)
    assert seen.false_share == pytest.approx(5.0 / 20.0)
    assert [(one.name, one.reads, one.grade) for one in seen.accesses] == [
        ("a", 20, "A"),
        ("b", 10, "B"),
    ]
    assert seen.accesses[0].readers == frozenset({1, 2})
    assert seen.accesses[0].nodes == {0: (10, 0, 0, 5), 1: (3, 2, 0, 3)}
    assert seen.names == {"a": 20, "b": 14}


@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_intervals_of_lines_hold_the_truth(ratio: float) -> None:
    random = np.random.default_rng(9)
    means = np.geomspace(0.5, 200.0, 30)

    def side(scale: float) -> list[Captured[MemorySamples]]:
        return [
            run(*(line(f"percpu+{64 * i:#x}", int(n), f"v{i}") for i, n in enumerate(counts)))
            for counts in random.poisson(means * scale, (3, 30))
        ]

    covered = [
        one.remote.ratio_low <= ratio <= (one.remote.ratio_high or np.inf)
        for _ in range(20)
        for one in compare_memory(side(1.0), side(ratio)).lines
        if one.remote.ratio_low is not None
    ]
    assert 0.93 <= np.mean(covered) <= 0.99


def test_enormous_counts_of_a_hostile_file_are_compared_quietly() -> None:
    huge = (2**53, 2**53, 0)
    found = compare_memory(runs({OTHER: huge}), runs({OTHER: (0, 1, 2)}))
    assert tuple(only(found).remote.samples) == (2**54, 3)
