# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions of a lab in docs/history.md, answered from nights with planted changes."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.history.decide import decide_step
from schedperf.history.nightly import watch_store
from schedperf.history.questions.history import open_history
from schedperf.history.store.directory import Directory
from tests.git_repository import init_git
from tests.histories import add_to
from tests.lab_nights import HACKBENCH, MACHINES, PIPE, RENEWED, Event, Plan, date_of, write_lab

DOCUMENT = Path(__file__).parents[3] / "docs" / "history.md"
QUESTION = re.compile(r"^\| ([^|]+\?) \| `schedperf (history [^`]+)` \|", re.MULTILINE)
REASON = "not seen in 16 boots of each kernel"
# A place is exact at these sizes.
SMALL = Plan(
    nights=48,
    events=[Event(night=36, size=0.06, job=HACKBENCH)],
    jobs=(HACKBENCH,),
    drift=0.03,
    renewal=20,
)
LARGE = Plan(
    nights=300,
    events=[
        Event(night=70, size=0.06, job=HACKBENCH),
        Event(night=110, size=-0.04, job=PIPE),
        Event(night=240, size=0.05, job=PIPE, machines=[MACHINES[1]]),
        Event(night=270, until=279, size=0.03, job=HACKBENCH, machines=[MACHINES[0]]),
    ],
    drift=0.03,
    update=140,
    lost=range(170, 177),
    renewal=200,
)

Json = Any
Ask = Callable[..., Json]


def make_commits(folder: Path) -> list[str]:
    """Make a repository with four commits; return their hashes, oldest first."""
    git = init_git(folder)
    for number in range(4):
        git("commit", "--quiet", "--allow-empty", "-m", f"sched: change {number}")
    return git("log", "--format=%H", "--reverse").split()


class Lab:
    """A store with the nights of a plan, watched; one false alarm is decided.

    :param folder: has ``history`` and the repository ``linux``
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.commits = make_commits(folder / "linux")
        # Of four commits, the last two are new tonight.
        self.plan = replace(plan, commits=(self.commits[1], self.commits[3]))
        directory, _ = add_to(folder / "history", *write_lab(folder / "nights", self.plan))
        watch_store(directory, pytest.fail)
        self.false_alarm = self._decide(directory)
        with open_history(directory.folder) as history:
            self.series = {each.key: each for each in history.series()}
            self.steps = history.steps()

    def _decide(self, directory: Directory) -> str | None:
        """Decide that the step that went away was not reproduced; return its identity."""
        nights = [date_of(each.night) for each in self.plan.events if each.until < self.plan.nights]
        with open_history(directory.folder) as history:
            steps = [each.id for each in history.steps() if each.night in nights]
        if not steps:
            return None
        [step] = steps
        decide_step(directory, step, "not reproduced", reason=REASON, by="lab", say=pytest.fail)
        return step

    def events(self) -> Iterator[tuple[str, Event, str, str]]:
        """Yield machine, event, metric and direction of each step that is open."""
        for event in self.plan.events:
            if event.until < self.plan.nights:
                continue
            metrics = {
                HACKBENCH: ["hackbench time"],
                PIPE: ["sched/pipe operations", "sched/pipe time per operation"],
            }
            for machine in event.machines:
                for metric in metrics[event.job]:
                    yield machine, event, metric, "worse" if event.size > 0.0 else "better"

    def named(self, step: Mapping[str, Json], series: Mapping[str, Json]) -> tuple[str, ...]:
        """Return machine, first night, metric and direction of a step in an answer."""
        machine = series["machine_class"].partition("-")[0]
        return machine, step["night"], series["metric"], step["direction"]


def planted(lab: Lab, direction: str | None = None) -> set[tuple[str, ...]]:
    """Return machine, first night, metric and direction of the steps that are open."""
    return {
        (machine, date_of(event.night), metric, word)
        for machine, event, metric, word in lab.events()
        if direction in {None, word}
    }


def slower_than_a_month_ago(lab: Lab, answer: Json, text: str) -> None:
    first = lab.plan.nights - 1 - 30
    by_series = {
        (machine, metric): word
        for machine, event, metric, word in lab.events()
        if event.night > first
    }
    assert len(answer["changes"]) == len(lab.series)
    for each in answer["changes"]:
        series = each["series"]
        name = (series["machine_class"].partition("-")[0], series["metric"])
        assert each["word"] == by_series.get(name, "no significant change"), name
        if name in by_series:
            assert each["ci_low"] < 0.06 < each["ci_high"]
            assert each["change"] == pytest.approx(0.06, abs=0.01)
    assert f"Changes from {date_of(first)} to {date_of(lab.plan.nights - 1)}" in text


def open_steps(lab: Lab, answer: Json, text: str) -> None:
    found = [lab.named(each["step"], each["series"]) for each in answer]
    assert sorted(found) == sorted(planted(lab))
    assert all(each["step"]["id"] in text for each in answer)


def since_when(lab: Lab, answer: Json, text: str) -> None:
    found = [lab.named(each["step"], each["series"]) for each in answer]
    assert sorted(found) == sorted(planted(lab, "worse"))
    assert date_of(lab.plan.events[0].night) in text


def unexplained_improvements(lab: Lab, answer: Json, text: str) -> None:
    found = [lab.named(each["step"], each["series"]) for each in answer]
    assert sorted(found) == sorted(planted(lab, "better"))
    assert f"{len(found)} open steps" in text


def which_machines(_lab: Lab, answer: Json, text: str) -> None:
    """The first step is on all machines."""
    assert [each["word"] for each in answer["machines"]] == ["worse"] * len(MACHINES)
    assert all(machine in text for machine in MACHINES)


def what_else_moved(lab: Lab, answer: Json, text: str) -> None:
    step, series = answer["step"], answer["series"]
    shown = {lab.named(step, series), *(lab.named(**each) for each in answer["together"])}
    assert shown == {each for each in planted(lab) if each[1] == step["night"]}
    assert "Other steps that began within 7 nights" in text


def decisions(_lab: Lab, answer: Json, text: str) -> None:
    assert answer["decisions"][0]["state"] == "suspected"
    assert "lasting change, found on" in text


def how_noisy(_lab: Lab, answer: Json, text: str) -> None:
    for each in answer:
        assert 0.003 < each["sd_nights"] < 0.006
        assert 0.003 < each["sd_boots"] < 0.005
        assert 0.008 < each["seen_in_one_night"] < 0.02
    assert "sd of" in text


def same_as_yesterday(_lab: Lab, answer: Json, text: str) -> None:
    for each in answer["changes"]:
        assert (each["nights_before"], each["nights_after"]) == (1, 1)
        assert each["word"] == "no significant change"
        assert each["ci_low"] < 0.0 < each["ci_high"]
    assert "New kernels of tip: " in text


def reference_drift(_lab: Lab, answer: Json, text: str) -> None:
    assert answer["of_reference"]
    for each in answer["changes"]:
        # The rate of pipe is the inverse of its time.
        size = each["change"] * (1.0 if each["series"]["better"] == "lower" else -1.0)
        if each["series"]["machine_class"].startswith(MACHINES[0]):
            assert 0.02 < size < 0.035
            assert each["word"] == "worse"
        else:
            assert abs(size) < 0.01
    assert "drift of the machine" in text


def updated_benchmark(lab: Lab, answer: Json, text: str) -> None:
    breaks = [
        answer["nights"][index]["night"]
        for each in answer["changes"]
        if each["is_break"] and each["differences"][0]["reason"] == "workload"
        for index, night in enumerate(answer["nights"])
        if night["position"] == each["order"]
    ]
    assert breaks == ([] if lab.plan.update is None else [date_of(lab.plan.update)])
    assert ("begins: other programs of the workload" in " ".join(text.split())) == bool(breaks)
    assert lab.plan.renewal is not None
    assert "goes on: another reference kernel (6.18.0 to 6.19.0)" in " ".join(text.split())
    [renewed] = [each for each in answer["changes"] if each["differences"][0]["before"] == "6.18.0"]
    assert renewed["reference_shift"] == pytest.approx(RENEWED - 1.0, abs=0.006)


def new_commits(lab: Lab, answer: Json, text: str) -> None:
    [kernels] = answer["kernels"]
    assert (kernels["before"], kernels["after"]) == (lab.commits[1], lab.commits[3])
    assert [each["hash"] for each in kernels["commits"]] == lab.commits[:1:-1]
    assert "sched: change 3" in text
    assert "sched: change 1" not in text


CHECKS: Mapping[str, Callable[[Lab, Json, str], None]] = {
    "Is it slower than a month ago?": slower_than_a_month_ago,
    "Since when?": since_when,
    "On which machines?": which_machines,
    "How noisy is it?": how_noisy,
    "What was decided, and why?": decisions,
    "What is open?": open_steps,
    "Is tonight the same as yesterday?": same_as_yesterday,
    "What else moved with it?": what_else_moved,
    "Is the reference kernel drifting?": reference_drift,
    "Was the benchmark updated?": updated_benchmark,
    "Which commits are new tonight?": new_commits,
    "Which improvements are unexplained?": unexplained_improvements,
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(LARGE, marks=pytest.mark.slow, id="large"),
    ],
)
def test_the_questions_of_a_lab_are_answered(
    plan: Plan,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    lab = Lab(tmp_path, plan)

    def ask(*words: str) -> str:
        assert main([*words]) == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80 or "--json" in words
        return text

    asked = QUESTION.findall(DOCUMENT.read_text())
    assert [question for question, _ in asked] == [*CHECKS]
    first = next(each for each in lab.steps if each.night == date_of(plan.events[0].night))
    for question, command in asked:
        words = shlex.split(command.replace("STEP", first.id).replace("SERIES", first.series))
        CHECKS[question](lab, json.loads(ask(*words, "--json")), ask(*words))
    check_what_the_plan_has(lab, ask)


def check_what_the_plan_has(lab: Lab, ask: Ask) -> None:
    """Check what is planted in a large plan only."""
    if lab.false_alarm is not None:
        assert f"not reproduced: {REASON}" in " ".join(
            ask("history", "why", lab.false_alarm).split()
        )
    if lab.plan.update is not None:
        dates = [date_of(lab.plan.update - 1), date_of(lab.plan.update + 7)]
        changes = json.loads(ask("history", "diff", *dates, "--json"))["changes"]
        differs = {each["series"]["metric"]: each["differs"] for each in changes}
        assert differs.pop("hackbench time") == ["workload"]
        assert not any(differs.values())
    if lab.plan.lost:
        assert "7 days without a night: no result: the" in ask(
            "history", "show", lab.steps[0].series, "--limit", "400"
        )


@pytest.mark.slow
def test_nights_that_are_watched_each_week_give_the_same_steps(tmp_path: Path) -> None:
    """The reference is renewed between two watches, and the step is found by a later one."""
    folders = write_lab(tmp_path / "nights", SMALL)
    whole, _ = add_to(tmp_path / "whole", *folders)
    watch_store(whole, pytest.fail)
    nights = sorted({night.name for folder in folders for night in folder.iterdir()})
    for week in (nights[start : start + 7] for start in range(0, len(nights), 7)):
        paths = [folder / night for folder in folders for night in week]
        weekly, _ = add_to(tmp_path / "weekly", *paths)
        watch_store(weekly, pytest.fail)
    assert len(steps_of(whole)) == len(MACHINES)
    assert steps_of(weekly) == steps_of(whole)


def steps_of(store: Directory) -> list[tuple[str, int, str]]:
    """Return series, position and direction of all steps; later watches know more of their size."""
    with open_history(store.folder) as history:
        return sorted((each.series, each.position, each.direction) for each in history.steps())
