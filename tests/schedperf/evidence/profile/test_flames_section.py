# SPDX-License-Identifier: GPL-2.0-or-later
"""The call stacks of real bundles: the section keeps to its schema and to what the command says."""

import gc
import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._profile_request import make_request
from schedperf.evidence import Absent
from schedperf.evidence.profile.flames_section import LEAST_SHARE, MOST_TREES, flames
from schedperf.evidence.profile.section import profile as compare_symbols
from schedperf.evidence.profile.sources import read_profiles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side, name_sides
from schedperf.model.place import name_frame
from schedperf.model.schema import to_plain
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.profiles import USER, profile, profiled_kernel
from tests.record_schema import check_schema

EXAMPLES = Path(__file__).parents[4] / "examples"
ARM64 = EXAMPLES / "deep-cgroup-arm64"
# A tree and its parts; as one text, without blanks.
MOST_JSON_BYTES = 800_000


def paths_of(example: Path) -> list[Path]:
    return [example / f"{side}.tar.xz" for side in ("base", "new")]


# One worker makes the trees of the module.
pytestmark = pytest.mark.xdist_group("flames_section")


@pytest.fixture(scope="module")
def arm64() -> Any:
    """Analyse the example whose samples see the scheduler."""
    data = flames(name_sides([open_bundle(path) for path in paths_of(ARM64)]))
    check_schema(data)
    return data


@pytest.fixture
def tree(arm64: Any) -> Any:
    """Give the only tree of the example."""
    (compared,) = arm64.comparisons
    (found,) = compared.events
    return found


def test_the_tree_is_that_of_the_command_but_for_small_frames(tree: Any) -> None:
    request = make_request(
        paths_of(ARM64), "symbol", symbols=None, event=None, point=None, comm=None, cpu=None,
        node=None, has_stacks=True,
    )  # fmt: skip
    (whole,) = request.describe_flames()
    assert tree.least_share == LEAST_SHARE > whole.least_share
    assert len(tree.parent) < len(whole.parent)
    ours, theirs = (numbers_by_path(one) for one in (tree, whole))
    assert len(ours) > 100
    assert all(theirs[path] == numbers for path, numbers in ours.items())


def numbers_by_path(tree: Any) -> dict[str, tuple[Any, ...]]:
    """Return the inclusive times of each frame that is no remainder, by its call path."""
    paths: list[str] = []
    found = {}
    inclusive = tree.measures[0].inclusive
    for frame, (parent, name) in enumerate(zip(tree.parent, tree.name, strict=True)):
        own = tree.names[name].symbol if name >= 0 else str(name)
        paths.append(f"{paths[parent]};{own}" if parent >= 0 else own)
        if name >= 0:
            found[paths[frame]] = (inclusive.base[frame], inclusive.new[frame])
    return found


def test_what_rows_and_classes_name_has_frames_and_callers(tree: Any) -> None:
    profile_data = compare_symbols(name_sides([open_bundle(path) for path in paths_of(ARM64)]))
    (point,) = profile_data.comparisons[0].events[0].points
    drawn = {tree.names[name].symbol for name in tree.name if name >= 0}
    functions = [function for row in point.classes for function in row.functions]
    classes = {name_frame(function.symbol, function.name) for function in functions}
    changed = {name_frame(row.symbol, row.name) for row in point.rows if row.changed}
    assert len(classes) > 30
    assert {"psi_task_change", "update_tg_load_avg"} <= classes
    assert classes | changed <= drawn
    # What counts as changed is the same in the table of functions and in the graph.
    of_graph = tree.measures[0].functions.changed
    assert {tree.names[name].symbol for name in of_graph} == changed != set()
    sampled = {row.symbol for row in point.rows if row.share.base + row.share.new > 0.0}
    assert sampled - {calls.symbol for calls in tree.calls} == {"other load"}


def test_the_frames_that_count_as_changed_are_those_of_the_list(tree: Any) -> None:
    changed = tree.measures[0].changed
    assert set(tree.lists.changed) <= set(changed)
    assert tree.lists.counts.changed == len(changed) > len(tree.lists.changed) > 5


def test_commands_of_the_recorder_are_not_in_the_lists_of_changes(tree: Any) -> None:
    others = {tree.names[tree.name[frame]].symbol for frame in tree.others}
    assert others == {"other load"}
    for frame in (*tree.measures[0].changed, *tree.lists.appeared, *tree.lists.vanished):
        outermost = frame
        while tree.parent[outermost]:
            outermost = tree.parent[outermost]
        assert outermost not in tree.others


def test_callers_and_callees_are_summed_over_all_paths(tree: Any) -> None:
    of_symbol = [one for one in tree.calls if one.symbol == "update_load_avg"]
    (calls,) = (one for one in of_symbol if one.dso == "[kernel]")
    callers = {call.symbol: (call.base, call.new) for call in calls.callers}
    assert callers["enqueue_task_fair"] == pytest.approx((0.012, 0.552), abs=0.001)
    assert {call.symbol for call in calls.callees} >= {"__update_load_avg_se", "decay_load"}
    shares = [call.base + call.new for call in calls.callers]
    assert shares == sorted(shares, reverse=True)
    assert len(calls.callers) == 8
    assert calls.more_callers > 0


def test_nodes_cpus_and_busy_commands_have_numbers_of_their_own(tree: Any) -> None:
    named = [(part.kind, part.name) for part in tree.parts]
    assert named == [
        *(("node", str(node)) for node in range(2)),
        *(("cpu", str(cpu)) for cpu in range(4)),
        ("comm", "hackbench"),
        ("comm", "swapper"),
    ]
    for kind in ("node", "cpu"):
        parts = [part for part in tree.parts if part.kind == kind]
        own = [part.measures[0].self_ for part in parts]
        assert sum(sum(of_part.base) for of_part in own) == pytest.approx(100.0, abs=0.1)
        assert sum(sum(of_part.new) for of_part in own) == pytest.approx(100.0, abs=0.1)


def test_a_command_alone_has_the_time_of_its_frame(tree: Any) -> None:
    (bench,) = (part for part in tree.parts if part.name == "hackbench")
    symbols = [tree.names[name].symbol if name >= 0 else "" for name in tree.name]
    frame = symbols.index("hackbench")
    assert tree.parent[frame] == 0
    alone, inclusive = bench.measures[0].self_, tree.measures[0].inclusive
    assert sum(alone.base) == pytest.approx(inclusive.base[frame], rel=0.001)
    assert sum(alone.new) == pytest.approx(inclusive.new[frame], rel=0.001)


def test_what_the_example_is_about_changed_in_its_stacks(tree: Any) -> None:
    changed = {tree.names[tree.name[frame]].symbol for frame in tree.lists.changed}
    appeared = {tree.names[tree.name[frame]].symbol for frame in tree.lists.appeared}
    assert {"update_load_avg", "update_cfs_group"} & (changed | appeared)


def test_the_record_stays_small(arm64: Any) -> None:
    assert len(json.dumps(to_plain(arm64), separators=(",", ":"))) < MOST_JSON_BYTES


def test_numbers_have_four_digits(tree: Any) -> None:
    values = tree.measures[0].inclusive.base
    assert all(float(f"{value:.4g}") == value for value in values)


SAMPLES = {("update_load_avg", 0): 60, ("update_cfs_group", 3): 20, (USER, 1): 20}


@pytest.fixture
def analyse(make_bundle: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Analyse bundles with two runs at each of these points: ``analyse(base, new, chains=…)``."""
    kernel = profiled_kernel()

    def run(point: str, **chosen: Any) -> dict[str, Any]:
        files = {"perf_profile/perf.data": write_perf_data(profile(kernel, SAMPLES, **chosen))}
        return {"kind": "instrumented", "files": files, "point": dict([point.split("=")])}

    def run_it(*points_of_sides: Sequence[str], **chosen: Any) -> Any:
        paths = [
            make_bundle(
                tmp_path / f"{number}.tar",
                runs=[run(point, seed=seed, **chosen) for point in points for seed in range(2)],
                files={"boots/0/layout/kallsyms": kernel.kallsyms()},
            )
            for number, points in enumerate(points_of_sides)
        ]
        data = flames(name_sides([open_bundle(path) for path in paths]))
        check_schema(data)
        return data

    return run_it


def test_points_without_a_tree_are_named_and_one_tree_has_parts(
    analyse: Callable[..., Any],
) -> None:
    points = [f"groups={number}" for number in range(MOST_TREES + 1)]
    (compared,) = analyse(points, points).comparisons
    trees = compared.events
    assert len(trees) == MOST_TREES
    assert [bool(tree.parts) for tree in trees] == [True, *[False] * (MOST_TREES - 1)]
    assert [tree.place.rpartition(" at ")[2] for tree in trees] == points[:MOST_TREES]
    assert trees[0].place.startswith("cycles, hackbench")
    (left_out,) = compared.left_out
    assert left_out.endswith(f" at groups={MOST_TREES}")


def test_equal_sides_have_no_changed_frame(analyse: Callable[..., Any]) -> None:
    (compared,) = analyse(["groups=1"], ["groups=1"]).comparisons
    (tree,) = compared.events
    assert tree.place == ""
    assert tree.counts == (2, 2)
    for measures in (tree.measures, *(part.measures for part in tree.parts)):
        for measure in measures:
            assert measure.inclusive.changed == measure.functions.changed == ()


def test_every_new_side_has_its_trees(analyse: Callable[..., Any]) -> None:
    data = analyse(["groups=1"], ["groups=1"], ["groups=1"])
    assert [compared.side for compared in data.comparisons] == ["new", "new2"]


def test_sides_without_a_point_in_common_have_no_tree(analyse: Callable[..., Any]) -> None:
    with pytest.raises(Absent, match="base and new were sampled with different events, workloads"):
        analyse(["groups=1"], ["groups=2"])


def test_runs_without_call_chains_are_absent_and_say_what_to_record(
    analyse: Callable[..., Any],
) -> None:
    with pytest.raises(Absent, match="base: the samples have no call chains; record with"):
        analyse(["groups=1"], ["groups=1"], chains=False)


@pytest.fixture
def bundle(make_bundle: Callable[..., Path], tmp_path: Path) -> Path:
    """Write a bundle of two runs, the second of which has no perf.data but bytes."""
    kernel = profiled_kernel()
    contents = write_perf_data(profile(kernel, SAMPLES)), b"not perf"
    runs = [{"kind": "instrumented", "files": {"perf_profile/perf.data": one}} for one in contents]
    files = {"boots/0/layout/kallsyms": kernel.kallsyms()}
    return make_bundle(tmp_path / "bundle.tar", runs=runs, files=files)


def test_samples_are_read_once_for_all_sections_and_go_with_their_side(bundle: Path) -> None:
    opened = open_bundle(bundle)
    side = Side(name="base", bundle=opened)
    read = side.once(read_profiles)
    assert side.once(read_profiles) is read
    assert Side(name="base", bundle=opened).once(read_profiles) is not read
    assert [run.key.run for run in read.runs] == [0]
    assert [note for note in read.notes if note.startswith("boot 0, run 001")]
    gone = weakref.ref(opened)
    del opened, side
    gc.collect()
    assert gone() is None


def test_it_does_not_matter_which_section_asks_first(bundle: Path) -> None:
    sections = flames, compare_symbols
    found = []
    for order in (sections, sections[::-1]):
        sides = name_sides([open_bundle(bundle), open_bundle(bundle)])
        found.append({section: section(sides) for section in order})
    assert found[0] == found[1]
