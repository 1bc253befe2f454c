# SPDX-License-Identifier: GPL-2.0-or-later
"""What is advised, and that each command is one that exists."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from schedperf.cli import cli
from schedperf.compare.advice.next_steps import next_steps
from schedperf.compare.advice.recorded import recorded_sides
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.base_new import BaseNew
from schedperf.model.comparison import Comparison, NextStep
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.plan import check_placeholders, cross_points
from tests.schedperf.evidence.account.conftest import run_of
from tests.schedperf.evidence.profile.records import make_event, profile_section
from tests.test_golden import GOLDEN

MakeBundle = Callable[..., Path]
Facts = dict[str, Any]
Compare = Callable[..., Comparison]

TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)
LOADS = (1.0, 1.1, 0.9, 1.0, 1.05)
NOISE = ((0.5, 0.7, 0.6, 0.55, 0.65), (0.6, 0.8, 0.5, 0.7, 0.62))
GUEST = {"kernel": {"cmdline": "virtme_hostname=virtme-ng ro quiet"}}
OTHER_KERNEL = {"kernel": {"release": "6.13.0", "build_id": "ffff00"}}
SETUPS = ("echo 0 > /proc/sys/kernel/x", "echo '1 2' > /proc/sys/kernel/x && ./go $$")


def runs(times: Sequence[float], **common: Any) -> list[Facts]:
    return [{"time_s": time, **common} for time in times]


def in_rounds(times: Sequence[float], **common: Any) -> list[Facts]:
    return [{"time_s": time, "round": number, **common} for number, time in enumerate(times)]


@pytest.fixture
def compared(make_bundle: MakeBundle, tmp_path: Path) -> Compare:
    """Compare bundles that are made of the given facts; they are named base.tar, new.tar, …"""

    def compared(*sides: Facts, names: Sequence[str] = ("base.tar", "new.tar")) -> Comparison:
        paths = [
            make_bundle(tmp_path / name, **side) for name, side in zip(names, sides, strict=True)
        ]
        return compare_bundles([open_bundle(path) for path in paths])

    return compared


def check_command(command: str) -> None:
    """Let the real command line parse a command, without running it."""
    words = shlex.split(command)
    assert words.pop(0) == "schedperf"
    name, *arguments = words
    if name in ("record", "ab"):
        end = arguments.index("--")
        options = make_parser(name, "schedperf").parse_args(arguments[:end])
        cross_points(options.point)
        check_placeholders(arguments[end + 1 :], [point for point, _ in options.point])
        assert arguments[end + 1 :]
        return
    context = click.Context(cli, info_name="schedperf")
    found = cli.get_command(context, name)
    assert found is not None, name
    found.make_context(name, arguments, parent=context)


def step(comparison: Comparison, name: str) -> NextStep:
    """Return the step of that rule, after all commands of all steps were parsed."""
    for one in comparison.next_steps:
        for command in one.commands:
            check_command(command)
    return next(one for one in comparison.next_steps if one.id == name)


def ids(comparison: Comparison) -> list[str]:
    return [one.id for one in comparison.next_steps]


def shown(one: NextStep, tmp_path: Path) -> list[str]:
    return [command.replace(f"{tmp_path}/", "") for command in one.commands]


@pytest.mark.parametrize(
    "comparison", sorted(GOLDEN.glob("*/compare.json")), ids=lambda path: path.parent.name
)
def test_the_command_line_takes_every_command_that_golden_cases_advise(comparison: Path) -> None:
    for one in json.loads(comparison.read_text(encoding="utf-8"))["next_steps"]:
        for command in one["commands"]:
            check_command(command)


def test_rounds_get_more_rounds_in_new_bundles_and_runs_are_appended(
    compared: Compare, tmp_path: Path
) -> None:
    rounds = ({"runs": runs(NOISE[0])}, {"runs": in_rounds(NOISE[1]), "setup": SETUPS[1]})
    for pair in (rounds, rounds[::-1]):
        found = compared(*pair)
        number = 5 + (found.rows[0].more_runs or 5)
        (command,) = shown(step(found, "more-runs"), tmp_path)
        assert command == f"schedperf rerun base.tar new.tar -n {number}"
    found = compared({"runs": runs(NOISE[0])}, {"runs": runs(NOISE[1])})
    (command,) = shown(step(found, "more-runs"), tmp_path)
    assert command == f"schedperf rerun base.tar new.tar --append -n {found.rows[0].more_runs or 5}"


def in_order(times: Sequence[float], session: int) -> list[Facts]:
    """Return the runs of a side that was recorded within one session."""
    return [
        {"time_s": time, "session": f"{session}", "start_monotonic_s": 3600.0 * session + number,
         "start": f"2026-11-21T0{session}:00:{number:02}.000000Z"}
        for number, time in enumerate(times)
    ]  # fmt: skip


FALLING = [1.0 - 0.02 * number for number in range(12)]


@pytest.mark.parametrize("is_interleaved", [False, True])
def test_after_drift_the_first_step_is_to_interleave_unless_it_was_done(
    compared: Compare, *, is_interleaved: bool
) -> None:
    base, new = in_order(FALLING, 1), in_order([time - 0.24 for time in FALLING], 2)
    if is_interleaved:
        base, new = (in_rounds([run["time_s"] for run in side]) for side in (base, new))
    found = compared({"runs": base}, {"runs": new})
    assert ("interleave" in ids(found)) != is_interleaved
    if not is_interleaved:
        assert found.rows[0].verdict == "inconclusive"
        assert ids(found)[0] == "interleave"
        assert step(found, "interleave").commands[0].startswith("schedperf ab -o interleaved ")


def test_kernels_are_not_interleaved_as_settings(compared: Compare) -> None:
    base, new = in_order(FALLING, 1), in_order([time - 0.24 for time in FALLING], 2)
    found = compared({"runs": base}, {"runs": new, "host": OTHER_KERNEL})
    assert "interleave" not in ids(found)


def test_a_kernel_without_schedstats_is_never_the_only_step(compared: Compare) -> None:
    section = {"status": "absent", "reason": "the kernel was built without CONFIG_SCHEDSTATS"}
    slower = runs([1.3 * time for time in TIMES])
    # The advice for two kernels differs from that for one.
    sides = ({"runs": runs(TIMES)}, {"runs": slower}, {"runs": slower, "host": OTHER_KERNEL})
    found = compared(*sides, names=("base.tar", "new.tar", "other.tar"))
    lacking = replace(found.sections["schedstat"], **section)
    seen = replace(found, sections={**found.sections, "schedstat": lacking})
    *others, last = next_steps(seen, {})
    assert (last.id, last.what) == ("schedstats", "build the kernels with CONFIG_SCHEDSTATS=y")
    assert not [one.id for one in others if one.id.startswith("schedstats")]
    rows = tuple(replace(row, verdict="inconclusive", more_runs=None) for row in seen.rows)
    assert next_steps(replace(seen, rows=rows, caveats=()), {}) == ()


@pytest.mark.parametrize(
    ("lacking", "unit", "expected"),
    [
        ((24, 3), "rounds", [("more-runs", "record about 24 more pairs for a and b")]),
        ((100,), "runs", [("more-runs", "record about 100 more runs per side for a")]),
        ((101,), "runs", [("too-noisy", "too noisy to decide: use longer runs or a quieter")]),
        ((21,), "boots", [("too-noisy", "too noisy to decide: use longer runs or a quieter")]),
        (
            (368, 5),
            "rounds",
            [("more-runs", "record about 5 more pairs for b"), ("too-noisy", "too noisy")],
        ),
    ],
)
def test_more_runs_name_their_results_up_to_a_number_that_is_worth_it(
    compared: Compare, lacking: Sequence[int], unit: str, expected: Sequence[tuple[str, str]]
) -> None:
    found = compared({"runs": runs(NOISE[0])}, {"runs": runs(NOISE[1])})
    row = replace(found.rows[0], verdict="inconclusive", replication=unit)
    rows = tuple(
        replace(row, metric=name, more_runs=number)
        for name, number in zip("abc", lacking, strict=False)
    )
    steps = [
        one
        for one in next_steps(replace(found, rows=rows), {})
        if one.id in ("more-runs", "too-noisy")
    ]
    assert [one.id for one in steps] == [name for name, _ in expected]
    for one, (_, what) in zip(steps, expected, strict=True):
        assert one.what.startswith(what)
        assert one.id == "more-runs" or one.commands == ()
    if lacking[0] == 368:
        assert steps[1].why == "a: a verdict needs about 368 more pairs"


def test_three_sides_get_one_command_for_more_runs(compared: Compare, tmp_path: Path) -> None:
    found = compared(
        *({"runs": in_rounds(times), "setup": SETUPS[0]} for times in (*NOISE, NOISE[0])),
        names=("base.tar", "new.tar", "new2.tar"),
    )
    rows = tuple(
        replace(row, verdict="inconclusive", more_runs=3 if row.side == "new" else 7)
        for row in found.rows
    )
    sides = name_sides([open_bundle(Path(side.path)) for side in found.sides])
    steps = next_steps(replace(found, rows=rows), recorded_sides(sides))
    [more] = [one for one in steps if one.id.startswith("more-runs")]
    assert more.what.startswith("record about 7 more ")
    assert shown(more, tmp_path) == ["schedperf rerun base.tar new.tar new2.tar -n 12"]


TEXT = {"stdout": "rate: 5\n"}
RULE = {"name": "rate", "unit": "1/s", "better": "higher", "regex": "throughput: (.*)"}


def test_a_rule_is_advised_only_where_something_is_printed(
    compared: Compare, tmp_path: Path
) -> None:
    runs = [{"stdout": ""}] * 3
    found = compared({"runs": runs}, {"runs": [*runs, TEXT], "host": OTHER_KERNEL})
    assert "--metric" in step(found, "name-metric").commands[0]
    found = compared({"runs": runs}, {"runs": runs, "host": OTHER_KERNEL})
    assert found.next_steps[0].what == "boot each kernel and record a benchmark as workload"
    assert shown(step(found, "record-benchmark"), tmp_path) == [
        "schedperf record -o base-benchmark.tar -n 5 -- WORKLOAD",
        "schedperf record -o new-benchmark.tar -n 5 -- WORKLOAD",
        "schedperf compare base-benchmark.tar new-benchmark.tar",
    ]
    assert found.overall.reason == (
        "no result, because the workload prints nothing; record a benchmark as workload"
    )
    assert "name-metric" not in ids(found)


def test_settings_of_a_workload_that_prints_nothing_are_not_repeated(compared: Compare) -> None:
    runs = [{"stdout": "", "side": side} for side in ("base", "new")]
    found = compared({"runs": runs[:1]}, {"runs": runs[1:], "setup": SETUPS[0]})
    assert step(found, "record-benchmark").commands == ()


def test_guests_that_print_nothing_boot_all_kernels_with_a_benchmark(
    compared: Compare, tmp_path: Path
) -> None:
    runs = [{"stdout": ""}]
    new = {**EMULATED, "kernel": {**OTHER_KERNEL["kernel"], **GUEST["kernel"]}}
    sides = [{"runs": runs, "host": host} for host in (EMULATED, new, new)]
    found = compared(*sides, names=("tip.tar", "a.tar", "b.tar"))
    # Recording the same again, under KVM or with more collectors, gives no result either.
    assert ids(found)[0] == "record-benchmark"
    assert not {"real-hardware", "explain", "name-metric"} & {*ids(found)}
    images = "--kernel a-benchmark=NEW_BZIMAGE --kernel b-benchmark=NEW2_BZIMAGE"
    assert shown(step(found, "record-benchmark"), tmp_path) == [
        f"schedperf vm --kernel tip-benchmark=BASE_BZIMAGE {images} -n 5 -- WORKLOAD",
        "schedperf compare tip-benchmark.tar a-benchmark.tar b-benchmark.tar",
    ]


@pytest.mark.parametrize("omitted", [0, 1 << 30])
def test_a_rule_that_matches_nothing_is_to_be_corrected(compared: Compare, omitted: int) -> None:
    run = {"stdout": "rate: 6\n", "output_left_out": {"stdout": omitted} if omitted else {}}
    found = compared(*({"runs": [each], "metric": [RULE]} for each in (TEXT, run)))
    advised = step(found, "name-metric")
    assert advised.what.startswith("record again and correct the --metric rule")
    place = "print the result within the first 4 MiB or the last 8 MiB of the output"
    for text in (advised.what, found.overall.reason):
        assert (place in text) == bool(omitted)
    assert ("1073741824 bytes are omitted" in advised.why) == bool(omitted)


def test_guests_cannot_take_turns_with_the_machine(compared: Compare) -> None:
    found = compared({"runs": runs(NOISE[0])}, {"runs": in_rounds(NOISE[1]), "host": GUEST})
    assert step(found, "more-runs").commands == ()


def test_an_advised_command_is_one_short_line(compared: Compare, tmp_path: Path) -> None:
    new = {"runs": in_rounds(NOISE[1]), "host": OTHER_KERNEL, "setup": SETUPS[0]}
    found = step(compared({"runs": runs(NOISE[0])}, new), "more-runs")
    (command,) = shown(found, tmp_path)
    assert command.startswith("schedperf rerun base.tar new.tar -n ")
    assert len(command) < 60


EMULATED = {"virtualisation": {"kind": "qemu", "emulated": True, "grounds": "TCG"}, **GUEST}


@pytest.mark.parametrize("used_s", [0.02, 4.0])
def test_other_load_on_one_side_is_to_be_ended(
    compared: Compare, tmp_path: Path, used_s: float
) -> None:
    def beside(side: str, cpu_s: float) -> list[Facts]:
        used = [
            {"others_cpu_s": cpu_s * noise, "others": []} for noise in (1.0, 1.1, 0.9, 1.0, 1.05)
        ]
        accounts = [run_of(changes=changes) for changes in used]
        runs = in_rounds(TIMES, side=side)
        return [{**run, **account} for run, account in zip(runs, accounts, strict=True)]

    found = compared(
        {"runs": beside("base", 0.02), "setup": ""},
        {"runs": beside("new", used_s), "setup": SETUPS[0]},
    )
    if used_s < 1.0:
        assert "other-load" not in ids(found)
    else:
        assert found.next_steps[0].id == "other-load"
        assert shown(step(found, "other-load"), tmp_path) == ["schedperf rerun base.tar new.tar"]


def test_two_settings_of_one_guest_stay_two_settings(compared: Compare, tmp_path: Path) -> None:
    sides = (
        {"runs": in_rounds(times, side=side), "setup": setup, "host": EMULATED}
        for times, side, setup in zip(NOISE, ("base", "new"), ("", SETUPS[1]), strict=True)
    )
    found = compared(*sides)
    first = found.next_steps[0]
    assert first.id == "real-hardware"
    assert first.what == "record again on x86_64 hardware or under KVM"
    assert shown(step(found, "real-hardware"), tmp_path) == ["schedperf rerun base.tar new.tar"]


def test_kernels_of_guests_are_named_by_the_reader(compared: Compare, tmp_path: Path) -> None:
    new = {**EMULATED, "kernel": {**OTHER_KERNEL["kernel"], **GUEST["kernel"]}}
    found = compared(
        {"runs": runs(NOISE[0]), "host": EMULATED}, {"runs": runs(NOISE[1]), "host": new}
    )
    check, again = shown(step(found, "real-hardware"), tmp_path)
    assert check == "schedperf vm --check"
    images = "--kernel base=BASE_BZIMAGE --kernel new=NEW_BZIMAGE"
    assert again == f"schedperf rerun base.tar new.tar {images} --boots 4"


def test_kernels_that_were_booted_alternately_are_booted_again(
    compared: Compare, tmp_path: Path
) -> None:
    kernels = ("--kernel", "base=6.1.0-1", "--kernel", "new=6.1.0-2")
    command = ["schedperf", "ab", *kernels, "--on", "ssh:lab", "--boots", "1", "--", "hackbench"]
    recordings = {"recordings": [{"command": command}]}
    facts: Facts = {"workload": "hackbench", "manifest": recordings}
    slower = [1.3 * time for time in TIMES]
    found = compared(
        {"runs": runs(TIMES), **facts}, {"runs": runs(slower), "host": OTHER_KERNEL, **facts}
    )
    again = step(found, "more-boots")
    assert again.what == "record 4 boots per side"
    assert shown(again, tmp_path) == ["schedperf rerun base.tar new.tar --boots 4"]
    # Neither side can be recorded without the other one.
    assert "a-a" not in ids(found)
    assert step(found, "revert").commands == ()


def test_the_same_step_for_several_kernels_is_one_command_for_all(
    compared: Compare, tmp_path: Path
) -> None:
    slower = [1.3 * time for time in TIMES]
    kernels = [{"kernel": {"release": f"6.{n}.0", "build_id": f"{n:06x}"}} for n in range(13, 16)]
    found = compared(
        {"runs": runs(TIMES)},
        *({"runs": runs(slower), "host": kernel} for kernel in kernels),
        names=("base.tar", "new13.tar", "new14.tar", "new15.tar"),
    )
    assert [step.id for step in found.next_steps].count("explain") == 1
    assert not [step.id for step in found.next_steps if step.id.startswith("explain-")]
    [command] = shown(step(found, "explain"), tmp_path)
    assert command.startswith("schedperf rerun base.tar new13.tar new14.tar new15.tar --with ")


def test_each_of_several_guests_has_an_image_of_its_own(compared: Compare, tmp_path: Path) -> None:
    hosts: list[Facts] = [
        {**EMULATED, "kernel": {"release": release, "build_id": build_id, **GUEST["kernel"]}}
        for release, build_id in (("6.13.0", "ff13"), ("6.14.0", "ff14"))
    ]
    news = [{"runs": runs(NOISE[1]), "host": host} for host in hosts]
    found = compared(
        {"runs": runs(NOISE[0]), "host": EMULATED},
        *news,
        names=("base.tar", "patch.tar", "repair.tar"),
    )
    _, again = shown(step(found, "real-hardware"), tmp_path)
    images = "--kernel base=BASE_BZIMAGE --kernel patch=NEW_BZIMAGE --kernel repair=NEW2_BZIMAGE"
    assert again == f"schedperf rerun base.tar patch.tar repair.tar {images} --boots 4"


@pytest.mark.parametrize("make", [in_rounds, runs])
def test_base_against_itself_is_base_alone(
    compared: Compare, tmp_path: Path, make: Callable[..., list[Facts]]
) -> None:
    slower = [1.3 * time for time in TIMES]
    host = OTHER_KERNEL if make is runs else {}
    found = compared({"runs": make(TIMES)}, {"runs": make(slower), "host": host})
    expected = {
        in_rounds: ["schedperf rerun base.tar base.tar"],
        runs: ["schedperf rerun base.tar", "schedperf compare base.tar rerun/base.tar"],
    }
    assert shown(step(found, "a-a"), tmp_path) == expected[make]
    conditions = step(found, "a-a").conditions
    assert ("boot the kernel of base first" in conditions) == (make is runs)


def test_a_side_that_was_given_twice_is_recorded_again(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    path = make_bundle(tmp_path / "base.tar", runs=in_rounds(TIMES), setup=SETUPS[1])
    found = compare_bundles([open_bundle(path), open_bundle(path)])
    assert shown(step(found, "same-data"), tmp_path)[0] == "schedperf rerun base.tar"


def test_a_dot_in_a_name_is_no_suffix(compared: Compare, tmp_path: Path) -> None:
    slower = {"runs": runs([1.2 * time for time in TIMES]), "host": OTHER_KERNEL}
    found = compared({"runs": runs(TIMES)}, slower, names=("6.12.tar", "6.13.tar.xz"))
    assert shown(step(found, "revert"), tmp_path) == [
        "schedperf rerun 6.13.tar.xz",
        "schedperf compare 6.12.tar 6.13.tar.xz rerun/6.13.tar",
    ]


def test_a_workload_that_is_not_a_command_is_not_repeated(compared: Compare) -> None:
    found = compared(*({"runs": runs(times), "workload": "hackbench 'unclosed"} for times in NOISE))
    assert step(found, "more-runs").commands == ()


@pytest.mark.parametrize(
    "workload",
    ["hackbench \x1b[2J", "hackbench \u202egnp.exe", "hackbench; touch /tmp/owned $(reboot) | sh"],
)
def test_advice_has_no_text_of_a_bundle(compared: Compare, tmp_path: Path, workload: str) -> None:
    found = compared(*({"runs": runs(times), "workload": workload} for times in NOISE))
    (command,) = shown(step(found, "more-runs"), tmp_path)
    assert command.startswith("schedperf rerun base.tar new.tar --append -n ")


def test_a_bundle_whose_name_looks_like_an_option_is_a_file(
    make_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, times in zip(("-base.tar", "new.tar"), NOISE, strict=True):
        make_bundle(tmp_path / name, runs=runs(times))
    found = compare_bundles([open_bundle(Path(name)) for name in ("-base.tar", "new.tar")])
    assert "rerun ./-base.tar new.tar --append " in step(found, "more-runs").commands[0]


def test_a_bundle_that_runs_cannot_be_added_to_is_recorded_anew(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    paths = []
    for name, times in zip(("base", "new"), NOISE, strict=True):
        made = make_bundle(tmp_path / f"{name}.tar", runs=runs(times))
        paths.append(made.rename(tmp_path / f"{name}.bundle"))
    found = compare_bundles([open_bundle(path) for path in paths])
    assert "--append" not in step(found, "more-runs").commands[0]


def test_the_command_line_takes_every_command_that_three_kernels_advises(
    compared_example: Callable[[str], Comparison],
) -> None:
    found = compared_example("three-kernels")
    advised = step(found, "record-benchmark")
    assert found.next_steps[0] == advised
    assert not any("--metric" in command for command in advised.commands)


@pytest.mark.parametrize("clock", ["hrtimer", "pmu"])
def test_a_profile_of_a_timer_is_to_be_taken_on_a_pmu(compared: Compare, clock: str) -> None:
    new = {"runs": runs([1.3 * time for time in TIMES])}
    found = compared({"runs": runs(TIMES)}, new)
    profile = profile_section(make_event(clock=BaseNew(base=clock, new=clock)))
    seen = replace(found, sections={**found.sections, "profile": profile})
    sides = name_sides([open_bundle(Path(side.path)) for side in seen.sides])
    recorded = replace(seen, next_steps=next_steps(seen, recorded_sides(sides)))
    assert ("pmu" in ids(recorded)) == (clock == "hrtimer")
    if clock == "hrtimer":
        first, *again = step(recorded, "pmu").commands
        assert first == "schedperf doctor"
        assert again[0].startswith("schedperf rerun ")


@pytest.mark.parametrize("is_usable", [True, False])
def test_a_collector_that_the_machine_cannot_run_is_not_asked_for(
    compared: Compare, *, is_usable: bool
) -> None:
    tried = [
        {"collector": name, "path": f"boots/0/runs/000/{name}", "status": "skipped",
         "reason": "no BPF"}
        for name in ("bpf_pelt", "bpf_placement")
    ]  # fmt: skip
    slower = runs([1.3 * time for time in TIMES])
    found = compared(
        {"runs": runs(TIMES), "captures": [] if is_usable else tried}, {"runs": slower}
    )
    commands = [command for one in found.next_steps for command in one.commands]
    assert any("bpf_" in command for command in commands) == is_usable


@pytest.mark.parametrize("name", ["latency", "rate"])
def test_wakeup_latencies_are_to_be_recorded_where_a_latency_changed(
    compared: Compare, name: str
) -> None:
    rule = {"name": name, "unit": "s", "better": "lower", "regex": r"took ([\d.]+)"}
    sides = [
        {"metric": [rule], "runs": [{"stdout": f"took {factor * time:.6f}\n"} for time in TIMES]}
        for factor in (1.0, 1.3)
    ]
    first = step(compared(*sides), "explain")
    assert ("wakeup_latency" in first.commands[0]) == (name == "latency")
    assert first.what.startswith("record wakeup latencies, PELT") == (name == "latency")
