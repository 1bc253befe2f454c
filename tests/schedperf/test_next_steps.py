"""schedperf.next_steps: what is advised, and that each command is one that exists."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from schedperf.bundle import open_bundle
from schedperf.cli import cli
from schedperf.compare import compare
from schedperf.compare_tables import compare_tables
from schedperf.model import Comparison, NextStep
from schedperf.next_steps import next_steps
from schedperf.recordings import MOST_WORKLOADS, recordings_of
from schedperf.sides import name_sides
from schedperf.tables import open_table
from schedperf_collectors._options import make_parser
from schedperf_collectors._plan import check_placeholders, cross_points

MakeBundle = Callable[..., Path]
Facts = dict[str, Any]
Compare = Callable[..., Comparison]

TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)
NOISE = ((0.5, 0.7, 0.6, 0.55, 0.65), (0.6, 0.8, 0.5, 0.7, 0.62))
EMULATED = {"virtualisation": {"emulated": True, "kind": "qemu", "grounds": "TCG"}}
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
        return compare([open_bundle(path) for path in paths])

    return compared


def check_command(command: str) -> None:
    """Let the real command line parse a command, without running it."""
    words = shlex.split(command)
    if words[:2] == ["sh", "-c"]:
        # A setup, and what then takes the place of its shell.
        words = shlex.split(words[2].rpartition(" && exec ")[2])
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


def test_an_open_result_gets_as_many_runs_as_the_statistics_name(
    compared: Compare, tmp_path: Path
) -> None:
    found = compared({"runs": runs(NOISE[0])}, {"runs": runs(NOISE[1])})
    advised = step(found, "more-runs")
    number = found.rows[0].more_runs or 5
    assert advised.what == f"make about {number} more runs a side"
    assert shown(advised, tmp_path) == [
        f"schedperf record --append base.tar -n {number} --with none -- hackbench -l 100 -g 4",
        f"schedperf record --append new.tar -n {number} --with none -- hackbench -l 100 -g 4",
        "schedperf compare base.tar new.tar",
    ]


def test_a_sweep_is_repeated_with_its_points_and_placeholders(
    compared: Compare, tmp_path: Path
) -> None:
    def both(times: Sequence[float]) -> list[Facts]:
        return [one for groups in "14" for one in runs(times, point={"groups": groups})]

    found = compared({"runs": both(NOISE[0])}, {"runs": both(NOISE[1])})
    first = shown(step(found, "more-runs"), tmp_path)[0]
    assert first.endswith("--with none --point groups=1,4 -- hackbench -l 100 -g {groups}")


def test_rules_of_metrics_and_treatments_are_given_again(compared: Compare) -> None:
    rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": "rate: ([0-9.]+)"}
    side = {"metric": [rule], "treatment": ["sched.autogroup"]}
    found = compared({**side, "runs": runs(NOISE[0])}, {**side, "runs": runs(NOISE[1])})
    first = step(found, "more-runs").commands[0]
    assert "--vary sched.autogroup" in first
    assert "--metric 'rate[1/s,higher]=rate: ([0-9.]+)'" in first


def test_settings_of_one_machine_are_recorded_in_turns_again(
    compared: Compare, tmp_path: Path
) -> None:
    sides = [
        {"runs": in_rounds(times), "setup": setup}
        for times, setup in zip(NOISE, SETUPS, strict=True)
    ]
    advised = step(compared(*sides), "more-runs")
    first, last = shown(advised, tmp_path)
    words = shlex.split(first)
    assert words[:6] == ["schedperf", "ab", "--base", "base-more.tar", "--new", "new-more.tar"]
    assert words[words.index("--base-setup") + 1] == SETUPS[0]
    assert words[words.index("--new-setup") + 1] == SETUPS[1]
    assert int(words[words.index("-n") + 1]) > len(TIMES)
    assert last == "schedperf compare base-more.tar new-more.tar"


def test_a_regression_is_explained_reverted_and_repeated_in_that_order(
    compared: Compare, tmp_path: Path
) -> None:
    new = {"runs": runs([1.3 * time for time in TIMES]), "host": OTHER_KERNEL}
    found = compared({"runs": runs(TIMES)}, new)
    assert ids(found) == ["explain", "revert", "more-boots", "a-a"]
    explain = shown(step(found, "explain"), tmp_path)
    wanted = "--with default,bpf_pelt,bpf_placement,perf_c2c"
    assert explain[0] == (
        f"schedperf record -o base-why.tar -n 5 {wanted} -- hackbench -l 100 -g 4"
    )
    assert explain[-1] == "schedperf compare base-why.tar new-why.tar"
    assert shown(step(found, "revert"), tmp_path)[-1] == (
        "schedperf compare base.tar new.tar new-reverted.tar"
    )
    assert shown(step(found, "a-a"), tmp_path)[-1] == "schedperf compare base.tar base-again.tar"


def test_kernels_recorded_one_after_the_other_are_to_be_booted_in_turns(
    compared: Compare,
) -> None:
    after = [{"time_s": 1.3 * time, "order": 100 + number} for number, time in enumerate(2 * TIMES)]
    found = compared({"runs": runs(2 * TIMES)}, {"runs": after, "host": OTHER_KERNEL})
    commands = step(found, "take-turns").commands
    assert commands[1] == (
        "schedperf vm --kernel base-vm=BASE_BZIMAGE --kernel new-vm=NEW_BZIMAGE --boots 4 -n 10 "
        "--with none -- hackbench -l 100 -g 4"
    )


def test_too_few_runs_in_blocks_are_topped_up(compared: Compare) -> None:
    after = [{"time_s": time, "order": 100 + number} for number, time in enumerate(NOISE[1])]
    found = compared({"runs": runs(NOISE[0])}, {"runs": after})
    assert step(found, "more-runs").what == "make about 5 more runs a side"


def test_runs_and_rounds_of_one_kernel_are_recorded_in_turns(
    compared: Compare, tmp_path: Path
) -> None:
    sides = ({"runs": runs(NOISE[0])}, {"runs": in_rounds(NOISE[1]), "setup": SETUPS[1]})
    for pair in (sides, sides[::-1]):
        found = compared(*pair)
        first, last = shown(step(found, "more-runs"), tmp_path)
        number = 5 + (found.rows[0].more_runs or 5)
        words = shlex.split(first)
        assert words[:6] == ["schedperf", "ab", "--base", "base-more.tar", "--new", "new-more.tar"]
        assert words[words.index("-n") + 1] == str(number)
        assert ("--base-setup" in words, "--new-setup" in words) == (
            "setup" in pair[0], "setup" in pair[1],
        )  # fmt: skip
        assert last == "schedperf compare base-more.tar new-more.tar"


@pytest.mark.parametrize("host", [OTHER_KERNEL, GUEST])
def test_kernels_and_guests_cannot_take_turns_on_one_machine(
    compared: Compare, host: Facts
) -> None:
    found = compared({"runs": runs(NOISE[0])}, {"runs": in_rounds(NOISE[1]), "host": host})
    assert step(found, "more-runs").commands == ()


def test_a_setting_cannot_be_reverted_as_a_commit(compared: Compare, tmp_path: Path) -> None:
    slower = in_rounds([1.3 * time for time in TIMES])
    found = compared(
        {"runs": in_rounds(TIMES), "setup": SETUPS[0]}, {"runs": slower, "setup": SETUPS[1]}
    )
    assert found.overall.verdict == "regression"
    assert "revert" not in ids(found)
    *both, last = shown(step(found, "more-boots"), tmp_path)
    assert [shlex.split(one)[2] for one in both] == [
        f"{setup} && exec schedperf record --append {name} -n 5 --with none -- "
        "hackbench -l 100 -g 4"
        for setup, name in zip(SETUPS, ("base.tar", "new.tar"), strict=True)
    ]
    assert last == "schedperf compare base.tar new.tar"
    words = shlex.split(step(found, "a-a").commands[0])
    setups = [words[words.index(f"--{side}-setup") + 1] for side in ("base", "new")]
    assert setups == [SETUPS[0], SETUPS[0]]
    assert shown(step(found, "a-a"), tmp_path)[-1] == "schedperf compare base-aa.tar new-aa.tar"


def test_a_blocking_field_is_made_equal_or_allowed(compared: Compare, tmp_path: Path) -> None:
    other = {"runs": runs(TIMES), "host": {"cpu": {"microcode": "0x1"}}}
    found = compared({"runs": runs(TIMES)}, other)
    advised = step(found, "equalise")
    assert ids(found)[0] == "equalise"
    assert "cpu.microcode" in advised.what
    assert shown(advised, tmp_path)[-1] == (
        "schedperf compare base.tar new.tar --allow cpu.microcode"
    )


def test_another_workload_cannot_be_allowed(compared: Compare) -> None:
    found = compared({"workload": "hackbench -g 4"}, {"workload": "perf bench sched pipe"})
    advised = step(found, "equalise")
    assert "workload" in advised.what
    assert not any("--allow" in command for command in advised.commands)


def test_what_was_emulated_is_to_be_measured_on_hardware(compared: Compare) -> None:
    side = {"runs": runs(TIMES), "host": EMULATED}
    slower = {"runs": runs([1.2 * time for time in TIMES]), "host": EMULATED}
    assert step(compared(side, slower), "real-hardware").what.startswith("record on real hardware")


def test_guests_are_booted_again_with_names_that_a_guest_may_have(compared: Compare) -> None:
    host = {**GUEST, **EMULATED}
    sides = ({"runs": runs(TIMES), "host": host}, {"runs": runs(NOISE[0]), "host": host})
    commands = step(compared(*sides), "real-hardware").commands
    assert commands[0] == "schedperf vm --check"
    assert commands[1].startswith(
        "schedperf vm --kernel base-real=BASE_BZIMAGE --kernel new-real=NEW_BZIMAGE --boots 4 -n 5"
    )
    assert commands[-1] == "schedperf compare base-real.tar new-real.tar"


def test_the_metric_of_an_unknown_benchmark_is_to_be_named(compared: Compare) -> None:
    found = compared(*({"runs": [{"stdout": f"rate {n}\n"}] * 5} for n in (1, 2)))
    assert "--metric 'NAME[UNIT,lower]=BEFORE ([0-9.]+)'" in step(found, "name-metric").commands[0]


def test_runs_that_all_failed_are_to_be_looked_at(compared: Compare, tmp_path: Path) -> None:
    found = compared({"runs": runs(TIMES)}, {"runs": runs(TIMES, exit_status=1)})
    assert shown(step(found, "failed-runs"), tmp_path) == ["schedperf show --runs new.tar"]


def test_the_same_bundle_twice_needs_another_one(compared: Compare, tmp_path: Path) -> None:
    found = compared({"runs": runs(TIMES)}, {"runs": runs(TIMES)})
    assert ids(found) == ["same-data"]
    assert shown(step(found, "same-data"), tmp_path)[-1] == (
        "schedperf compare base.tar new-other.tar"
    )


def test_a_dot_in_a_name_is_no_suffix(compared: Compare, tmp_path: Path) -> None:
    slower = {"runs": runs([1.2 * time for time in TIMES])}
    found = compared({"runs": runs(TIMES)}, slower, names=("6.12.tar", "6.13.tar.xz"))
    assert shown(step(found, "explain"), tmp_path)[-1] == (
        "schedperf compare 6.12-why.tar 6.13-why.tar"
    )


def test_each_new_side_has_steps_of_its_own(compared: Compare) -> None:
    slower = [{"runs": runs([factor * time for time in TIMES])} for factor in (1.2, 1.4)]
    found = compared({"runs": runs(TIMES)}, *slower, names=("base.tar", "b.tar", "c.tar"))
    assert {"explain", "explain-new2"} <= set(ids(found))
    assert "c-why.tar" in step(found, "explain-new2").commands[-1]


@pytest.mark.parametrize(
    "workload",
    ["hackbench 'unclosed", "hackbench \x1b[2J", "hackbench \u202egnp.exe", "hackbench --\u200b"],
)
def test_a_command_that_a_reader_cannot_see_is_not_repeated(
    compared: Compare, workload: str
) -> None:
    sides = ({"runs": runs(times), "workload": workload} for times in NOISE)
    found = compared(*sides)
    assert step(found, "more-runs").commands == ()


def test_a_hostile_workload_stays_words_of_the_command(compared: Compare) -> None:
    workload = "hackbench; touch /tmp/owned $(reboot) `reboot` | sh"
    found = compared(*({"runs": runs(times), "workload": workload} for times in NOISE))
    words = shlex.split(step(found, "more-runs").commands[0])
    assert words[words.index("--") + 1 :] == shlex.split(workload)
    assert "'hackbench;'" in step(found, "more-runs").commands[0]
    assert "'$(reboot)'" in step(found, "more-runs").commands[0]


def test_a_treatment_that_no_option_takes_is_not_repeated(compared: Compare) -> None:
    side = {"treatment": ["--output=/etc/passwd"]}
    found = compared(*({**side, "runs": runs(times)} for times in NOISE))
    assert step(found, "more-runs").commands == ()


def test_a_bundle_whose_name_looks_like_an_option_is_a_file(
    make_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, times in zip(("-base.tar", "new.tar"), NOISE, strict=True):
        make_bundle(tmp_path / name, runs=runs(times))
    found = compare([open_bundle(Path(name)) for name in ("-base.tar", "new.tar")])
    assert "--append ./-base.tar" in step(found, "more-runs").commands[0]


def test_a_bundle_that_is_read_only_is_recorded_anew(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    paths = []
    for name, times in zip(("base", "new"), NOISE, strict=True):
        made = make_bundle(tmp_path / f"{name}.tar", runs=runs(times))
        paths.append(made.rename(tmp_path / f"{name}.bundle"))
    found = compare([open_bundle(path) for path in paths])
    assert "-o" in shlex.split(step(found, "more-runs").commands[0])


def test_few_workloads_of_many_are_repeated(make_bundle: MakeBundle, tmp_path: Path) -> None:
    many: list[Facts] = [
        {"time_s": time, "workload": f"hackbench -l 100 -g {groups}", "point": {}}
        for groups in range(1, 7)
        for time in TIMES
    ]
    path = make_bundle(tmp_path / "base.tar", runs=many)
    recording = recordings_of(name_sides([open_bundle(path)]))["base"]
    assert len(recording.workloads) == 6
    slower = [{**one, "time_s": 1.2 * one["time_s"]} for one in many]
    new = make_bundle(tmp_path / "new.tar", runs=slower)
    found = compare([open_bundle(path), open_bundle(new)])
    recorded = [one for one in step(found, "explain").commands if " record " in one]
    assert len(recorded) == 2 * MOST_WORKLOADS


def compare_table(folder: Path, base: Sequence[float], new: Sequence[float]) -> Comparison:
    lines = ["side,workload,metric,unit,better,value"]
    for side, times in (("base", base), ("new", new)):
        lines += [f"{side},hackbench,time,s,lower,{time}" for time in times]
    path = folder / "runs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return compare_tables([open_table(path)])


def test_tables_get_words_without_commands(tmp_path: Path) -> None:
    found = compare_table(tmp_path, *NOISE)
    [advised] = [one for one in found.next_steps if one.id == "more-runs"]
    assert advised.commands == ()
    assert "a side" in advised.what


def test_what_changed_in_a_table_is_to_be_recorded(tmp_path: Path) -> None:
    found = compare_table(tmp_path, TIMES, [1.3 * time for time in TIMES])
    assert found.overall.verdict == "regression"
    assert step(found, "record").commands[-1] == "schedperf compare base.tar new.tar"


@pytest.mark.parametrize("clock", ["hrtimer", "pmu"])
def test_a_profile_of_a_timer_is_to_be_taken_on_a_pmu(compared: Compare, clock: str) -> None:
    new = {"runs": runs([1.3 * time for time in TIMES])}
    found = compared({"runs": runs(TIMES)}, new)
    event = {"event": "cpu-clock", "clock": {"base": clock, "new": clock}}
    data = {"comparisons": [{"side": "new", "events": [event]}], "missing": []}
    profile = replace(found.sections["profile"], status="ok", reason=None, data=data)
    seen = replace(found, sections={**found.sections, "profile": profile})
    sides = name_sides([open_bundle(Path(side.path)) for side in seen.sides])
    recorded = replace(seen, next_steps=next_steps(seen, recordings_of(sides)))
    assert ("pmu" in ids(recorded)) == (clock == "hrtimer")
    if clock == "hrtimer":
        first, *again = step(recorded, "pmu").commands
        assert first == "schedperf doctor"
        assert "base-pmu.tar" in again[0]
