# SPDX-License-Identifier: GPL-2.0-or-later
"""What is advised, and that each command is one that exists."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from schedperf.bundle.open import open_bundle
from schedperf.cli import cli
from schedperf.compare.advice.next_steps import next_steps
from schedperf.compare.advice.rerun import MOST_WORKLOADS, recordings_of
from schedperf.compare.bundles import compare_bundles
from schedperf.model.comparison import BaseNew, Comparison, NextStep
from schedperf.runs.side import name_sides
from schedperf_collectors.recorder.options import make_parser
from schedperf_collectors.recorder.plan import check_placeholders, cross_points
from tests.schedperf.evidence.profile.records import make_event, profile_section
from tests.test_golden import GOLDEN

MakeBundle = Callable[..., Path]
Facts = dict[str, Any]
Compare = Callable[..., Comparison]

TIMES = (0.600, 0.612, 0.605, 0.609, 0.598)
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


@pytest.mark.parametrize(
    "comparison", sorted(GOLDEN.glob("*/compare.json")), ids=lambda path: path.parent.name
)
def test_the_command_line_takes_every_command_that_golden_cases_advise(comparison: Path) -> None:
    for one in json.loads(comparison.read_text(encoding="utf-8"))["next_steps"]:
        for command in one["commands"]:
            check_command(command)


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


def test_guests_cannot_take_turns_with_the_machine(compared: Compare) -> None:
    found = compared({"runs": runs(NOISE[0])}, {"runs": in_rounds(NOISE[1]), "host": GUEST})
    assert step(found, "more-runs").commands == ()


@pytest.mark.parametrize("record_base", [runs, in_rounds])
def test_two_kernels_are_recorded_one_by_one_each_with_its_setup(
    compared: Compare, tmp_path: Path, record_base: Callable[..., list[Facts]]
) -> None:
    new = {"runs": in_rounds(NOISE[1]), "host": OTHER_KERNEL, "setup": SETUPS[0]}
    found = step(compared({"runs": record_base(NOISE[0])}, new), "more-runs")
    base, setup, last = shown(found, tmp_path)
    assert base.startswith("schedperf record -o base-more.tar ")
    assert shlex.split(setup)[2].startswith(f"{SETUPS[0]} && exec schedperf record -o new-more.tar")
    assert last == "schedperf compare base-more.tar new-more.tar"
    assert found.why.endswith("; boot the kernel of a side before the command that records it")


EMULATED = {"virtualisation": {"kind": "qemu", "emulated": True, "grounds": "TCG"}, **GUEST}


def test_two_settings_of_one_guest_stay_two_settings(compared: Compare, tmp_path: Path) -> None:
    sides = (
        {"runs": in_rounds(times, side=side), "setup": setup, "host": EMULATED}
        for times, side, setup in zip(NOISE, ("base", "new"), ("", SETUPS[1]), strict=True)
    )
    found = compared(*sides)
    first = found.next_steps[0]
    assert (first.id, first.what) == ("real-hardware", "record on real hardware or under KVM")
    made, last = shown(step(found, "real-hardware"), tmp_path)
    words = shlex.split(made)
    assert words[:2] == ["schedperf", "ab"]
    assert words[words.index("--new-setup") + 1] == SETUPS[1]
    assert not {"--kernel", "--base-setup"} & set(words)
    assert last == "schedperf compare base-real.tar new-real.tar"


def test_kernels_of_guests_are_booted_in_guests_of_the_same_size(compared: Compare) -> None:
    size = {"cpu": {"count_online": 8}, "memory": {"total_bytes": 7_900_000_000}}
    base = {**EMULATED, **size}
    new = {**base, "kernel": {**OTHER_KERNEL["kernel"], **GUEST["kernel"]}}
    found = compared({"runs": runs(NOISE[0]), "host": base}, {"runs": runs(NOISE[1]), "host": new})
    command = step(found, "real-hardware").commands[1]
    assert " --cpus 8 --memory 8G --boots 4 " in command


@pytest.mark.parametrize("setup_of_base", ["", SETUPS[0]])
def test_base_against_itself_has_the_setup_of_base_alone(
    compared: Compare, setup_of_base: str
) -> None:
    slower = [1.3 * time for time in TIMES]
    found = compared(
        {"runs": in_rounds(TIMES, side="base"), "setup": setup_of_base},
        {"runs": in_rounds(slower, side="new"), "setup": SETUPS[1]},
    )
    words = shlex.split(step(found, "a-a").commands[0])
    setups = [words[at + 1] for at, word in enumerate(words) if word.endswith("-setup")]
    assert setups == ([setup_of_base] * 2 if setup_of_base else [])


def test_a_side_that_was_given_twice_is_recorded_with_its_setup(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    path = make_bundle(tmp_path / "base.tar", runs=in_rounds(TIMES), setup=SETUPS[1])
    found = compare_bundles([open_bundle(path), open_bundle(path)])
    made = step(found, "same-data").commands[0]
    assert shlex.split(made)[2].startswith(f"{SETUPS[1]} && exec schedperf record -o ")


def test_a_dot_in_a_name_is_no_suffix(compared: Compare, tmp_path: Path) -> None:
    slower = {"runs": runs([1.2 * time for time in TIMES])}
    found = compared({"runs": runs(TIMES)}, slower, names=("6.12.tar", "6.13.tar.xz"))
    assert shown(step(found, "explain"), tmp_path)[-1] == (
        "schedperf compare 6.12-why.tar 6.13-why.tar"
    )


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
    found = compare_bundles([open_bundle(Path(name)) for name in ("-base.tar", "new.tar")])
    assert "--append ./-base.tar" in step(found, "more-runs").commands[0]


def test_a_bundle_that_is_read_only_is_recorded_anew(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    paths = []
    for name, times in zip(("base", "new"), NOISE, strict=True):
        made = make_bundle(tmp_path / f"{name}.tar", runs=runs(times))
        paths.append(made.rename(tmp_path / f"{name}.bundle"))
    found = compare_bundles([open_bundle(path) for path in paths])
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
    found = compare_bundles([open_bundle(path), open_bundle(new)])
    recorded = [one for one in step(found, "explain").commands if " record " in one]
    assert len(recorded) == 2 * MOST_WORKLOADS


@pytest.mark.parametrize("clock", ["hrtimer", "pmu"])
def test_a_profile_of_a_timer_is_to_be_taken_on_a_pmu(compared: Compare, clock: str) -> None:
    new = {"runs": runs([1.3 * time for time in TIMES])}
    found = compared({"runs": runs(TIMES)}, new)
    profile = profile_section(make_event(clock=BaseNew(base=clock, new=clock)))
    seen = replace(found, sections={**found.sections, "profile": profile})
    sides = name_sides([open_bundle(Path(side.path)) for side in seen.sides])
    recorded = replace(seen, next_steps=next_steps(seen, recordings_of(sides)))
    assert ("pmu" in ids(recorded)) == (clock == "hrtimer")
    if clock == "hrtimer":
        first, *again = step(recorded, "pmu").commands
        assert first == "schedperf doctor"
        assert "base-pmu.tar" in again[0]


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
