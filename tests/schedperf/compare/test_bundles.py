# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.bundles: from bundles to the record, whatever state they are in."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from schedperf.compare import sections
from schedperf.compare.bundles import compare_bundles
from schedperf.compare.options import CompareOptions
from schedperf.compare.why.find import all_rules, find_all
from schedperf.evidence import FindingPlugin, SectionPlugin, all_sections
from schedperf.evidence.needs import Need
from schedperf.evidence.probe_effect.record import ProbeEffect
from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.inputs.side import Side, name_sides
from schedperf.model.caveats import caveat
from schedperf.model.comparison import SCHEMA, Comparison
from schedperf.model.rows import BootSd
from schedperf.model.schema import to_plain
from schedperf.model.sections import Finding, Section, SectionData, data_of

MakeBundle = Callable[..., Path]
Facts = dict[str, Any]
Compare = Callable[..., Comparison]

PRINTED = Path(__file__).parents[2] / "data" / "benchmarks"
CGROUP = Path(__file__).parents[3] / "examples" / "deep-cgroup"

TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)
EMULATED = {"virtualisation": {"emulated": True, "kind": "qemu", "grounds": "TCG"}}


def runs(*times: float, **common: Any) -> list[Facts]:
    return [{"time_s": time, **common} for time in times]


def slower(factor: float = 1.3) -> list[Facts]:
    return runs(*(factor * time for time in TIMES))


@pytest.fixture
def compared(make_bundle: MakeBundle, tmp_path: Path) -> Compare:
    """Compare bundles that are made of the given facts."""

    def compared(*sides: Facts, **options: Any) -> Comparison:
        paths = [make_bundle(tmp_path / f"{index}.tar", **side) for index, side in enumerate(sides)]
        return compare_bundles([open_bundle(path) for path in paths], CompareOptions(**options))

    return compared


def outcome(comparison: Comparison) -> tuple[str, int]:
    return comparison.overall.verdict, comparison.overall.exit_status


def codes(comparison: Comparison) -> list[str]:
    return [found.code for found in comparison.caveats]


class TestVerdicts:
    def test_a_slower_side_is_a_regression(self, compared: Compare) -> None:
        found = compared({"runs": runs(*TIMES)}, {"runs": slower(), "label": "new"})
        assert outcome(found) == ("regression", 1)
        [row] = found.rows
        assert (row.verdict, row.family, row.n_base, row.n_new) == ("regression", "primary", 5, 5)
        assert row.ratio == pytest.approx(1.3, rel=0.01)
        assert [value.value for value in row.values_base] == list(TIMES)
        assert found.schema == SCHEMA
        assert found.families[0].verdicts == {"regression": 1}

    def test_the_other_way_round_is_an_improvement(self, compared: Compare) -> None:
        found = compared({"runs": slower()}, {"runs": runs(*TIMES)})
        assert outcome(found) == ("improvement", 0)

    def test_noise_is_inconclusive(self, compared: Compare) -> None:
        found = compared({"runs": runs(0.5, 0.7, 0.6)}, {"runs": runs(0.6, 0.8, 0.5)})
        assert outcome(found) == ("inconclusive", 0)

    def test_the_margin_can_be_chosen(self, compared: Compare) -> None:
        sides = ({"runs": runs(*TIMES)}, {"runs": runs(*reversed(TIMES), 0.601)})
        assert outcome(compared(*sides)) == ("no-change", 0)
        assert outcome(compared(*sides, margin=0.001)) == ("inconclusive", 0)

    def test_instrumented_and_warm_up_runs_have_no_say(self, compared: Compare) -> None:
        noise = runs(9.0, 9.5, kind="instrumented") + runs(50.0, warmup=True)
        found = compared({"runs": runs(*TIMES)}, {"runs": runs(*TIMES, 0.604) + noise})
        assert found.rows[0].n_new == 6
        assert outcome(found) == ("no-change", 0)

    def test_points_make_a_sweep(self, compared: Compare) -> None:
        points = [
            {"time_s": time * groups, "point": {"groups": str(groups)}}
            for groups in (1, 4)
            for time in TIMES
        ]
        found = compared({"runs": points}, {"runs": points, "label": "same runs, other label"})
        assert [row.point for row in found.rows] == ["groups=1", "groups=4"]
        assert found.sweeps[0].points == ("groups=1", "groups=4")


class TestEqualData:
    def test_is_no_change(self, compared: Compare) -> None:
        found = compared({}, {})
        [row] = found.rows
        assert outcome(found) == ("no-change", 0)
        assert (row.method, row.reason, row.ratio) == ("same data", "same data", 1.0)

    @pytest.mark.parametrize(
        "side", [{"runs": runs(0.6)}, {"host": EMULATED}, {"runs": runs(0.6), "host": EMULATED}]
    )
    def test_even_of_one_run_or_emulated(self, compared: Compare, side: Facts) -> None:
        found = compared(side, side)
        assert outcome(found) == ("no-change", 0)
        assert {"one-boot", "blocks", "emulated"}.isdisjoint(codes(found))

    def test_beside_a_side_that_changed(self, compared: Compare) -> None:
        base = {"runs": runs(*TIMES)}
        found = compared(base, base, {"runs": slower()})
        assert [row.verdict for row in found.rows] == ["no-change", "regression"]

    @pytest.mark.parametrize(
        "side", [{"runs": 0}, {"runs": runs(0.6, exit_status=1)}, {"runs": [{"stdout": "?"}]}]
    )
    def test_without_results_is_inconclusive(self, compared: Compare, side: Facts) -> None:
        found = compared(side, side)
        assert outcome(found) == ("inconclusive", 0)
        assert found.overall.reason.startswith("no result, because ")

    def test_kernels_without_runs_and_captures_have_no_result(self, compared: Compare) -> None:
        other = {"runs": 0, "host": {"kernel": {"release": "6.13.0"}}}
        found = compared({"runs": 0}, other)
        assert outcome(found) == ("invalid", 4)
        assert found.overall.reason.startswith("no result, because base has no clean run")
        # A side that has none beside one that has some is a recording that failed.
        assert outcome(compared({"runs": runs(*TIMES)}, other)) == ("invalid", 4)


class TestNotComparable:
    def test_a_point_on_one_side_only_is_invalid(self, compared: Compare) -> None:
        common = runs(*TIMES, point={"groups": "1"})
        more = common + runs(*TIMES, point={"groups": "4"})
        found = compared({"runs": more}, {"runs": common})
        assert outcome(found) == ("invalid", 4)
        assert [row.verdict for row in found.rows] == ["no-change", "invalid"]

    def test_text_instead_of_numbers_is_missing_data(self, compared: Compare) -> None:
        text = "Running in process mode with 1 groups using 40 file descriptors\nTime: soon\n"
        found = compared({"runs": [{"stdout": text}]}, {"runs": [{"stdout": text}] * 2})
        assert outcome(found) == ("invalid", 4)
        assert found.overall.reason == (
            "no result, because 1 line of base could not be parsed; first: "
            "boots/0/runs/000/stdout:2: hackbench time: invalid number 'soon'"
        )

    def test_work_that_was_not_done_is_missing_data(self, compared: Compare) -> None:
        text = (
            "Running in process mode with 1 groups using 40 file descriptors each (== 40 tasks)\n"
            "Each sender will pass 2000 messages of 100 bytes\n"
            "signaling 40 worker threads to terminate\nTime: 1.010\n"
        )
        found = compared({"runs": runs(*TIMES)}, {"runs": [{"stdout": text}] * 4})
        assert outcome(found) == ("invalid", 4)
        assert found.overall.reason == (
            "no result, because the benchmark did not do its work in 4 runs of new; first: "
            "boots/0/runs/000/stdout:3: hackbench was stopped before all messages were passed; "
            "record again"
        )

    def test_output_that_no_parser_reads_has_a_short_reason(self, compared: Compare) -> None:
        found = compared({"runs": [{"stdout": "fine\n"}] * 4}, {"runs": [{"stdout": "well\n"}] * 4})
        assert found.overall.verdict == "inconclusive"
        assert found.overall.reason_short == "no parser reads the output of this workload"
        assert found.overall.reason.endswith(
            "record time -p CMD, or use --metric 'name[unit,higher]=REGEX'"
        )

    def test_a_workload_without_a_number_has_its_elapsed_time_which_decides_nothing(
        self, compared: Compare
    ) -> None:
        fast, slow = (
            {"runs": [{"stdout": "fine\n", "time_s": each} for each in times]}
            for times in ((1.0, 1.01, 0.99, 1.0), (2.0, 2.02, 1.98, 2.0))
        )
        found = compared(fast, slow)
        [row] = found.rows
        assert (row.metric, row.unit, row.family) == ("elapsed time (wall)", "s", "informational")
        assert row.ratio == pytest.approx(2.0, rel=0.01)
        assert outcome(found) == ("inconclusive", 0)
        assert "no parser reads the output" in found.overall.reason
        assert not any("more run" in step.what for step in found.next_steps)

    def test_a_workload_with_a_number_has_no_elapsed_time(self, compared: Compare) -> None:
        silent = {"stdout": "", "time_s": 1.0}
        found = compared(*({"runs": [*runs(*TIMES), silent]} for _ in range(2)))
        assert [row.metric for row in found.rows] == ["hackbench time"]


class TestEmulation:
    def test_no_number_of_runs_would_settle_it(self, compared: Compare) -> None:
        noisy = ((0.5, 0.7, 0.6, 0.55, 0.65), (0.6, 0.8, 0.5, 0.7, 0.62))
        [real] = compared(*({"runs": runs(*times)} for times in noisy)).rows
        assert "would give a verdict" in real.reason
        emulated = ({"runs": runs(*times), "host": EMULATED} for times in noisy)
        [row] = compared(*emulated).rows
        assert row.reason.startswith("timings come from an emulator (QEMU TCG); ")
        assert row.reason_short == "timings come from an emulator"
        assert "would give a verdict" not in row.reason
        assert row.more_runs is None

    def test_emulated_against_real_is_not_comparable(self, compared: Compare) -> None:
        found = compared({"runs": runs(*TIMES)}, {"runs": slower(), "host": EMULATED})
        assert outcome(found) == ("invalid", 4)
        assert "virtualisation.kind differs (and 1 more field)" in found.overall.reason


class TestOneBootEach:
    """Sides of one boot each: two boots of one kernel can explain a change."""

    ELSE = "99999999-0000-4000-8000-000000000000"

    def slower(self, factor: float = 1.3) -> list[Facts]:
        return [{**run, "boot_id": self.ELSE} for run in slower(factor)]

    def test_a_change_that_boots_can_explain_is_inconclusive(self, compared: Compare) -> None:
        found = compared({"runs": runs(*TIMES)}, {"runs": self.slower(1.1)})
        assert outcome(found) == ("inconclusive", 0)
        assert "one boot per side; two boots of one kernel can differ" in found.overall.reason
        assert {"one-boot", "boot-sd"}.intersection(codes(found)) == {"boot-sd"}
        [step] = [step for step in found.next_steps if step.id == "more-boots"]
        assert step.what.startswith("record 4 boots per side")
        assert "more-runs" not in {step.id for step in found.next_steps}

    def test_a_larger_change_is_a_regression(self, compared: Compare) -> None:
        found = compared({"runs": runs(*TIMES)}, {"runs": self.slower(2.0)})
        assert outcome(found) == ("regression", 1)
        assert [row.boot_sd for row in found.rows] == [BootSd(sd=0.1, source="assumed")]

    def test_so_it_is_if_boots_hardly_differ(self, compared: Compare) -> None:
        found = compared({"runs": runs(*TIMES)}, {"runs": self.slower(1.1)}, boot_sd=0.01)
        assert outcome(found) == ("regression", 1)
        [said] = [each.text for each in found.caveats if each.code == "boot-sd"]
        assert said.endswith("a boot-to-boot standard deviation of 1% (--boot-sd)")
        assert "more-boots" not in {step.id for step in found.next_steps}
        wider = compared({"runs": runs(*TIMES)}, {"runs": self.slower(1.1)}, boot_sd=0.05)
        [step] = [step for step in wider.next_steps if step.id == "more-boots"]
        assert step.why == "one boot per side; two boots of one kernel can differ by this much"
        assert wider.rows[0].reason_short == step.why

    def test_each_side_needs_its_own_boots(self, compared: Compare) -> None:
        sides = (runs(*TIMES), self.slower(1.1), slower(1.2))
        found = compared(*({"runs": side} for side in sides), boot_sd=0.01)
        [step] = [step for step in found.next_steps if step.id.startswith("more-boots")]
        assert step.why == "boot-to-boot variance is unknown"
        [command] = step.commands
        assert "2.tar" in command
        assert "1.tar" not in command

    @pytest.mark.parametrize(
        ("build_id", "verdict"), [("bb" * 20, "inconclusive"), ("aa" * 20, "regression")]
    )
    def test_other_kernels_are_other_boots_where_no_id_is_published(
        self, compared: Compare, build_id: str, verdict: str
    ) -> None:
        without = {"boot_id": None}
        kernels = [{"kernel": {"build_id": each}} for each in ("aa" * 20, build_id)]
        found = compared(
            {"runs": runs(*TIMES, **without), "host": kernels[0]},
            {"runs": [{**run, **without} for run in slower(1.1)], "host": kernels[1],
             "manifest": {"treatment": ["kernel.build_id"]}},
        )  # fmt: skip
        assert found.overall.verdict == verdict


class TestCaveats:
    def test_one_boot_a_side(self, compared: Compare) -> None:
        found = compared({"runs": runs(*TIMES)}, {"runs": slower()})
        assert [c.numbers for c in found.caveats if c.code == "one-boot"] == [
            {"side": "base"},
            {"side": "new"},
        ]

    def test_several_boots_are_the_unit(self, compared: Compare) -> None:
        boots = [
            {"boot": boot, "run": run, "time_s": time}
            for boot in (0, 1)
            for run, time in enumerate(TIMES)
        ]
        found = compared({"runs": boots}, {"runs": boots, "files": {"boots/0/x/y": "other"}})
        assert "one-boot" not in codes(found)
        assert [(row.replication, row.n_base, row.n_new) for row in found.rows] == [("boots", 2, 2)]

    def test_sessions_one_after_the_other_are_blocks(self, compared: Compare) -> None:
        later = [
            {**run, "start": f"2026-11-21T02:00:0{index}.000000Z"}
            for index, run in enumerate(slower())
        ]
        sides = [{"runs": [{**run, "session": name} for run in side]} for name, side in
                 (("a", runs(*TIMES)), ("b", later))]  # fmt: skip
        assert "blocks" in codes(compared(*sides))

    def test_boots_that_alternate_are_no_blocks(self, compared: Compare) -> None:
        def side(name: str, minutes: Sequence[int]) -> Facts:
            return {
                "runs": [
                    {"time_s": time, "session": f"{name}{minute}",
                     "start": f"2026-11-21T02:{minute:02d}:00.000000Z"}
                    for minute, time in zip(minutes, TIMES, strict=False)
                ]
            }  # fmt: skip

        assert "blocks" not in codes(compared(side("a", (0, 3)), side("b", (1, 2))))

    def test_one_session_is_no_block(self, compared: Compare) -> None:
        assert "blocks" not in codes(compared({"runs": runs(*TIMES)}, {"runs": slower()}))

    def test_an_unfinished_recording(self, compared: Compare) -> None:
        cut = {"complete": False, "incomplete_reason": "interrupted after 5 of 20 runs"}
        found = compared({"runs": runs(*TIMES)}, {"runs": slower(), "manifest": cut})
        assert caveat("incomplete", side="new", reason=cut["incomplete_reason"]) in found.caveats

    def test_processes_that_a_workload_left(self, compared: Compare) -> None:
        left = [{**run, "left_behind": ["sleep", "a", "b", "c"]} for run in slower()[:2]]
        found = compared({"runs": runs(*TIMES)}, {"runs": [*left, *slower()[2:]]})
        assert caveat("left-behind", side="new", count=2, names="sleep, a, b, …") in found.caveats

    def test_output_that_is_not_kept(self, compared: Compare) -> None:
        first, *others = slower()
        cut = {**first, "output_left_out": {"stdout": 1 << 30}}
        found = compared({"runs": runs(*TIMES)}, {"runs": [cut, *others]})
        numbers = {"side": "new", "count": 1, "bytes": 1 << 30, "first": "boots/0/runs/000"}
        assert caveat("output-left-out", **numbers) in found.caveats


class Anything(SectionData, frozen=True, kw_only=True):
    section: ClassVar[str] = "anything"
    version: ClassVar[int] = 1

    value: object


class TestFindings:
    @staticmethod
    def rule(find: Callable[[Mapping[str, Section]], Iterator[Finding]]) -> FindingPlugin:
        return FindingPlugin(
            name="broken", find=lambda sections, _: find(sections), is_joined=False
        )

    @staticmethod
    def found(value: float) -> Finding:
        return Finding(
            id="x#1", side="new", clause="so it is", metric="m", value=value, ci=None, unit="s",
            better=None, n=(1, 1), evidence=("x",), replication="1+1 runs",
            attribution="correlated",
        )  # fmt: skip

    def test_a_rule_that_crashes_costs_its_own_findings_only(self) -> None:
        def crash(_sections: Mapping[str, Section]) -> Iterator[Finding]:
            yield self.found(1.0)
            raise KeyError("changed")

        good = self.rule(lambda _: iter([self.found(2.0)]))
        findings, caveats = find_all([self.rule(crash), good], {})
        assert [one.value for one in findings] == [2.0]
        assert [one.text for one in caveats] == [
            "the finding rule `broken` failed, so its findings are missing (KeyError: 'changed')"
        ]

    def test_a_number_that_json_cannot_hold_is_a_crash(self) -> None:
        rule = self.rule(lambda _: iter([self.found(float("nan"))]))
        findings, caveats = find_all([rule], {})
        assert (findings, len(caveats)) == ((), 1)

    def test_every_rule_of_the_package_is_applied(self, compared: Compare) -> None:
        assert {"hotter_symbols", "layout_alarms"} <= all_rules().keys()
        assert "failed-finding" not in codes(compared({"runs": runs(*TIMES)}, {"runs": slower()}))


class TestSections:
    @staticmethod
    def analyse_with(analyse: Callable[[Sequence[Side]], SectionData]) -> Section:
        plugin = SectionPlugin(record=Anything, analyse=analyse, reads=lambda: "anything")
        return sections.analyse_sides(plugin, ())

    def test_a_crash_costs_the_section_only(self) -> None:
        def crash(_sides: Sequence[Side]) -> Anything:
            raise KeyError("no\nsuch thing")

        found = self.analyse_with(crash)
        assert (found.status, found.data) == ("failed", None)
        assert found.reason == r"KeyError: 'no\nsuch thing'"

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}])
    def test_data_that_json_cannot_hold_is_a_crash(self, value: object) -> None:
        found = self.analyse_with(lambda _sides: Anything(value=value))
        assert (found.status, found.data) == ("failed", None)

    def test_one_whose_need_nobody_provides_says_so(self) -> None:
        need: Need[Callable[[], int]] = Need("forks")
        found = self.analyse_with(lambda _sides: Anything(value=need.function()))
        assert found.reason == "LookupError: no kind of evidence provides forks"

    def test_what_has_most_to_read_starts_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[set[str]] = []

        def do_none(tasks: Sequence[Any], _workers: int) -> list[Any]:
            started.extend({plugin.record.section for plugin in task.args[0]} for task in tasks)
            return [dict.fromkeys(all_sections())]

        monkeypatch.setattr(sections, "do_all", do_none)
        bundles = [open_bundle(CGROUP / f"{name}.tar.xz") for name in ("base", "new")]
        sections.analyse_all(name_sides(bundles), 2, drawings=True)
        # The types of the kernels have 22 MB there, and the profiles 1.6 MB.
        assert started[0] >= {"layout", "c2c"}
        assert started[1] >= {"profile", "flames"}

    def test_an_absent_one_says_why(self, compared: Compare) -> None:
        found = compared({}, {"runs": slower()})
        assert found.sections["pelt"].status == "absent"
        assert found.sections["pelt"].reason

    def test_one_that_is_about_something_else_does_not_apply(self, compared: Compare) -> None:
        found = compared({}, {"runs": slower()})
        assert found.sections["probe_effect"].status == "not-applicable"

    def test_probe_effect_compares_the_kinds_of_runs_of_one_side(self, compared: Compare) -> None:
        times = runs(*TIMES) + runs(*(1.1 * time for time in TIMES), kind="instrumented")
        found = compared({"runs": times}, {"runs": runs(*TIMES)})
        data = data_of(found.sections, ProbeEffect)
        assert data is not None
        [row] = data.rows
        assert (row.side, row.n_clean, row.n_instrumented) == ("base", 5, 5)
        assert row.ratio == pytest.approx(1.1, rel=0.01)
        assert (row.ci_low or 0.0) > 1.05


def test_the_id_is_that_of_the_data_and_the_options(compared: Compare) -> None:
    facts: tuple[Facts, Facts] = {"runs": runs(*TIMES)}, {"runs": slower()}
    first, again = compared(*facts), compared(*facts)
    assert first.id == again.id
    assert len({first.id, compared(*facts, margin=0.05).id, compared(*reversed(facts)).id}) == 3


def test_the_key_of_a_row_does_not_depend_on_its_numbers(compared: Compare) -> None:
    one, other = (compared({"runs": runs(*TIMES)}, {"runs": slower(by)}) for by in (1.1, 1.3))
    assert [row.key for row in one.rows] == [row.key for row in other.rows]
    assert len({row.key for row in one.rows}) == len({row.metric for row in one.rows})


def test_sections_that_look_at_the_same_data_read_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: Counter[str] = Counter()
    for name in ("read", "extract"):
        original = getattr(Bundle, name)

        def counting(bundle: Bundle, member: str, *rest: Any, _original: Any = original) -> Any:
            read[f"{bundle.label} {member}"] += 1
            return _original(bundle, member, *rest)

        monkeypatch.setattr(Bundle, name, counting)
    bundles = [open_bundle(CGROUP / f"{side}.tar.xz") for side in ("base", "new")]
    compare_bundles(bundles)
    of_runs = {name: count for name, count in read.items() if "/runs/" in name}
    assert {name.rpartition("/")[2] for name in of_runs} >= {"stdout", "perf_stat.csv", "perf.data"}
    assert set(of_runs.values()) == {1}


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        ("hackbench", None, "micro"),
        ("tbench 2", "tbench.txt", "semi"),
        ("make", "time.txt", None),
    ],
)
def test_rows_have_the_class_of_their_benchmark(
    compared: Compare, command: str, name: str | None, expected: str | None
) -> None:
    printed = {} if name is None else {"stdout": (PRINTED / name).read_text()}
    side = {"runs": runs(*TIMES, **printed), "workload": command}
    found = compared(side, {**side, "label": "new"})
    assert found.rows
    assert {row.class_ for row in found.rows} == {expected}
    plain = to_plain(found.rows[0])
    assert isinstance(plain, dict)
    assert plain["class"] == expected


class TestWhatABundleDeclares:
    COMMIT: ClassVar[Facts] = {
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "subject": "sched/fair: Place tasks by their lag",
        "patches": ["0001.patch"],
        "links": ["https://lore.kernel.org/r/1@example.org"],
        "dirty": True,
        "build_id": "ab" * 20,
    }

    def test_the_commit_is_in_the_summary_of_its_side(self, compared: Compare) -> None:
        found = compared({}, {"manifest": {"source": self.COMMIT}})
        assert found.sides[0].source is None
        source = found.sides[1].source
        assert source is not None
        assert source.commit == self.COMMIT["commit"]
        assert (source.patches, source.links) == (("0001.patch",), (self.COMMIT["links"][0],))
        assert (source.dirty, source.tree, source.author) == (True, None, None)

    def test_recordings_have_the_versions_that_tools_print(self, compared: Compare) -> None:
        command = ["schedperf", "record", "-o", "base.tar", "--", "hackbench"]
        programs = [{"name": name, "sha256": "0" * 64} for name in ("hackbench", "run.sh")]
        recordings = [{"command": command, "minutes": 1.5, "programs": programs}]
        host = {"tools": {"hackbench": "hackbench 2.5", "run.sh": {"odd": 1}}}
        found = compared({}, {"manifest": {"recordings": recordings}, "host": host})
        assert found.sides[0].recordings == ()
        [recording] = found.sides[1].recordings
        assert (recording.command, recording.minutes) == (tuple(command), 1.5)
        assert [program.version for program in recording.programs] == ["hackbench 2.5", None]
