# SPDX-License-Identifier: GPL-2.0-or-later
"""Which changes raise an alarm, which do not, and what an alarm says."""

from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.ranking import Ranking, rank_change
from schedperf.evidence.layout.record import LayoutAlarm
from schedperf.evidence.layout.unit_pairs import compare_units

MakeUnit = Callable[..., Unit]

LINE = 64


def rank(base: Unit, new: Unit, hitm: Mapping[str, int] | None = None) -> Ranking:
    return rank_change(compare_units(base, new, LINE), base, new, hitm=hitm)


def only(ranking: Ranking) -> LayoutAlarm:
    assert len(ranking.alarms) == 1, [alarm.claim for alarm in ranking.alarms]
    return ranking.alarms[0]


@pytest.mark.parametrize("source", ["System.map", "BTF", "both"])
def test_the_inserted_cluster_variable_is_the_first_alarm_of_real_kernels(
    real_section: Callable[[str, str], Unit], source: str
) -> None:
    ranking = rank(real_section("tip", source), real_section("cluster", source))

    first = ranking.alarms[0]
    assert (first.rule, first.grade) == ("separated", "measured")
    assert set(first.pairs[0]) == {"sd_llc_id", "root_cpuacct_cpuusage"}
    assert first.boundary is not None
    assert f"{first.boundary:x}".endswith("240")
    assert first.cause is not None
    assert (first.cause.kind, first.cause.entry) == ("inserted", "sd_cluster")
    assert "cpus_share_cache" in first.functions
    assert len(ranking.alarms) <= 3


def test_other_options_that_move_no_hot_pair_raise_nothing(
    real_section: Callable[[str, str], Unit],
) -> None:
    ranking = rank(real_section("tip", "System.map"), real_section("tip-config", "System.map"))

    assert ranking.alarms == ()


def test_taking_the_cluster_variable_out_again_raises_nothing_and_is_said(
    real_section: Callable[[str, str], Unit],
) -> None:
    ranking = rank(real_section("cluster", "BTF"), real_section("tip", "BTF"))

    assert ranking.alarms == ()
    assert {"sd_llc_id", "root_cpuacct_cpuusage"} in [set(r.names) for r in ranking.regained]


def test_the_layout_that_the_seed_ended_with_keeps_the_pair(
    typed_layout: Callable[[str], Unit],
) -> None:
    ranking = rank(typed_layout("align-first"), typed_layout("custom-layout"))

    assert not [alarm for alarm in ranking.alarms if alarm.grade == "measured"]
    assert {"sd_llc_id", "root_cpuacct_cpuusage"} <= set(ranking.regained[0].names)


def test_aligning_the_domain_variables_separates_the_pair_too(
    typed_layout: Callable[[str], Unit],
) -> None:
    ranking = rank(typed_layout("tip"), typed_layout("align-first"))

    assert set(ranking.alarms[0].pairs[0]) == {"sd_llc_id", "root_cpuacct_cpuusage"}


def test_an_alarm_never_claims_what_a_layout_does_not_tell(make_unit: MakeUnit) -> None:
    base = make_unit("percpu", ("root_cpuacct_cpuusage", 0, 8), ("sd_llc_id", 8, 4))
    new = make_unit("percpu", ("root_cpuacct_cpuusage", 0, 8), ("sd_llc_id", 64, 4))

    alarm = only(rank(base, new))

    assert alarm.effect is not None
    assert "27%" in alarm.effect
    assert "no difference" in alarm.effect
    assert any("effect of the layout on this CPU is unknown" in limit for limit in alarm.limits)
    assert any(
        limit.startswith("the published effect was measured on the machines it names")
        for limit in alarm.limits
    )


def test_an_unknown_size_limits_the_alarms_of_its_own_entry_alone(make_unit: MakeUnit) -> None:
    def ranked(size: int | None, other: int | None) -> tuple[str, ...]:
        base, new = (
            make_unit(
                "percpu",
                ("root_cpuacct_cpuusage", 0, size),
                ("sd_llc_id", place, 4),
                ("end", 96, other),
            )
            for place in (8, 64)
        )
        return only(rank(base, new)).limits

    said = "the size of root_cpuacct_cpuusage is unknown in base or new, so only the line of"
    assert any(limit.startswith(said) for limit in ranked(None, 8))
    assert not any("unknown in base or new" in limit for limit in ranked(8, None))


def test_moves_of_unknown_heat_are_named_and_raise_nothing(make_unit: MakeUnit) -> None:
    base = make_unit("percpu", ("first", 0, 8), ("second", 8, 8), ("third", 16, 8))
    new = make_unit("percpu", ("first", 0, 8), ("third", 8, 8), ("second", 64, 8))

    ranking = rank(base, new)

    assert ranking.alarms == ()
    assert ranking.unknown_heat == ("second",)


def test_a_known_variable_that_leaves_unknown_ones_is_quiet(make_unit: MakeUnit) -> None:
    base = make_unit("percpu", ("first", 0, 8), ("other", 8, 8), ("sd_llc", 16, 8))
    new = make_unit("percpu", ("first", 0, 8), ("other", 8, 8), ("sd_llc", 64, 8))

    ranking = rank(base, new)

    assert ranking.alarms == ()
    assert ranking.quiet == ("sd_llc",)


def test_fields_that_one_function_touches_are_a_hot_pair(make_unit: MakeUnit) -> None:
    base = make_unit("struct sched_entity", ("vruntime", 0, 8), ("vlag", 8, 8))
    new = make_unit("struct sched_entity", ("vruntime", 0, 8), ("vlag", 64, 8))

    alarm = only(rank(base, new))

    assert (alarm.rule, alarm.grade) == ("separated", "inferred")
    assert alarm.functions == ("place_entity",)
    assert any("no published measurement confirms this alarm" in limit for limit in alarm.limits)


# Variables of 6.1 that a function reads together, and that only a sysctl writes.
READ_ONLY_PAIR = ("sysctl_sched_min_granularity", "sysctl_sched_latency")


def part(make_unit: MakeUnit, unit: str, names: tuple[str, ...]) -> tuple[Unit, Unit]:
    """Return a unit with these on one line, and with the last of them on the next."""
    *staying, last = names
    kept = [(name, 8 * number, 8) for number, name in enumerate(staying)]
    return make_unit(unit, *kept, (last, 56, 8)), make_unit(unit, *kept, (last, 64, 8))


def test_variables_that_are_only_read_do_no_harm_on_two_lines(make_unit: MakeUnit) -> None:
    ranking = rank(*part(make_unit, "globals", READ_ONLY_PAIR))

    assert ranking.alarms == ()
    assert ranking.only_read == (READ_ONLY_PAIR,)
    assert ranking.quiet == READ_ONLY_PAIR[1:]


def test_memory_samples_show_a_writer_that_the_table_does_not_know(make_unit: MakeUnit) -> None:
    base, new = part(make_unit, "globals", READ_ONLY_PAIR)

    alarm = only(rank(base, new, hitm={READ_ONLY_PAIR[0]: 12}))

    assert (alarm.rule, alarm.grade) == ("separated", "sampled")
    assert rank(base, new, hitm={READ_ONLY_PAIR[0]: 12}).only_read == ()


def test_a_measured_set_of_which_nobody_is_written_raises_nothing(make_unit: MakeUnit) -> None:
    # Without CONFIG_CGROUP_CPUACCT the set of the seed has no member that is written.
    names = ("sd_llc_shared", "sd_llc_id", "sd_share_id")

    ranking = rank(*part(make_unit, "percpu", names))

    assert ranking.alarms == ()
    assert ranking.only_read == (("sd_llc_shared", "sd_share_id"), ("sd_llc_id", "sd_share_id"))


def test_a_measured_set_with_a_member_that_is_written_still_is_an_alarm(
    make_unit: MakeUnit,
) -> None:
    names = ("root_cpuacct_cpuusage", "sd_llc_shared", "sd_llc_id", "sd_share_id")

    ranking = rank(*part(make_unit, "percpu", names))

    assert "spread" in {alarm.rule for alarm in ranking.alarms}
    assert ranking.only_read == ()


def test_parting_from_what_other_cpus_write_is_no_loss(make_unit: MakeUnit) -> None:
    base = make_unit("struct rq", ("ttwu_pending", 0, 4), ("idle", 8, 8))
    new = make_unit("struct rq", ("ttwu_pending", 0, 4), ("idle", 64, 8))

    assert rank(base, new).alarms == ()


def test_a_read_mostly_field_joined_by_a_remotely_written_one_is_an_alarm(
    make_unit: MakeUnit,
) -> None:
    base = make_unit("struct rq", ("sd", 0, 8), ("nohz_flags", 64, 4))
    new = make_unit("struct rq", ("sd", 0, 8), ("nohz_flags", 8, 4))

    alarm = only(rank(base, new))

    assert (alarm.rule, alarm.grade) == ("joined", "inferred")
    assert alarm.pairs == (("sd", "nohz_flags"),)
    assert "kick_ilb" in alarm.functions


def test_an_added_remotely_written_field_beside_a_read_mostly_one_is_an_alarm(
    make_unit: MakeUnit,
) -> None:
    base = make_unit("struct rq", ("sd", 0, 8), ("rd", 8, 8))
    new = make_unit("struct rq", ("sd", 0, 8), ("rd", 8, 8), ("nohz_flags", 16, 4))

    alarm = only(rank(base, new))

    assert alarm.rule == "joined"
    assert set(alarm.names) == {"sd", "rd", "nohz_flags"}


def test_an_added_field_without_bytes_shares_no_line(make_unit: MakeUnit) -> None:
    base = make_unit("struct rq", ("sd", 0, 8))
    new = make_unit("struct rq", ("sd", 0, 8), ("nohz_flags", 8, 0))

    assert rank(base, new).alarms == ()


def test_a_member_without_bytes_adds_no_line_to_a_measured_set(make_unit: MakeUnit) -> None:
    fields = (("clock_task", 0, 8), ("clock_pelt", 8, 8), ("clock_idle", 16, 0))
    new = (*fields[:2], ("clock_idle", 64, 0))

    assert rank(make_unit("struct rq", *fields), make_unit("struct rq", *new)).alarms == ()


def test_a_line_that_others_wrote_before_is_said_to_be_such(make_unit: MakeUnit) -> None:
    base = make_unit("struct rq", ("sd", 0, 8), ("ttwu_pending", 8, 4), ("nohz_flags", 64, 4))
    new = make_unit("struct rq", ("sd", 0, 8), ("ttwu_pending", 8, 4), ("nohz_flags", 16, 4))

    alarm = only(rank(base, new))

    assert any("already contained ttwu_pending" in limit for limit in alarm.limits)


def test_a_field_of_its_own_cpu_may_join_a_read_mostly_one(make_unit: MakeUnit) -> None:
    base = make_unit("percpu", ("sd_llc_id", 0, 4), ("cpu_irqtime", 64, 8))
    new = make_unit("percpu", ("sd_llc_id", 0, 4), ("cpu_irqtime", 8, 8))

    assert rank(base, new).alarms == ()


def test_what_was_measured_to_belong_together_raises_nothing_when_it_joins(
    make_unit: MakeUnit,
) -> None:
    base = make_unit("struct rq", ("cpu_capacity", 0, 8), ("ttwu_pending", 64, 4))
    new = make_unit("struct rq", ("cpu_capacity", 0, 8), ("ttwu_pending", 8, 4))

    assert rank(base, new).alarms == ()


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("struct task_group", "load_avg", "rt_se"),
        ("struct rq", "__lock", "nr_running"),
        ("globals", "sched_clock_irqtime", "nohz"),
        ("struct root_domain", "overloaded", "overutilized"),
    ],
)
def test_what_was_measured_to_belong_apart_is_an_alarm_when_it_joins(
    make_unit: MakeUnit, name: str, one: str, other: str
) -> None:
    base = make_unit(name, (one, 0, 8), (other, 64, 8))
    new = make_unit(name, (one, 0, 8), (other, 8, 8))

    alarm = only(rank(base, new))

    assert (alarm.rule, alarm.grade) == ("joined", "measured")
    assert set(alarm.names) == {one, other}
    assert alarm.claim.endswith(f"although {one} did not move")
    assert alarm.effect


def test_a_hot_set_on_more_lines_than_it_needs_is_an_alarm(make_unit: MakeUnit) -> None:
    clocks = ("clock_task", "clock_pelt", "clock", "lost_idle_time")
    base = make_unit("struct rq", *((name, 8 * at, 8) for at, name in enumerate(clocks)))
    new = make_unit("struct rq", *((name, 24 + 24 * at, 8) for at, name in enumerate(clocks)))

    alarm = next(alarm for alarm in rank(base, new).alarms if alarm.rule == "spread")

    assert "span 2 cache lines" in alarm.claim
    assert "minimum 1" in alarm.claim


def test_a_set_that_cannot_be_on_fewer_lines_is_no_alarm(make_unit: MakeUnit) -> None:
    clocks = ("clock_task", "clock_pelt", "clock")
    base = make_unit("struct rq", *((name, 8 * at, 8) for at, name in enumerate(clocks)))
    new = make_unit("struct rq", *((name, 40 * at, 40) for at, name in enumerate(clocks)))

    assert not [alarm for alarm in rank(base, new).alarms if alarm.rule == "spread"]


@pytest.fixture(scope="session")
def make_group(make_unit: MakeUnit) -> MakeUnit:
    """Make a unit with a group: ``make_group((0, 15), ("one", 0, 8), ("two", 8, 8))``."""

    def make(group: tuple[int, int], *places: tuple[str, int, int | None]) -> Unit:
        return replace(make_unit("struct made", *places), groups={"hot": group})

    return make


def test_a_group_whose_fields_part_is_broken(make_group: MakeUnit) -> None:
    base = make_group((0, 15), ("one", 0, 8), ("two", 8, 8), ("cold", 64, 8))
    new = make_group((56, 71), ("one", 56, 8), ("two", 64, 8), ("cold", 128, 8))

    alarm = only(rank(base, new))

    assert (alarm.rule, alarm.grade) == ("group broken", "stated")
    assert "on 2 lines (1 in base)" in alarm.claim


def test_a_group_that_is_only_read_is_no_alarm(make_unit: MakeUnit) -> None:
    def make(*starts: int) -> Unit:
        names = ("sysctl_sched_min_granularity", "sysctl_sched_latency")
        places = [(name, start, 8) for name, start in zip(names, starts, strict=True)]
        unit = make_unit("globals", *places)
        return replace(unit, groups={"hot": (starts[0], starts[1] + 7)})

    assert rank(make(0, 8), make(56, 64)).alarms == ()


def test_a_group_that_a_field_leaves_and_another_joins_is_broken(make_group: MakeUnit) -> None:
    base = make_group((0, 15), ("one", 0, 8), ("two", 8, 8), ("cold", 64, 8))
    new = make_group((0, 7), ("one", 0, 8), ("cold", 8, 8), ("two", 64, 8))

    claim = only(rank(base, new)).claim

    assert "two moved out of the group" in claim
    assert "cold moved onto the group's lines" in claim


def test_a_group_that_moves_as_a_whole_is_not_broken(make_group: MakeUnit) -> None:
    base = make_group((0, 15), ("one", 0, 8), ("two", 8, 8))
    new = make_group((64, 79), ("one", 64, 8), ("two", 72, 8))

    assert rank(base, new).alarms == ()


def test_samples_outrank_the_table(make_unit: MakeUnit) -> None:
    base = make_unit(
        "percpu", ("root_cpuacct_cpuusage", 0, 8), ("sd_llc_id", 8, 4), ("a", 64, 8), ("b", 128, 8)
    )
    new = make_unit(
        "percpu", ("root_cpuacct_cpuusage", 0, 8), ("a", 64, 8), ("b", 72, 8), ("sd_llc_id", 128, 4)
    )

    ranking = rank(base, new, {"a": 500, "sd_llc_id": 0})

    assert [(alarm.rule, alarm.grade) for alarm in ranking.alarms] == [
        ("contended", "sampled"),
        ("separated", "measured"),
    ]
    assert ranking.alarms[0].hitm == 500
    assert any("no contention" in limit for limit in ranking.alarms[1].limits)


def test_samples_that_confirm_the_table_raise_one_alarm_and_no_second_one(
    make_unit: MakeUnit,
) -> None:
    base = make_unit("struct rq", ("sd", 0, 8), ("nohz_flags", 64, 4))
    new = make_unit("struct rq", ("sd", 0, 8), ("nohz_flags", 8, 4))

    alarm = only(rank(base, new, {"nohz_flags": 40}))

    assert (alarm.rule, alarm.grade, alarm.hitm) == ("joined", "sampled", 40)


def test_a_few_samples_confirm_nothing(make_unit: MakeUnit) -> None:
    base = make_unit("percpu", ("a", 0, 8), ("b", 64, 8))
    new = make_unit("percpu", ("a", 0, 8), ("b", 8, 8))

    assert rank(base, new, {"a": 9}).alarms == ()
    assert rank(base, new, {"a": 10}).alarms != ()


def test_a_renamed_field_is_ranked_under_its_base_name(make_unit: MakeUnit) -> None:
    base = make_unit("struct root_domain", ("overload", 0, 4), ("overutilized", 64, 4))
    new = make_unit("struct root_domain", ("overloaded", 0, 4), ("overutilized", 4, 4))

    alarm = only(rank(base, new))

    assert alarm.names == ("overload", "overutilized")


def test_a_layout_compared_with_itself_raises_nothing(
    real_section: Callable[[str, str], Unit],
) -> None:
    section = real_section("cluster", "both")

    ranking = rank(section, section)

    assert ranking == Ranking(
        unit="percpu", alarms=(), regained=(), only_read=(), unknown_heat=(), quiet=()
    )


names = st.sampled_from(sorted(name for where, name in heat_table().uses if where == "percpu"))


@given(st.lists(names, unique=True, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_every_alarm_is_about_a_change_and_explains_itself(
    make_unit: MakeUnit, chosen: list[str], random: Random
) -> None:
    shuffled = list(chosen)
    random.shuffle(shuffled)
    base = make_unit("percpu", *((name, 24 * at, 8) for at, name in enumerate(chosen)))
    new = make_unit("percpu", *((name, 24 * at, 8) for at, name in enumerate(shuffled)))
    change = compare_units(base, new, LINE)

    ranking = rank_change(change, base, new)

    changed = {frozenset(pair) for pair in (*change.lines.separated, *change.lines.joined)}
    for alarm in ranking.alarms:
        assert alarm.claim
        assert alarm.reference
        assert alarm.limits
        assert alarm.functions
        assert {frozenset(pair) for pair in alarm.pairs} <= changed
    assert change.lines.entries or not ranking.alarms


def test_two_that_came_together_were_not_joined(make_unit: MakeUnit) -> None:
    base = make_unit("struct rq", ("clock", 64, 8))
    new = make_unit("struct rq", ("cpu_capacity", 0, 8), ("ttwu_pending", 8, 4), ("clock", 64, 8))

    assert rank(base, new).alarms == ()
