# SPDX-License-Identifier: GPL-2.0-or-later
"""Records are built from comparisons that belong together; all others are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison, NextStep
from schedperf.model.errors import InputError
from schedperf.model.rows import Better
from schedperf.model.sides import SideSummary
from schedperf.model.worse import is_worse
from schedperf.publish.culprit.build import (
    Part,
    Roles,
    add_roles,
    new_culprit,
    part_of,
    step_of,
)
from schedperf.publish.culprit.figures import (
    Evidence,
    describe_effect,
    describe_place,
    name_benchmark,
    name_machine,
    rows_of,
)
from schedperf.publish.culprit.json import read_culprit, write_culprit
from schedperf.publish.culprit.record import (
    Bisection,
    BisectionStep,
    Culprit,
    Links,
    Measured,
    Tree,
)
from tests.culprits import (
    BAD,
    ENDS,
    GOOD,
    TIP,
    emulated,
    improvement,
    no_change,
    regression,
    series,
    source,
)

OTHER_MACHINE = {"cpu": {"model": "Another 9000", "count_online": 64}}
ONE_KERNEL = {"kernel": {"release": "7.0", "build_id": "beef"}}
REBUILT = {"kernel": {"release": "7.0"}}


def part(comparison: Comparison, name: str = "a.json", side: str | None = None) -> Part:
    return part_of(name, comparison, side)


def new(**roles: Any) -> Culprit:
    culprit = new_culprit(ENDS, part(regression(), "found.json"), Roles(**roles))
    # Whatever is built can be written and read.
    assert read_culprit(write_culprit(culprit), "c.json") == culprit
    return culprit


def test_one_comparison_is_a_record() -> None:
    culprit = new()
    assert culprit.comparisons == (regression().id,)
    assert culprit.main == Measured(comparison=regression().id)
    assert (culprit.benchmark, culprit.is_range, culprit.retest) == ("hackbench", False, None)
    assert culprit.key == replace(culprit, merged=True).key


def test_texts_report_the_retest() -> None:
    culprit = new(retest=part(regression("retest"), "--retest r.json"))
    assert culprit.main.comparison == regression("retest").id
    assert culprit.retest is not None
    assert culprit.retest.found == regression().id
    assert culprit.comparisons == (regression("retest").id, regression().id)


def test_each_comparison_has_its_role() -> None:
    culprit = new(
        retest=part(regression("retest")),
        tip=part(regression("tip", GOOD, TIP)),
        revert=part(no_change("revert", GOOD, TIP)),
        feature="PLACE_LAG",
        feature_switch=part(improvement("feature", BAD, BAD, hosts=ONE_KERNEL)),
        forced_alignment=part(no_change("aligned", hosts=REBUILT)),
        a_a=part(no_change("a-a", GOOD, GOOD, hosts=ONE_KERNEL)),
        elsewhere=(
            part(regression("other", hosts=OTHER_MACHINE)),
            part(no_change("third", hosts=OTHER_MACHINE)),
        ),
        bisection=Bisection(
            good=GOOD,
            bad=TIP,
            steps=(BisectionStep(commit=BAD, boots=4, probability=0.99),),
            builds=2,
            boots=16,
            probability=0.99,
            neighbours_tested=True,
        ),
        links=Links(posted="<1@example.org>"),
    )
    names = (
        "retest", "found", "tip", "aligned", "a-a", "revert", "feature", "other", "third",
    )  # fmt: skip
    ids = {name: regression(name).id for name in names}
    assert {*culprit.comparisons} == {*ids.values()}
    assert culprit.tip == Measured(comparison=ids["tip"])
    assert culprit.revert is not None
    assert culprit.revert.result == Measured(comparison=ids["revert"])
    assert culprit.feature_switch is not None
    assert culprit.feature_switch.feature == "PLACE_LAG"
    assert [each.result.comparison for each in culprit.regressed_on] == [ids["other"]]
    assert [each.result.comparison for each in culprit.no_change_on] == [ids["third"]]
    assert culprit.regressed_on[0].machine.endswith("64-CPU Another 9000")
    assert culprit.links.posted == "<1@example.org>"


def test_another_tree_is_named() -> None:
    other = regression("other")
    sides = [replace(side, source=replace(source(BAD), ref="v6.12.y")) for side in other.sides]
    sides[0] = replace(other.sides[0])
    culprit = new(elsewhere=(part(replace(other, sides=tuple(sides))), part(regression("same"))))
    assert [each.tree for each in culprit.regressed_on] == ["v6.12.y", None]


def test_of_a_series_the_worst_step_is_good_and_bad() -> None:
    found = step_of("series.json", series())
    assert (found.measured.before, found.measured.side) == ("new", "new2")
    culprit = new_culprit(ENDS, found, Roles())
    assert culprit.main == found.measured
    evidence = Evidence(culprit=culprit, comparisons={series().id: series()})
    row = evidence.headline()
    assert row.verdict == "regression"
    assert row.ratio == pytest.approx(1.25 / 1.04, rel=0.01)
    assert row.base is not None
    assert row.new is not None
    assert row.new / row.base == pytest.approx(row.ratio, rel=0.001)
    assert describe_effect(row).startswith("increases hackbench time by 20.")
    # Against base, another change is measured.
    against_base = rows_of(series(), Measured(comparison=series().id, side="new2"))
    assert against_base[-1].ratio == pytest.approx(1.25, rel=0.01)


def test_more_comparisons_are_merged() -> None:
    main = part(regression(), "c.json: main")
    first = new(elsewhere=(part(regression("other", hosts=OTHER_MACHINE)),))
    again = add_roles(
        first,
        main,
        Roles(
            elsewhere=(
                part(regression("other", hosts=OTHER_MACHINE)),
                part(no_change("third", hosts=OTHER_MACHINE)),
            )
        ),
    )
    assert [each.result.comparison for each in again.regressed_on] == [regression("other").id]
    assert [each.result.comparison for each in again.no_change_on] == [no_change("third").id]
    assert again == add_roles(again, main, Roles())
    # A measurement that is repeated under the same id moves, and is not listed twice.
    moved = add_roles(
        again, main, Roles(elsewhere=(part(no_change("other", hosts=OTHER_MACHINE)),))
    )
    assert moved.regressed_on == ()
    assert len(moved.comparisons) == 3


def test_the_tree_is_at_the_commit_of_its_newest_kernel_whenever_that_is_added() -> None:
    main = part(regression(), "c.json: main")
    named = new(tree=Tree(name="tip/sched/core"))
    assert named.tree is not None
    assert named.tree.commit is None
    tip = regression("tip", GOOD, TIP)
    measured = add_roles(named, main, Roles(tip=part(tip)))
    expected = source(TIP)
    expected_tree = Tree(
        name="tip/sched/core", commit=TIP, date=expected.committed, url=expected.tree
    )
    assert measured.tree == expected_tree
    # If the commit of the newer kernel is unknown, that of the older one is dropped, too.
    unknown = add_roles(measured, main, Roles(tip=part(regression("other", GOOD, None))))
    assert unknown.tree == replace(expected_tree, commit=None, date=None)


def test_a_backport_is_another_commit_with_the_same_subject() -> None:
    stable = regression("stable", "4" * 40, "5" * 40, hosts=OTHER_MACHINE)
    base, last = stable.sides
    assert last.source is not None
    ported = replace(last, source=replace(last.source, subject=ENDS.bad.subject, ref="6.12.y"))
    (place,) = new(elsewhere=(part(replace(stable, sides=(base, ported))),)).regressed_on
    assert place.backport == "5" * 40
    assert describe_place(place).endswith("Another 9000, 6.12.y, backported as 555555555555")
    with pytest.raises(InputError, match="base is commit 444444444444"):
        new(elsewhere=(part(stable),))


def test_a_retest_that_is_added_later_is_reported() -> None:
    culprit = add_roles(new(), part(regression()), Roles(retest=part(regression("retest"))))
    assert culprit.main.comparison == regression("retest").id
    assert culprit.retest is not None
    assert culprit.retest.found == regression().id


@pytest.mark.parametrize(
    "roles", [Roles(retest=part(regression())), Roles(elsewhere=(part(regression()),))]
)
def test_what_showed_the_regression_first_has_no_second_role(roles: Roles) -> None:
    retest = part(regression("retest"))
    with pytest.raises(
        InputError, match=r"a\.json: the record has this comparison already, as the"
    ):
        add_roles(new(retest=retest), retest, roles)


@pytest.mark.parametrize(
    ("better", "expected"), [("lower", True), ("higher", False), ("unknown", False)]
)
def test_an_emulated_result_is_worse_only_in_a_known_direction(
    better: Better, *, expected: bool
) -> None:
    slower = next(row for row in emulated("found").rows if is_worse(row))
    assert is_worse(replace(slower, better=better)) is expected
    # The other way round, lower values are worse only if higher is better.
    faster = replace(slower, ci_low=0.5, ci_high=0.8, better=better)
    assert is_worse(faster) is (better == "higher")


def test_emulated_timings_without_a_verdict_are_recorded() -> None:
    # For a night in guests; its mail is held, because it is emulated.
    culprit = new_culprit(ENDS, part(emulated("found")), Roles(retest=part(emulated("again"))))
    assert culprit.retest is not None


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ({"retest": lambda: part(regression())},
         "a.json: base has the recordings of found.json (expected other boots); record both"),
        ({"retest": lambda: part(same_boots())},
         "a.json: base was recorded in a boot of found.json (expected other boots); boot both"),
        ({"retest": lambda: part(no_change("retest"))},
         "a.json: regression not reproduced: hackbench time +0.2% [+0.0%, +0.3%], no-change"),
        ({"retest": lambda: part(improvement("retest"))}, "a.json: regression not reproduced"),
        ({"retest": lambda: part(regression("retest", hosts=OTHER_MACHINE))},
         "a.json: base is of another machine, 1-socket, 64-CPU Another 9000 (expected that of"),
        ({"retest": lambda: part(regression("retest", GOOD, TIP))},
         "a.json: new is commit 333333333333 (expected 222222222222); give the comparison of that"),
        ({"tip": lambda: part(regression("tip", BAD, TIP))},
         "a.json: base is commit 222222222222 (expected 111111111111); give the comparison of"),
        ({"tip": lambda: part(series(), side="new2")},
         "a.json: no result of hackbench time of hackbench -l 100 -g 4 (expected the same"),
        ({"tip": lambda: part(series(), side="new9")},
         "a.json: unknown side 'new9' (expected one of new, new2)"),
        ({"feature": "PLACE_LAG", "feature_switch": lambda: part(no_change("f", BAD, BAD))},
         "a.json: base and new have different kernels (expected one kernel); record both sides on"),
        ({"feature": "PLACE_LAG", "feature_switch": lambda: part(no_change("f"))},
         "a.json: base is commit 111111111111 (expected 222222222222)"),
        ({"a_a": lambda: part(no_change("a", GOOD, BAD))},
         "a.json: new is commit 222222222222 (expected 111111111111)"),
        ({"forced_alignment": lambda: part(no_change("aligned"))},
         "a.json: base has the kernel of found.json (expected a rebuild with CONFIG_DEBUG_FORCE"),
        ({"elsewhere": lambda: (part(improvement("e", TIP, BAD, hosts=OTHER_MACHINE)),)},
         "a.json: base is commit 333333333333 (expected 111111111111)"),
        ({"revert": lambda: part(regression())},
         "a.json: new has the recordings of 222222222222, which the record reports already (exp"),
        ({"fix": lambda: part(regression())}, "a.json: new has the recordings of 222222222222"),
        ({"elsewhere": lambda: (part(regression()),)}, "a.json: new has the recordings of 222222"),
        ({"elsewhere": lambda: (part(uncertain()),)},
         "a.json: neither a regression nor no change (hackbench time: inconclusive); record more"),
        ({"bisection": Bisection(good=GOOD, bad=TIP, steps=(), builds=0, boots=0,
                                 probability=None, neighbours_tested=False)},
         "--bisection: commit 222222222222 was not tested (expected bad of the record among its"),
    ],
)  # fmt: skip
def test_a_comparison_that_does_not_belong_is_one_line(roles: dict[str, Any], problem: str) -> None:
    def value(given: Any) -> Any:
        return given() if isinstance(given, Callable) else given  # type: ignore[arg-type]

    with pytest.raises(InputError) as caught:
        new(**{name: value(given) for name, given in roles.items()})
    message = str(caught.value)
    assert message.startswith(problem)
    assert len(message.splitlines()) == 1


def same_boots() -> Comparison:
    """Return a comparison of other recordings, on the boots of the first one."""
    first, again = regression(), regression("again")
    sides = zip(again.sides, first.sides, strict=True)
    return replace(again, sides=tuple(replace(side, host=old.host) for side, old in sides))


def test_one_class_of_machines_is_one_machine() -> None:
    def of_class(comparison: Comparison, name: str) -> Comparison:
        sides = tuple(replace(side, machine_class=name) for side in comparison.sides)
        return replace(comparison, sides=sides)

    found = part(of_class(regression(), "epyc-1"))
    # The class decides, whatever CPU model the firmware prints.
    again = regression("retest", hosts={"cpu": {"model": "Example 9000 ES"}})
    with pytest.raises(InputError, match="is of another machine"):
        new_culprit(ENDS, found, Roles(retest=part(of_class(again, "epyc-2"))))
    culprit = new_culprit(ENDS, found, Roles(retest=part(of_class(again, "epyc-1"))))
    assert culprit.retest is not None


def uncertain() -> Comparison:
    compared = no_change("uncertain", hosts=OTHER_MACHINE)
    rows = tuple(replace(row, verdict="inconclusive") for row in compared.rows)
    return replace(compared, rows=rows)


@pytest.mark.parametrize("comparison", [no_change("n"), improvement("i")])
def test_without_a_regression_there_is_nothing_to_record(comparison: Comparison) -> None:
    with pytest.raises(InputError, match=r"a\.json: no significant regression of new against base"):
        new_culprit(ENDS, part(comparison), Roles())


def test_without_a_regression_the_next_step_of_the_comparison_is_advised() -> None:
    step = NextStep(
        id="real-hardware", what="record on hardware", why="it is emulated", commands=()
    )
    explain = replace(step, id="explain", what="record PELT updates")
    comparison = replace(no_change("n"), next_steps=(explain, step))
    with pytest.raises(InputError, match=r"\); record on hardware\Z"):
        new_culprit(ENDS, part(comparison), Roles())


def test_sides_of_one_kernel_show_nothing_about_commits() -> None:
    one = {"kernel": {"release": "6.18.0", "version": "#1 SMP", "build_id": "ab" * 20}}
    same = regression("same", hosts=one)
    with pytest.raises(InputError, match=r"found\.json: base and new have the same kernel"):
        new_culprit(ENDS, part(same, "found.json"), Roles())
    with pytest.raises(InputError, match="--retest: base and new have the same kernel"):
        new(retest=part(same, "--retest"))


def test_the_comparison_must_be_of_the_named_commits() -> None:
    with pytest.raises(InputError, match=r"a\.json: base is commit 3{12} \(expected 1{12}\)"):
        new_culprit(ENDS, part(regression("f", TIP, BAD)), Roles())
    # What the recorder was not given cannot be compared.
    unknown = regression("f", None, None)
    assert new_culprit(ENDS, part(unknown), Roles()).comparisons == (unknown.id,)


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ("hackbench -p -l 4000 -g 2", "hackbench"),
        ("/usr/bin/schbench -m 2", "schbench"),
        ("perf bench sched pipe -l 5000", "perf bench sched pipe"),
        ("perf bench sched messaging", "perf bench sched messaging"),
        ("sysbench cpu run", "sysbench"),
        ("", "unknown"),
        ("\x1b[31m\u202ehackbench", "[31mhackbench"),
        (".", "."),
    ],
)
def test_a_benchmark_has_the_name_of_its_program(workload: str, name: str) -> None:
    assert name_benchmark(workload) == name


@pytest.mark.parametrize(
    ("model", "sockets", "cpus", "kind", "name"),
    [
        ("AMD EPYC 7763 64-Core Processor", 2, 96, None, "2-socket, 96-CPU AMD EPYC 7763"),
        ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", 1, 64, "none",
         "1-socket, 64-CPU Intel Xeon Gold 6338"),
        (None, 0, None, "kvm", "unknown CPU (kvm guest)"),
    ],
)  # fmt: skip
def test_a_machine_has_a_name(
    model: str | None, sockets: int, cpus: int | None, kind: str | None, name: str
) -> None:
    host = {
        "cpu": {"model": model, "count_online": cpus},
        "topology": {"cpus": [{"cpu": each, "socket": each} for each in range(sockets)]},
        "virtualisation": {"kind": kind},
    }
    side: SideSummary = replace(regression().sides[0], host=host)
    assert name_machine(side) == name
