# SPDX-License-Identifier: GPL-2.0-or-later
"""Flame graphs: sums that add up, noise that has no colour, and nothing lost by pruning."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.evidence.profile.flame import (
    DEEPEST,
    REMAINDER,
    ROOT,
    Flame,
    build_flame,
    changed_frames,
    depths_of,
    measure_frames,
    measure_places,
    narrow_flame,
    one_sided_frames,
)
from schedperf.evidence.profile.flame_data import Part, describe_flame
from schedperf.evidence.profile.flame_record import (
    FlameMargins,
    FlameMeans,
    FlamePartFunctions,
    FlameTree,
)
from schedperf.evidence.profile.stacks import Stacks
from schedperf.model.place import Place
from schedperf.model.schema import to_plain

MakeStacks = Callable[..., Stacks]


def jittered(weights: Mapping[str, float], runs: int, *, seed: int) -> list[dict[str, float]]:
    """Return runs whose weights vary by 2%."""
    draw = np.random.default_rng(seed)
    return [
        {stack: weight * (1.0 + draw.normal(0.0, 0.02)) for stack, weight in weights.items()}
        for _ in range(runs)
    ]


def names(flame: Flame) -> list[str]:
    """Return each frame's path from the root."""
    paths: list[str] = []
    for parent, place in zip(flame.parent.tolist(), flame.place.tolist(), strict=True):
        name = {ROOT: "", REMAINDER: "(rest)"}.get(place) or (
            flame.places[place].symbol if place >= 0 else ""
        )
        paths.append(f"{paths[parent]};{name}".lstrip(";") if parent >= 0 else name)
    return paths


def by_name(flame: Flame) -> dict[str, int]:
    return {name: frame for frame, name in enumerate(names(flame))}


def test_inclusive_time_is_own_time_and_that_of_what_was_called(make_stacks: MakeStacks) -> None:
    stacks = make_stacks([{"main": 1.0, "main;read": 2.0, "main;read;lock": 4.0}])
    flame = build_flame(stacks)
    frames = by_name(flame)
    assert flame.inclusive[0, frames["main"]] == 7.0
    assert flame.inclusive[0, frames["main;read"]] == 6.0
    assert flame.own[0].tolist() == [0.0, 1.0, 2.0, 4.0]
    assert flame.inclusive[0, 0] == 7.0


def test_a_function_that_calls_itself_is_one_frame_a_call(make_stacks: MakeStacks) -> None:
    flame = build_flame(make_stacks([{"f;f;f": 1.0, "f": 1.0}]))
    assert names(flame) == ["", "f", "f;f", "f;f;f"]
    assert flame.inclusive[0].tolist() == [2.0, 2.0, 1.0, 1.0]


def test_runs_of_one_side_are_averaged_as_shares(make_stacks: MakeStacks) -> None:
    # The second run sampled ten times as much; its shares count no more for that.
    stacks = make_stacks([{"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 20.0}])
    changes = measure_frames(build_flame(stacks), "share", "inclusive")
    frames = by_name(build_flame(stacks))
    assert changes.base[frames["a"]] == pytest.approx(25.0)
    assert changes.base[frames["b"]] == pytest.approx(75.0)


def test_only_what_changed_beyond_noise_is_marked(make_stacks: MakeStacks) -> None:
    base = {f"main;f{number}": 100.0 for number in range(20)}
    new = base | {"main;f3": 130.0}
    stacks = make_stacks(jittered(base, 5, seed=1), jittered(new, 5, seed=2))
    flame = build_flame(stacks)
    changes = measure_frames(flame, "operation", "self")
    frames = by_name(flame)
    assert changes.columns is not None
    assert np.flatnonzero(changes.changed).tolist() == [frames["main;f3"]]
    assert (
        changes.columns.ci_low[frames["main;f3"]]
        < 30.0
        < changes.columns.ci_high[frames["main;f3"]]
    )


def test_a_blind_event_decides_about_all_code_but_what_hidden_time_is_attributed_to(
    make_stacks: MakeStacks,
) -> None:
    base = {f"main;f{number}": 100.0 for number in range(10)}
    unlock = "main;_raw_spin_unlock_irqrestore"
    base |= {"main;vfs_read": 100.0, unlock: 100.0, "main;printf@libc.so.6": 100.0}
    new = base | {"main;vfs_read": 150.0, unlock: 150.0, "main;printf@libc.so.6": 150.0}
    runs = jittered(base, 5, seed=8), jittered(new, 5, seed=9)
    marked = {}
    for sees in (True, False):
        flame = build_flame(make_stacks(*runs, sees_kernel=sees))
        changed = measure_frames(flame, "operation", "self").changed
        marked[sees] = {names(flame)[frame] for frame in np.flatnonzero(changed)}
    assert marked[True] >= {"main;vfs_read", unlock, "main;printf"}
    assert marked[False] == {"main;vfs_read", "main;printf"}


def test_a_place_has_the_sum_of_its_own_time_on_all_paths(make_stacks: MakeStacks) -> None:
    # Each path is too small to be drawn, and the place changed all the same.
    base = {f"p{number};hot": 1.0 for number in range(40)} | {"idle": 1e5}
    new = {f"p{number};hot": 2.0 for number in range(40)} | {"idle": 1e5}
    runs = jittered(base, 4, seed=4), jittered(new, 4, seed=5)
    flame = build_flame(make_stacks(*runs), least_share=5e-5)
    changes = measure_places(flame, "operation")
    place = flame.places.index(Place("hot", "[kernel]"))
    assert not any(name.endswith("hot") for name in names(flame))
    assert changes.new is not None
    assert (changes.base[place], changes.new[place]) == pytest.approx((40.0, 80.0), rel=0.02)
    assert changes.changed[place]
    caller = flame.places.index(Place("p0", "[kernel]"))
    assert changes.new[caller] == 0.0


def test_equal_sides_have_no_marked_frame(make_stacks: MakeStacks) -> None:
    runs = jittered({"a;b": 10.0, "a;c": 20.0, "d": 5.0}, 4, seed=3)
    changes = measure_frames(build_flame(make_stacks(runs, runs)), "share", "inclusive")
    assert not changes.changed.any()


def test_one_run_a_side_has_no_interval_and_marks_nothing(make_stacks: MakeStacks) -> None:
    flame = build_flame(make_stacks([{"a": 1.0, "b": 9.0}], [{"a": 9.0, "b": 1.0}]))
    changes = measure_frames(flame, "share", "inclusive")
    assert changes.columns is not None
    assert np.isnan(changes.columns.ci_low).all()
    assert not changes.changed.any()
    assert changes.columns.difference[by_name(flame)["a"]] == pytest.approx(80.0)


def test_boots_are_what_is_independent_where_a_side_has_several(make_stacks: MakeStacks) -> None:
    # Runs of one boot agree, boots do not: six runs would call noise a change.
    base = [{"a": 10.0 + boot, "b": 100.0} for boot in (0, 0, 0, 8, 8, 8)]
    new = [{"a": 10.0 + boot, "b": 100.0} for boot in (4, 4, 4, 14, 14, 14)]
    boots = [0, 0, 0, 1, 1, 1]
    stacks = make_stacks(base, new, boots=boots * 2)
    changes = measure_frames(build_flame(stacks), "operation", "self")
    assert stacks.runs.counts == (2, 2)
    assert changes.columns is not None
    assert changes.columns.n_base.max() == 2
    assert not changes.changed.any()


def test_small_frames_are_one_remainder_under_their_caller(make_stacks: MakeStacks) -> None:
    small = {f"main;tiny{number};leaf": 1e-5 for number in range(50)}
    flame = build_flame(make_stacks([{"main;big": 1.0} | small]), least_share=0.001)
    assert names(flame) == ["", "main", "main;big", "main;(rest)"]
    assert flame.hidden.tolist() == [0, 0, 0, 50]
    assert flame.inclusive[0, 3] == pytest.approx(50e-5)
    assert flame.own.sum() == pytest.approx(flame.inclusive[0, 0])


def test_a_small_frame_is_kept_where_its_stack_says_so(make_stacks: MakeStacks) -> None:
    small = {f"main;tiny{number};leaf": 1e-5 for number in range(50)}
    stacks = make_stacks([{"main;big": 1.0} | small])
    kept = np.zeros(len(stacks), np.int64)
    kept[[1, 2]] = 2, 3
    flame = build_flame(stacks, least_share=0.001, kept=kept)
    assert names(flame) == [
        "", "main", "main;big", "main;tiny0", "main;tiny1", "main;(rest)", "main;tiny1;leaf",
        "main;tiny0;(rest)",
    ]  # fmt: skip
    # All that was sampled is in the tree.
    assert flame.own.sum() == pytest.approx(flame.inclusive[:, 0].sum())


def count_changed(flame: Flame) -> set[str]:
    changed = changed_frames(
        flame,
        measure_frames(flame, "share", "inclusive"),
        measure_frames(flame, "share", "self"),
        measure_places(flame, "share"),
    )
    return {names(flame)[frame] for frame in np.flatnonzero(changed)}


def test_a_frame_counts_as_changed_for_itself_or_for_its_function(
    make_stacks: MakeStacks,
) -> None:
    base = {"work": 1e4, "a;hot": 20.0, "b;hot": 20.0, "c;hot": 20.0, "d;hot": 40.0, "same": 99.0}
    new = base | {"a;hot": 60.0, "b;hot": 50.0, "c;hot": 40.0, "d;hot": 39.0}
    flame = build_flame(make_stacks(jittered(base, 5, seed=4), jittered(new, 5, seed=5)))
    counted = count_changed(flame)
    assert {"a", "a;hot", "b;hot"} <= counted
    # It moved against its function, or nothing of it moved.
    assert not {"d;hot", "same"} & counted
    assert not any("rest" in name for name in counted)


def test_frames_of_other_commands_do_not_count_as_changed(make_stacks: MakeStacks) -> None:
    base = {"work": 1e3, "mkdir;hot": 1.0, "bench;hot": 20.0}
    new = base | {"mkdir;hot": 90.0, "bench;hot": 90.0}
    runs = jittered(base, 5, seed=4), jittered(new, 5, seed=5)
    everything = count_changed(build_flame(make_stacks(*runs)))
    assert everything >= {"mkdir", "mkdir;hot", "bench", "bench;hot"}
    others = frozenset({Place("mkdir", "[kernel]")})
    counted = count_changed(build_flame(make_stacks(*runs), others=others))
    assert counted == everything - {"mkdir", "mkdir;hot"}


def test_the_depth_of_the_innermost_chosen_frame_is_known_of_each_frame(
    make_stacks: MakeStacks,
) -> None:
    flame = build_flame(make_stacks([{"a;b;c": 1.0, "a;d": 1.0}]))
    at = by_name(flame)
    chosen = np.zeros(len(flame), dtype=np.bool_)
    chosen[at["a;b"]] = True
    depths = depths_of(flame, chosen)
    found = {name: int(depths[frame]) for name, frame in at.items()}
    assert found == {"": 0, "a": 0, "a;b": 2, "a;d": 0, "a;b;c": 2}


def test_a_frame_that_is_large_on_one_side_alone_is_kept(make_stacks: MakeStacks) -> None:
    flame = build_flame(
        make_stacks([{"a;gone": 5.0, "a;b": 5.0}], [{"a;b": 5.0, "a;came;deeper": 5.0}]),
        least_share=0.01,
    )
    frames = by_name(flame)
    assert one_sided_frames(flame) == ([frames["a;gone"]], [frames["a;came"]])


def test_what_lies_deeper_than_any_stack_is_a_remainder(make_stacks: MakeStacks) -> None:
    flame = build_flame(make_stacks([{";".join(["f"] * (DEEPEST + 100)): 3.0}]))
    assert len(flame) == DEEPEST + 1
    assert flame.place[-1] == REMAINDER
    assert flame.own.sum() == 3.0


def test_a_hundred_thousand_stacks_stay_a_small_tree(make_stacks: MakeStacks) -> None:
    depth, count = 20, 100_000
    draw = np.random.default_rng(4)
    one = make_stacks([{"a": 1.0}])
    flame = build_flame(
        replace(
            one,
            runs=replace(one.runs, totals=np.array([float(count)])),
            places=tuple(Place(f"f{number}", "[kernel]") for number in range(3_000)),
            frames=draw.integers(0, 3_000, count * depth),
            starts=np.arange(0, count * depth + 1, depth),
            run=np.zeros(count, dtype=np.int64),
            stack=np.arange(count),
            weight=np.ones(count),
        )
    )
    # Each level has at most as many frames as least shares fit into the whole, and remainders.
    assert len(flame) < 2 * depth / flame.least_share
    assert flame.own.sum() == pytest.approx(count)


def test_the_data_of_a_page_is_plain_json(make_stacks: MakeStacks) -> None:
    base = {"main;read": 10.0, "main;old": 2.0}
    new = {"main;read": 10.0, "main;new\x1b[31m": 3.0}
    stacks = make_stacks(jittered(base, 3, seed=5), jittered(new, 3, seed=6))
    tree = describe_flame(build_flame(stacks), "message")
    inclusive = tree.measures[0].inclusive
    columns = (
        tree.parent, tree.name, tree.hidden,
        inclusive.base, inclusive.new, inclusive.low, inclusive.high, inclusive.q,
    )  # fmt: skip
    assert set(map(len, columns)) == {5}
    assert [one.measure for one in tree.measures] == ["share", "operation"]
    assert tree.counts == (3, 3)
    assert "\x1b" not in json.dumps(to_plain(tree), allow_nan=False)
    assert tree.lists is not None
    assert symbols_of(tree, tree.lists.vanished) == ["old"]
    assert symbols_of(tree, tree.lists.appeared) == ["new[31m"]


def symbols_of(tree: FlameTree, frames: Sequence[int]) -> list[str]:
    return [tree.names[tree.name[frame]].symbol for frame in frames]


def test_costs_are_left_out_where_operations_are_not_known(make_stacks: MakeStacks) -> None:
    stacks = make_stacks([{"a": 1.0}], [{"a": 1.0}], operations=[1.0, np.nan])
    data = describe_flame(build_flame(stacks), "message")
    assert [one.measure for one in data.measures] == ["share"]


def test_a_part_has_the_same_tree_and_its_own_weights(make_stacks: MakeStacks) -> None:
    stacks = make_stacks([{"a;b": 6.0, "a;c": 3.0, "a;tiny;leaf": 1.0}])
    flame = build_flame(stacks, least_share=0.2)
    part = narrow_flame(flame, replace(stacks, weight=np.array([2.0, 0.0, 1.0])))
    frames = by_name(part)
    assert names(part) == names(flame)
    assert part.inclusive[0, frames["a"]] == 3.0
    assert part.inclusive[0, frames["a;b"]] == 2.0
    assert part.inclusive[0, frames["a;c"]] == 0.0
    assert part.own[0, frames["a;(rest)"]] == 1.0
    # Shares stay of all that was sampled.
    assert measure_frames(part, "share", "inclusive").base[0] == pytest.approx(30.0)


def test_all_weights_in_one_part_give_the_whole_tree_again(make_stacks: MakeStacks) -> None:
    weights = {f"m{n % 3};f{n % 7};g{n}": float(1 + n) for n in range(60)}
    stacks = make_stacks(jittered(weights, 3, seed=8), jittered(weights, 3, seed=9))
    flame = build_flame(stacks, least_share=0.01)
    again = narrow_flame(flame, stacks)
    assert np.allclose(again.inclusive, flame.inclusive)
    assert np.allclose(again.own, flame.own)
    assert np.array_equal(again.by_place, flame.by_place)


def test_parts_say_no_more_than_what_the_rest_follows_from(make_stacks: MakeStacks) -> None:
    weights = {"main;read": 10.0, "main;write": 20.0}
    stacks = make_stacks(jittered(weights, 3, seed=5), jittered(weights, 3, seed=6))
    flame = build_flame(stacks)
    part = Part(kind="node", name="1")
    data = describe_flame(flame, None, parts=[(part, narrow_flame(flame, stacks))])
    whole = data.measures[0]
    (short,) = data.parts[0].measures
    assert (data.parts[0].kind, data.parts[0].name) == ("node", "1")
    sides = (short.self_.base, whole.self_.base), (short.self_.new, whole.self_.new)
    for own, of_whole in sides:
        assert own == tuple(float(f"{value:.3g}") for value in of_whole)
    # "main" is all of every run, so that only what it calls varies.
    low, high = whole.inclusive.low[2], whole.inclusive.high[2]
    assert low is not None
    assert high is not None
    assert short.inclusive.margin[2] == pytest.approx((high - low) / 2, rel=0.05)
    assert short.functions.margin


def test_one_side_of_a_part_has_no_intervals(make_stacks: MakeStacks) -> None:
    stacks = make_stacks([{"a": 1.0}])
    flame = build_flame(stacks)
    data = describe_flame(flame, None, parts=[(Part(kind="cpu", name="0"), flame)])
    (short,) = data.parts[0].measures
    assert short.self_ == FlameMeans(base=(0, 100), new=())
    assert short.inclusive == FlameMargins(margin=(), changed=())
    assert short.functions == FlamePartFunctions(base=(100,), new=(), margin=(), changed=())
