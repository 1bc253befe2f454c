# SPDX-License-Identifier: GPL-2.0-or-later
"""What other commands did while the workload was sampled: one sentence, and a caveat."""

import pytest

from schedperf.evidence import caveat_rules
from schedperf.evidence.profile.others import (
    Bystanders,
    caution_of,
    describe_others,
)
from schedperf.evidence.profile.record import OtherCommands, ProfilePoint
from schedperf.model.base_new import BaseNew
from schedperf.model.sections import Section
from tests.schedperf.evidence.profile.records import (
    make_event,
    make_others,
    make_point,
    profile_section,
)


def run(**commands: float) -> Bystanders:
    return Bystanders(busy=100.0, commands=commands)


def point(base: OtherCommands | None, new: OtherCommands | None) -> ProfilePoint:
    return make_point(others=BaseNew(base=base, new=new))


def test_shares_are_means_of_the_runs_the_largest_first() -> None:
    found = describe_others([run(perf=1.0), run(perf=2.0, cc1=30.0)])
    assert found is not None
    assert found.share == pytest.approx(16.5)
    assert [one.command for one in found.commands] == ["cc1", "perf"]
    assert [one.share for one in found.commands] == pytest.approx([15.0, 1.5])


def test_the_sum_is_the_same_each_time_to_its_last_digit() -> None:
    # The hash of a text is another one in each process, and so is the order of a set of texts.
    parts = {f"command{number}": 0.1 + number / 7 for number in range(40)}
    found = describe_others([run(**parts)])
    assert found is not None
    assert found.share == sum(parts.values())


def test_one_run_that_cannot_tell_makes_the_side_unknown() -> None:
    assert describe_others([run(perf=1.0), None]) is None


def test_commands_of_a_set_up_are_named_beside_the_recorder() -> None:
    sides = BaseNew(
        base=describe_others([run(perf=4.6, python3=1.6)]),
        new=describe_others([run(perf=4.2, python3=1.4, mkdir=1.3, **{"enter-cgroup": 0.8})]),
    )
    assert caution_of(sides) == (
        "commands other than the workload account for 6% of the event count (idle excluded) in "
        "base (perf 5%, python3 2%) and 8% in new (perf 4%, python3 1%, mkdir 1%, "
        "enter-cgroup 1%)"
    )


@pytest.mark.parametrize(("share", "is_said"), [(4.9, False), (5.0, True)])
def test_little_is_not_said(share: float, is_said: bool) -> None:  # noqa: FBT001
    assert (caution_of(BaseNew(base=make_others(share), new=None)) is not None) == is_said


def test_a_side_has_a_caveat_of_its_worst_point() -> None:
    points = point(make_others(9.9), make_others(12.0, "sh")), point(None, make_others(30.0))
    section = profile_section(make_event(*points), side="new2")
    (found,) = caveat_rules.all()["other_commands"]({"profile": section})
    assert found.code == "other-commands"
    assert found.text == (
        "background load of 30% of the busy time while new2 was sampled (cc1 30%); "
        "the profile counts it as other load"
    )


def test_without_a_profile_there_is_no_caveat() -> None:
    absent = Section(schema="x", status="absent", reason="none", data=None)
    assert not list(caveat_rules.all()["other_commands"]({"profile": absent}))
    assert not list(caveat_rules.all()["other_commands"]({}))
