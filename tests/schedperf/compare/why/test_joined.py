# SPDX-License-Identifier: GPL-2.0-or-later
"""Stories of a line, a symbol, a layout and a benchmark: all edges, each one gone, blindness."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles
from schedperf.compare.options import CompareOptions
from schedperf.compare.why.joined import joined
from schedperf.evidence.profile.record import ProfilePoint
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.base_new import BaseNew
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Finding, Section
from schedperf_generators.events import PLAIN, Event
from schedperf_generators.kernel import KernelImage, Symbol, lay_out
from schedperf_generators.memory import MemoryRun, Touch
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.profiles import profile, profiled_kernel
from tests.schedperf.evidence.c2c.records import with_point
from tests.schedperf.evidence.layout.records import make_alarm, make_layout
from tests.schedperf.evidence.profile.records import (
    COST,
    SHARE,
    make_event,
    make_point,
    make_row,
    profile_section,
)

NUMA = Numa(cpus=4, nodes=2)
READER, OTHER = "available_idle_cpu", "try_to_wake_up"
APART, TOGETHER = 0x2B9C0, 0x2BA40
TIMER = Event(name="cpu-clock", type=1, config=0, sample_type=PLAIN)
CYCLES = Event(name="cycles", type=0, config=0, sample_type=PLAIN)


def kernel_with(writer_at: int) -> KernelImage:
    """Return a kernel where a variable that all CPUs write lies on the line of another or not."""
    known = [one.name for one in profiled_kernel().functions if one.module is None]
    return KernelImage(
        functions=lay_out(dict.fromkeys((*known, READER, "copy_process")), size=0x380),
        per_cpu=(
            Symbol("process_counts", writer_at, 8),
            Symbol("idle_flags", TOGETHER + 8, 0x30),
        ),
        per_cpu_bytes=NUMA.static_bytes,
    )


@cache
def memory_samples(writer_at: int, contended: int, seed: int) -> bytes:
    touches = (
        Touch(target="idle_flags", offset=0, kind="load_remote_hitm", function=READER,
              samples=contended),
        Touch(target="process_counts", offset=0, kind="store_l1_hit", function="copy_process",
              samples=40),
    )  # fmt: skip
    run = MemoryRun(numa=NUMA, kernel=kernel_with(writer_at), touches=touches, seed=seed)
    return write_perf_data(run.perf_data())


@cache
def profile_samples(writer_at: int, weight: int, seed: int, *, is_blind: bool) -> bytes:
    spread = {(READER, cpu): weight + seed for cpu in range(4)}
    rest = {(OTHER, cpu): 400 for cpu in range(4)}
    event = TIMER if is_blind else CYCLES
    kernel = kernel_with(writer_at)
    return write_perf_data(
        profile(kernel, {**spread, **rest}, event=event, chains=False, seed=seed)
    )


class Made:
    """What is made of one side; base unless chosen otherwise."""

    def __init__(self, **chosen: Any) -> None:
        self.writer_at = chosen.get("writer_at", APART)
        self.contended = chosen.get("contended", 30)
        self.weight = chosen.get("weight", 20)
        self.time_s = chosen.get("time_s", 0.6)
        self.is_blind = chosen.get("is_blind", False)
        self.is_sampled = chosen.get("is_sampled", True)

    def runs(self) -> list[dict[str, Any]]:
        clean = [{"time_s": self.time_s * (1.0 + 0.002 * number)} for number in range(12)]
        return [*clean, *(self.instrumented(seed) for seed in range(3))]

    def instrumented(self, seed: int) -> dict[str, Any]:
        files = {
            "perf_profile/perf.data": profile_samples(
                self.writer_at, self.weight, seed, is_blind=self.is_blind
            ),
        }
        if self.is_sampled:
            samples = memory_samples(self.writer_at, self.contended + seed, seed)
            files |= {"perf_c2c/perf.data": samples, "perf_c2c/percpu.json": UNITS}
        return {"kind": "instrumented", "files": files}

    def layout(self) -> dict[str, str]:
        kernel = kernel_with(self.writer_at)
        return {"System.map": kernel.system_map(), "kallsyms": kernel.kallsyms()}


UNITS = json.dumps(
    {
        "method": "kcore",
        "stable": True,
        "unit_bytes": NUMA.unit_bytes,
        "units": {str(cpu): hex(base) for cpu, base in NUMA.unit_bases().items()},
    }
).encode()
WORSE = {"writer_at": TOGETHER, "contended": 150, "weight": 80, "time_s": 0.75}

Compare = Callable[..., Comparison]


@pytest.fixture
def compared(tmp_path: Path, make_bundle: Callable[..., Path]) -> Compare:
    """Return the comparison of two sides as ``Made`` makes them."""

    def run(base: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
        paths = []
        for number, chosen in enumerate((base, new)):
            made = Made(**chosen)
            path = make_bundle(
                tmp_path / f"{number}.tar",
                runs=[{"boot_id": f"boot-{number}", **run} for run in made.runs()],
                files={f"boots/0/layout/{name}": text for name, text in made.layout().items()},
                host={"kernel": {"build_id": f"{number:040x}"}},
            )
            paths.append(path)
        # Each side has one boot; these boots hardly differ, so a change of 25% is one.
        return compare_bundles([open_bundle(path) for path in paths], CompareOptions(boot_sd=0.01))

    return run


def story(found: Comparison) -> Finding | None:
    stories = [one for one in found.findings if one.id.startswith("joined#")]
    assert len(stories) < 2
    return stories[0] if stories else None


def told(found: Comparison) -> Finding:
    one = story(found)
    assert one is not None, [(name, s.status, s.reason) for name, s in found.sections.items()]
    return one


def test_four_edges_are_one_story_with_the_evidence_of_each(compared: Compare) -> None:
    found = compared({}, WORSE)
    one = told(found)
    assert "not measured: " not in one.claim
    assert {evidence.partition("#")[0] for evidence in one.evidence} == {
        "c2c", "profile", "layout", "benchmarks",
    }  # fmt: skip
    assert (one.n, one.better) == ((3, 3), "lower")
    assert one.ci is not None
    assert 0.0 < one.ci[0] < (one.value or 0.0) < one.ci[1]


def test_the_story_comes_first_and_its_parts_are_not_repeated(compared: Compare) -> None:
    found = compared({}, WORSE)
    assert found.findings[0].id.startswith("joined#")
    evidence = set(found.findings[0].evidence)
    rest = [one for one in found.findings[1:] if one.evidence]
    assert not [one.claim for one in rest if set(one.evidence) < evidence]
    assert not any(one.id == "bouncing_lines#idle_flags" for one in rest)


def test_the_other_way_round_it_is_told_the_other_way(compared: Compare) -> None:
    one = told(compared(WORSE, {}))
    assert "idle_flags no longer shares its cache line with process_counts" in one.claim
    assert "(improvement)" in one.claim
    assert (one.value or 0.0) < 0.0


def test_without_a_change_of_the_layout_the_other_edges_hold(compared: Compare) -> None:
    one = told(compared({"writer_at": TOGETHER}, WORSE))
    assert "shares its cache line with" not in one.claim
    assert one.attribution.startswith("grade B: ")
    assert not any(evidence.startswith("layout") for evidence in one.evidence)


def test_without_a_hotter_symbol_the_other_edges_hold(compared: Compare) -> None:
    one = told(compared({}, {**WORSE, "weight": 20}))
    assert READER not in one.claim
    assert "idle_flags now shares its cache line with process_counts" in one.claim
    assert one.attribution.startswith("grade B: ")


def test_without_a_benchmark_that_moved_the_other_edges_hold(compared: Compare) -> None:
    one = told(compared({}, {**WORSE, "time_s": 0.6}))
    assert "hackbench" not in one.claim
    assert one.attribution.startswith("grade B: ")


def test_a_benchmark_that_moved_the_other_way_is_no_edge(compared: Compare) -> None:
    one = told(compared({}, {**WORSE, "time_s": 0.45}))
    assert "improvement" not in one.claim


def test_a_symbol_that_moved_the_other_way_is_no_edge(compared: Compare) -> None:
    one = told(compared({"weight": 80}, {**WORSE, "weight": 20}))
    assert READER not in one.claim


def test_samples_that_show_no_contention_make_no_story(compared: Compare) -> None:
    assert story(compared({}, {**WORSE, "contended": 30})) is None


def test_one_edge_alone_is_no_story(compared: Compare) -> None:
    same = {"writer_at": TOGETHER}
    found = compared(same, {**same, "contended": 150})
    assert story(found) is None
    assert any(one.id == "bouncing_lines#idle_flags" for one in found.findings)


def test_a_blind_profile_is_no_edge_and_is_said(compared: Compare) -> None:
    one = told(compared({"is_blind": True}, {**WORSE, "is_blind": True}))
    assert READER not in one.claim
    assert (
        "not measured: CPU time of the functions: cpu-clock cannot sample kernel code that runs "
        "with interrupts off" in one.claim
    )
    assert one.attribution.startswith("grade B: ")


def profile_with(symbol: str, change: float, q: float, **event: Any) -> Section:
    return profile_section(make_event(point_with(symbol, change, q), **event))


def point_with(symbol: str, change: float, q: float, **row: Any) -> ProfilePoint:
    cost = replace(COST, base=10.0, new=10.0 + change, change=change, q=q)
    share = replace(SHARE, base=1.0, new=2.0, change=change, ci_low=0.5, ci_high=1.5)
    chosen = {"share": share, "cost": cost, "changed": q < 0.05, **row}
    return make_point(
        workload="hackbench",
        point="",
        rows=(make_row(symbol, **chosen),),
        runs=BaseNew(base=4, new=5),
    )


ALARM = make_alarm(
    "sd_llc_id",
    "sd_llc_shared",
    claim="sd_llc_id and sd_llc_shared no longer share a line",
    functions=("core.c:cpus_share_cache",),
)
LAYOUT = Section.of(make_layout(ALARM))
NO_SAMPLES = Section(
    schema="x", status="absent", reason="base: perf_c2c was skipped: no PEBS", data=None
)


def stories(sections: Mapping[str, Section], rows: Sequence[Any] = ()) -> list[Finding]:
    return list(joined(sections, rows))


def test_without_memory_samples_a_layout_and_a_symbol_are_a_weaker_story() -> None:
    hotter = profile_with("cpus_share_cache", 5.0, 0.001)
    (one,) = stories({"layout": LAYOUT, "profile": hotter, "c2c": NO_SAMPLES})
    assert one.claim == (
        "sd_llc_id and sd_llc_shared no longer share a line: cpus_share_cache 1 -> 2% of all "
        "CPUs (10 -> 15 ns per message); not measured: no memory samples: base: perf_c2c "
        "was skipped: no PEBS"
    )
    assert one.attribution.startswith("grade D: no memory samples")
    assert one.evidence == (
        "profile#cpus_share_cache",
        "layout#percpu/sd_llc_id+sd_llc_shared",
    )
    assert (one.n, one.unit, one.ci) == ((4, 5), "pp", (0.5, 1.5))


@pytest.mark.parametrize(
    "profiled",
    [
        profile_with("cpus_share_cache", 5.0, 0.2),
        profile_with("cpus_share_cache", -5.0, 0.001),
        profile_with("vfs_write", 5.0, 0.001),
        profile_with("cpus_share_cache", 5.0, 0.001, blind=BaseNew(base=True, new=True)),
        profile_with("cpus_share_cache", 5.0, 0.001, blind=BaseNew(base=None, new=False)),
    ],
    ids=["within noise", "cheaper", "another function", "blind", "sight unknown"],
)
def test_a_layout_alone_is_no_story(profiled: Section) -> None:
    assert stories({"layout": LAYOUT, "profile": profiled, "c2c": NO_SAMPLES}) == []


def test_a_change_beyond_all_doubt_is_an_edge_too() -> None:
    hotter = profile_with("cpus_share_cache", 5.0, 0.0)
    assert len(stories({"layout": LAYOUT, "profile": hotter, "c2c": NO_SAMPLES})) == 1


def test_without_any_section_there_is_no_story() -> None:
    assert stories({}) == []
    assert stories({"c2c": NO_SAMPLES, "profile": NO_SAMPLES, "layout": NO_SAMPLES}) == []


def test_samples_that_cannot_be_compared_are_no_samples_and_the_reason_is_said() -> None:
    data = with_point(
        reason="sampling periods differ between runs: 1000 in base, 500 in new", lines=()
    )
    unlike = Section.of(data)
    hotter = profile_with("cpus_share_cache", 5.0, 0.001)
    (one,) = stories({"layout": LAYOUT, "profile": hotter, "c2c": unlike})
    assert one.claim.endswith(
        "no memory samples: sampling periods differ between runs: 1000 in base, 500 in new"
    )


def test_where_no_operations_are_known_the_share_of_the_cpus_decides() -> None:
    def story_of(*, changed: bool) -> list[Finding]:
        point = point_with("cpus_share_cache", 5.0, 0.001, cost=None, changed=changed)
        return stories({"layout": LAYOUT, "profile": profile_section(make_event(point))})

    (one,) = story_of(changed=True)
    assert "cpus_share_cache 1 -> 2% of all CPUs;" in one.claim
    assert story_of(changed=False) == []
