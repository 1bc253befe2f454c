# SPDX-License-Identifier: GPL-2.0-or-later
"""The time of the workload's tasks is compared, and the parts add up to its change."""

from collections.abc import Callable
from math import fsum
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.account.others import MOST_COMMANDS
from schedperf.evidence.account.record import (
    PARTS,
    AccountSide,
    PartChange,
    describe_others,
    write_points,
)
from schedperf.evidence.account.section import account
from schedperf.inputs.importers.open import Opener
from schedperf.inputs.side import name_sides
from schedperf.model.errors import InputError
from tests.schedperf.evidence.account.conftest import (
    SERVER,
    Analyse,
    row_of,
    run_of,
    runs_of,
    usage_of,
    write_account,
)

# hackbench of the bundles of tests: 4 groups of 20 senders and 20 receivers, 100 messages each.
MESSAGES = 4 * 20 * 20 * 100
BASE = (3.0, 3.1, 2.9, 3.05, 2.95)
NEW = (5.0, 5.1, 4.9, 5.05, 4.95)


def part_of(parts: tuple[PartChange, ...], name: str) -> PartChange:
    return next(change for change in parts if change.part == name)


def test_every_run_has_user_and_system_time(analyse: Analyse) -> None:
    data = analyse(
        runs_of("system", (0.8, 0.82, 0.78), waiting=None),
        runs_of("system", (1.0, 1.02, 0.98), waiting=None),
    )
    [point] = data.points
    assert (point.basis, point.unit) == ("operation", "s/message")
    assert (point.n_base, point.n_new, point.replication) == (3, 3, "runs")
    assert [change.part for change in point.parts] == ["user", "system"]
    assert point.missing == ("waiting", "blocked")
    assert point.all.part is None
    assert point.all.base == pytest.approx(1.0 / MESSAGES)
    assert point.all.contribution == pytest.approx(0.2)
    assert part_of(point.parts, "system").contribution == pytest.approx(0.2)
    assert part_of(point.parts, "user").contribution == 0.0
    assert [row.kind for row in data.rows] == [
        "cpu", "user", "system", "voluntary switches", "involuntary switches", "minor faults",
        "major faults",
    ]  # fmt: skip
    cpu = row_of(data, "cpu")
    assert cpu.base == pytest.approx(geometric_mean((1.0, 1.02, 0.98)) / MESSAGES)
    assert (row_of(data, "minor faults").unit, cpu.unit) == ("1/message", "s/message")
    assert data.sides[0] == AccountSide(
        side="base", runs=3, kind="clean", measured=0, lost=None, left_out=None, unresolved=None
    )
    assert (data.others, data.notes) == ((), ())


def test_the_parts_of_all_runs_add_up(analyse: Analyse) -> None:
    data = analyse(runs_of("waiting", BASE), runs_of("waiting", NEW, blocked=0.8))
    [point] = data.points
    assert point.missing == ()
    assert [change.part for change in point.parts] == list(PARTS)
    for side in ("base", "new"):
        parts = [getattr(change, side) for change in point.parts]
        assert fsum(parts) == pytest.approx(getattr(point.all, side))
    whole = fmean(BASE) + 2.0
    assert part_of(point.parts, "waiting").contribution == pytest.approx(2.0 / whole)
    assert part_of(point.parts, "blocked").contribution == pytest.approx(-0.2 / whole)
    total = fsum(change.contribution for change in point.parts)
    assert point.all.contribution == pytest.approx(total)
    for change in (point.all, *point.parts):
        assert change.ci_low is not None
        assert change.ci_high is not None
        assert change.ci_low <= change.contribution <= change.ci_high
    waiting = row_of(data, "waiting")
    assert waiting.changed is True
    assert waiting.ratio == pytest.approx(geometric_mean(NEW) / geometric_mean(BASE))
    assert row_of(data, "tasks").base == pytest.approx(4.0 / MESSAGES)
    assert [side.measured for side in data.sides] == [5, 5]


def test_a_fixed_amount_of_work_is_compared_per_run(analyse: Analyse) -> None:
    sides = [runs_of("waiting", values, stdout="") for values in (BASE, NEW)]
    data = analyse(*sides, workload="make")
    assert {(row.basis, row.unit.partition("/")[2]) for row in data.rows} == {("share", "run")}
    assert data.points[0].unit == "s/run"
    assert data.points[0].all.base == pytest.approx(5.0)


def test_parts_that_some_runs_lack_are_not_compared(analyse: Analyse) -> None:
    new = [*runs_of("waiting", NEW[:3]), run_of(waiting=None)]
    data = analyse(runs_of("waiting", BASE), new)
    [point] = data.points
    assert point.missing == ("waiting", "blocked")
    assert [change.part for change in point.parts] == ["user", "system"]
    assert data.notes == ("new: tasks were accounted in 3 of 4 runs only",)
    # The rows say of how many runs they are.
    assert (row_of(data, "waiting").n_new, row_of(data, "cpu").n_new) == (3, 4)
    # What others used in some of the runs is not compared.
    assert data.others == ()


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("lost", "not reported, because the kernel dropped messages"),
        ("left_out", "left out, because there were too many"),
        ("unresolved", "left out, because no parent is known"),
    ],
)
def test_tasks_that_are_in_no_sum_are_counted(analyse: Analyse, field: str, words: str) -> None:
    new = [run_of(changes={field: count}) for count in (2, 0, 5)]
    data = analyse([run_of()] * 3, new)
    assert data.notes == (f"new: of the tasks that ended, 7 tasks {words}",)
    assert getattr(data.sides[1], field) == 7


def test_a_number_of_lost_messages_that_is_unknown_is_not_0(analyse: Analyse) -> None:
    data = analyse([run_of()] * 2, [run_of(changes={"lost": None}), run_of(changes={"lost": 3})])
    assert [side.lost for side in data.sides] == [0, None]
    assert data.notes == (
        "new: unknown whether the kernel dropped messages about tasks that ended",
    )


def test_a_server_is_part_of_the_account_of_all_runs(analyse: Analyse) -> None:
    served = {"server": SERVER}
    data = analyse([run_of(changes=served)] * 3, [run_of(waiting=5.0, changes=served)] * 3)
    [point] = data.points
    assert point.all.base == pytest.approx((5.0 + 12.0) / MESSAGES)
    assert part_of(point.parts, "waiting").contribution == pytest.approx(2.0 / 17.0)
    assert row_of(data, "cpu").base == pytest.approx(3.0 / MESSAGES)
    assert row_of(data, "minor faults").base == pytest.approx(17.0 / MESSAGES)
    # Switches and ended tasks of the server are not counted.
    kinds = {row.kind for row in data.rows}
    assert not kinds & {"voluntary switches", "involuntary switches", "tasks"}
    said = "the account includes a server of the workload: 6 tasks and 2 s of CPU time per run"
    assert data.notes == (f"base: {said}", f"new: {said}")


@pytest.mark.parametrize("other", [run_of(), run_of(waiting=None)])
def test_servers_that_some_runs_lack_are_left_out(analyse: Analyse, other: dict[str, Any]) -> None:
    base, served = [run_of()] * 3, run_of(changes={"server": SERVER})
    for new in ([served] * 3, [served, served, other]):
        data = analyse(base, new)
        assert row_of(data, "cpu").base == pytest.approx(1.0 / MESSAGES)
        assert row_of(data, "cpu").new == pytest.approx(1.0 / MESSAGES)
        # In base, the server is one of them.
        assert data.others == ()
        [note] = [note for note in data.notes if "servers" in note]
        assert "left out, because they were not accounted for in all runs" in note
        assert "includes" not in "".join(data.notes)


@pytest.mark.parametrize(
    ("exits", "share"), [(None, None), (0, None), (2000, None), (4000, "2.0%"), (200_000, "100.0%")]
)
def test_messages_that_took_much_of_the_cpu_time_are_named(
    analyse: Analyse, exits: int | None, share: str | None
) -> None:
    # 5 us each, and the run has 1 s of CPU time.
    data = analyse([run_of()] * 2, [run_of(), run_of(changes={"exits": exits})])
    if share is None:
        assert data.notes == ()
    else:
        [note] = data.notes
        assert note.startswith(
            "new: messages about tasks that ended on the machine took an estimated "
        )
        assert f" {share} of a run's CPU time (5 us each); to avoid this, " in note


def test_a_command_that_sleeps_may_have_a_server(analyse: Analyse) -> None:
    busy = [run_of(wall_s=3.0)] * 2
    # On a CPU and waiting for 1.4 s of 3 s.
    asleep = [run_of(waiting=0.4, wall_s=3.0)] * 2
    assert analyse(busy, busy).notes == ()
    [note] = analyse(busy, asleep).notes
    assert note.startswith("new: the account covers the started command only, which slept most of")
    assert "--workload-pid, --workload-unit or --workload-cgroup" in note
    # Without an account, it may have waited for a CPU.
    unknown = [run_of(waiting=None, wall_s=3.0)] * 2
    assert analyse(unknown, unknown).notes == ()


@pytest.mark.parametrize(("used_s", "is_noted"), [(0.9, False), (1.1, True)])
def test_a_command_that_used_more_may_be_a_server(
    analyse: Analyse, used_s: float, *, is_noted: bool
) -> None:
    new = load_runs(("secret-server", used_s), ("a", 0.4), ("", 0.5), total=used_s + 0.9)
    notes = analyse(load_runs(("a", 0.4), total=2.4), new).notes
    assert len(notes) == is_noted
    for note in notes:
        assert note.startswith("new: the account covers the started command only, and another")
        assert "secret-server" not in note


def test_a_damaged_account_is_a_note(analyse: Analyse) -> None:
    new = runs_of("waiting", NEW)
    new[0]["files"] = {"account/account.json": "{"}
    data = analyse(runs_of("waiting", BASE), new)
    [note] = data.notes
    assert note.startswith("new: ")
    assert "account.json: invalid JSON" in note
    assert data.points[0].n_new == 4
    assert data.points[0].missing == ()


def test_a_file_that_is_too_large_is_a_note(analyse: Analyse) -> None:
    new = runs_of("waiting", NEW)
    new[0]["files"] = {"account/account.json": write_account() + " " * 100_000}
    [note] = analyse(runs_of("waiting", BASE), new).notes
    assert "account.json" in note


def test_without_resource_usage_the_section_is_absent(analyse: Analyse, tmp_path: Path) -> None:
    bare: dict[str, Any] = {"rusage": None}
    with pytest.raises(Absent, match="^no run of new has a resource usage$"):
        analyse([run_of()] * 2, [bare] * 2)
    part: dict[str, Any] = {"rusage": {"utime_s": 1.0}}
    with pytest.raises(Absent, match="^no run of base has a resource usage$"):
        analyse([part] * 2, [run_of()] * 2)
    path = tmp_path / "old.txt"
    path.write_text("BenchmarkEncode-8 50 34201.5 ns/op\nBenchmarkEncode-8 50 33201.5 ns/op\n")
    with Opener() as opener:
        bundles = [opener.open(Path(f"benchfmt:{path}")) for _ in range(2)]
        with pytest.raises(Absent, match="^no run of base has a resource usage$"):
            account(name_sides(bundles))


def test_sides_without_a_common_point_are_not_compared(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="^base and new have no workload and point in common$"):
        analyse([run_of()] * 2, [run_of(point={"groups": "64"})] * 2)


def test_clean_runs_are_preferred(analyse: Analyse) -> None:
    clean, instrumented = (
        [run_of(waiting=waiting, kind=kind)] * 3
        for kind, waiting in (("clean", 3.0), ("instrumented", 9.0))
    )
    data = analyse([*clean, *instrumented], [*instrumented, *clean])
    assert {(side.kind, side.runs) for side in data.sides} == {("clean", 3)}
    assert row_of(data, "waiting").new == pytest.approx(3.0 / MESSAGES)
    both = analyse(instrumented, [*clean, *instrumented])
    assert {(side.kind, side.runs) for side in both.sides} == {("instrumented", 3)}
    with pytest.raises(Absent, match="instrumented runs only, but clean runs are compared"):
        analyse(clean, instrumented)


def test_pairs_are_compared_within_their_rounds(analyse: Analyse) -> None:
    # Each round waits longer than the one before, by more than the sides differ.
    def turns(offset: float, side: int, rounds: range) -> list[Any]:
        return [
            run_of(
                waiting=2.0 + number + offset * (1.0 + 0.01 * (number % 2)),
                session="one",
                round=number,
                start_monotonic_s=1000.0 + 2 * number + side,
            )
            for number in rounds
        ]

    data = analyse(turns(0.0, 0, range(6)), turns(0.5, 1, range(1, 7))[::-1])
    [point] = data.points
    assert (point.n_base, point.n_new, point.replication) == (5, 5, "rounds")
    waiting = part_of(point.parts, "waiting")
    base = [4.0 + number for number in range(1, 6)]
    assert point.all.base == pytest.approx(fmean(base) / MESSAGES)
    assert waiting.contribution == pytest.approx(0.503 / fmean(base), rel=1e-3)
    assert waiting.ci_low is not None
    assert waiting.ci_low > 0.0


def test_boots_are_the_unit_of_replication_where_there_are_several(analyse: Analyse) -> None:
    def boots(*waiting: float) -> list[Any]:
        return [
            run_of(waiting=each + more, boot=boot)
            for boot, each in enumerate(waiting)
            for more in (0.0, 0.1, 0.2)[: boot + 1]
        ]

    [point] = analyse(boots(3.0, 4.0, 5.0), boots(3.5, 3.9, 4.9)).points
    assert (point.n_base, point.n_new, point.replication) == (3, 3, "boots")
    # Each boot has the same weight, whatever its number of runs.
    assert part_of(point.parts, "waiting").base == pytest.approx((3.0 + 4.05 + 5.1) / 3 / MESSAGES)


def test_each_point_of_a_sweep_is_divided(analyse: Analyse) -> None:
    def sweep(factors: tuple[float, float]) -> list[Any]:
        return [
            run
            for groups, factor in zip(("4", "16"), factors, strict=True)
            for run in runs_of(
                "waiting", [factor * each for each in BASE], point={"groups": groups}
            )
        ]

    data = analyse(sweep((1.0, 2.0)), sweep((1.0, 3.0)))
    assert [point.point for point in data.points] == ["groups=4", "groups=16"]
    small, large = (part_of(point.parts, "waiting") for point in data.points)
    assert small.contribution == pytest.approx(0.0)
    assert large.contribution == pytest.approx(3.0 / 8.0)


def test_each_new_side_has_its_points(analyse: Analyse) -> None:
    data = analyse(*(runs_of("waiting", each) for each in (BASE, BASE[::-1], NEW)))
    assert [point.side for point in data.points] == ["new", "new2"]
    assert [side.side for side in data.sides] == ["base", "new", "new2"]
    assert len({row.row for row in data.rows}) == len(data.rows)


def test_without_any_time_there_is_nothing_to_divide(analyse: Analyse) -> None:
    nothing = [run_of(user=0.0, system=0.0, waiting=None)] * 3
    data = analyse(nothing, [run_of(waiting=None)] * 3)
    assert data.points == ()
    assert row_of(data, "cpu").ratio is None
    [point] = analyse([run_of()] * 3, [run_of(user=0.0, system=0.0)] * 3).points
    assert point.all.contribution == pytest.approx(-0.2)
    # Tasks that only waited.
    waited = [run_of(user=0.0, system=0.0, blocked=0.0)] * 3
    [point] = analyse(waited, waited).points
    assert point.all.base == pytest.approx(3.0 / MESSAGES)


def test_one_run_of_a_side_has_contributions_without_intervals(analyse: Analyse) -> None:
    data = analyse([run_of()], [run_of(waiting=4.0)])
    [point] = data.points
    assert point.all.contribution == pytest.approx(0.2)
    assert {(change.ci_low, change.ci_high) for change in point.parts} == {(None, None)}
    assert row_of(data, "waiting").changed is None


def test_the_cpu_time_of_all_runs_of_a_point_is_divided_alike(analyse: Analyse) -> None:
    def run(tasks: int, ticks: float = 1.0) -> Any:
        by_ticks = run_of(user=0.1 * ticks, system=0.9 * ticks, changes={"tasks": tasks})
        return {**by_ticks, "rusage": usage_of(0.5, 0.5)}

    def user_s(*runs: Any) -> float:
        row = row_of(analyse([run(1)] * 2, list(runs)), "user", basis="operation")
        assert row.base is not None
        return row.base * 4 * 20 * 20 * 100

    assert user_s(run(1), run(1)) == pytest.approx(0.5)
    # One run has tasks that are too short for the resource usage.
    assert user_s(run(1), run(9999)) == pytest.approx(0.1)
    # Another one has no ticks.
    assert user_s(run(1, ticks=0.0), run(9999)) == pytest.approx(0.5)


GOOD = run_of(waiting=None)["rusage"]


@pytest.mark.parametrize("output", [{}, {"stdout": ""}])
@pytest.mark.parametrize("seconds", [1e140, 5e-324, 1e-310])
def test_times_that_cannot_be_are_no_point(
    analyse: Analyse, seconds: float, output: dict[str, Any]
) -> None:
    odd = usage_of(seconds, seconds)
    for usages in ((GOOD, odd), (odd, GOOD), (odd, odd)):
        sides = [[{"rusage": usage, **output}] * 3 for usage in usages]
        # All numbers of a record are finite, see the fixture.
        data = analyse(*sides, workload="make")
        assert len(data.points) == (usages == (GOOD, odd) and seconds < 1.0)


@pytest.mark.parametrize("seconds", [1e308, 1e200])
def test_times_that_are_too_large_are_refused_in_one_line(analyse: Analyse, seconds: float) -> None:
    with pytest.raises(InputError, match="invalid value") as caught:
        analyse([{"rusage": GOOD}] * 3, [{"rusage": usage_of(seconds, seconds)}] * 3)
    assert len(str(caught.value).splitlines()) == 1


def load_runs(*others: tuple[str, float], total: float) -> list[Any]:
    commands = [{"command": command, "cpu_s": used_s} for command, used_s in others]
    return [run_of(changes={"others": commands, "others_cpu_s": total}, wall_s=1.0)] * 3


def test_commands_are_named_by_their_change(analyse: Analyse) -> None:
    base = load_runs(("kworker", 0.3), ("sshd", 0.2), total=0.6)
    names = [f"small-{number}" for number in range(9)]
    new = load_runs(("sshd", 0.1), ("stress", 4.0), *((name, 0.01) for name in names), total=4.5)
    data = analyse(base, new)
    assert [(each.command, each.base, each.new) for each in data.others[:3]] == [
        ("stress", 0.0, pytest.approx(4.0)),
        ("kworker", pytest.approx(0.3), 0.0),
        ("sshd", pytest.approx(0.2), pytest.approx(0.1)),
    ]
    assert len(data.others) == MOST_COMMANDS
    assert describe_others(data.points[0], data) == (
        "other commands used 0.6 s -> 4.5 s of CPU time per second, most: stress 0 s -> 4 s, "
        "small-0 0 ms -> 10 ms, small-1 0 ms -> 10 ms"
    )
    # Nothing is named if all others together used no more.
    less = analyse(new, base)
    assert describe_others(less.points[0], less) == ""


def test_a_longer_run_has_no_more_other_load(analyse: Analyse) -> None:
    base = load_runs(("cron", 0.5), total=0.6)
    new = [{**run_of(changes={"others_cpu_s": 1.2, "others": [{"command": "cron", "cpu_s": 1.0}]}),
            "wall_s": 2.0}] * 3  # fmt: skip
    data = analyse(base, new)
    [cron] = data.others
    assert (cron.base, cron.new) == pytest.approx((0.5, 0.5))
    [row] = data.other_load
    assert not row.changed
    assert row.of_busy is not None
    assert (row.of_busy.base, row.of_busy.new) == pytest.approx((0.6, 0.6))
    assert row.of_busy.contribution == pytest.approx(0.0)


def test_a_command_without_a_name_is_counted_with_all_others(analyse: Analyse) -> None:
    data = analyse(load_runs(("", 0.5), total=0.6), load_runs(("", 0.5), ("a", 1.0), total=1.6))
    assert [each.command for each in data.others] == ["a"]
    [row] = data.other_load
    assert row.of_busy is not None
    assert (row.of_busy.base, row.of_busy.new) == pytest.approx((0.6, 1.6))


def test_contributions_are_written_in_percentage_points() -> None:
    written = [write_points(share) for share in (0.0999, 0.1, -0.00049, -0.0, 2.0)]
    assert written == ["+10.0", "+10", "0", "0", "+200"]


def test_hosts_without_a_known_hz_use_ticks(
    analyse: Callable[..., Any],
) -> None:
    changes = {"user_s": 0.5, "system_s": 0.5}
    runs = [
        {
            "rusage": usage_of(0.2, 0.8),
            "files": {"account/account.json": write_account(**changes)},
        }
    ] * 2
    for hz, user in ((250, 0.2), (None, 0.5)):
        data = analyse(runs, runs, host={"sched": {"hz": hz}})
        assert row_of(data, "user").base == pytest.approx(user / MESSAGES)
