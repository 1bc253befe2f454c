# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of the tasks' time on the first screen: its point, its sides, its words."""

from collections.abc import Callable

from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sections import Section
from schedperf_reports.page.first_screen.time import TimePicture, draw_time
from tests.account_records import account_of, account_point, other_load
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]

NAMES = {"base": "v6.18", "new": "mine", "new2": "yours"}
LOAD = other_load(0.5, 5.5, ("stress-ng", 0.0, 4.0))


def draw(comparison: Comparison, *rows: Row) -> TimePicture:
    picture = draw_time(comparison, rows, NAMES)
    assert picture is not None
    return picture


def with_account(make_comparison: Make, **changes: object) -> Comparison:
    return make_comparison(sections={"account": Section.of(account_of(**changes))})


def test_a_change_has_its_contributions_the_largest_with_its_interval(
    make_comparison: Make,
) -> None:
    picture = draw(with_account(make_comparison, **LOAD))
    assert picture.title == "thread-time per message +20.0% (5+5 runs)"
    assert [(each.number, each.name, each.text) for each in picture.key] == [
        (3, "waiting for a CPU", "+20 pp [+18, +22]"),
        (1, "system", "+1.0 pp"),
        (4, "blocked", "-1.0 pp"),
        (0, "user", "0 pp"),
    ]
    assert picture.missing == ""
    assert picture.others == (
        "other commands used 0.5 s → 5.5 s of CPU time per second, most: stress-ng 0 s → 4 s"
    )
    assert [bar.label for bar in picture.bars.bars] == ["v6.18", "mine"]


def test_without_a_verdict_no_change_is_quoted(make_comparison: Make) -> None:
    comparison = with_account(make_comparison, **LOAD)
    overall = overall_of("inconclusive", "emulated", 0)
    picture = draw(replace(comparison, overall=overall))
    assert picture.title == "thread-time per message"
    assert {each.text for each in picture.key} == {""}
    assert picture.others == ""


def test_what_was_not_measured_is_named(make_comparison: Make) -> None:
    point = account_point(("user", "system"))
    picture = draw(with_account(make_comparison, points=(point,)))
    assert picture.title == "CPU time per message +2.5% (5+5 runs)"
    assert picture.missing == "waiting, blocked: not measured"


def test_it_is_about_the_first_result(make_comparison: Make, make_row: MakeRow) -> None:
    points = (account_point(), account_point(point="groups=16"))
    comparison = with_account(make_comparison, points=points)
    row = replace(make_row(), workload=points[0].workload, point="groups=16")
    assert [point.point for point in draw(comparison, row).points] == ["groups=16"]
    # A result without an account.
    unknown = replace(row, point="groups=64")
    assert [point.point for point in draw(comparison, unknown).points] == ["groups=4"]


def test_several_sides_are_bars_in_the_order_of_their_results(
    make_comparison: Make, make_row: MakeRow
) -> None:
    points = (account_point(), account_point(side="new2"))
    at = {"workload": points[0].workload, "point": points[0].point}
    rows = [replace(make_row(), side=side, **at) for side in ("new2", "new")]
    picture = draw(with_account(make_comparison, points=points), *rows)
    assert [bar.label for bar in picture.bars.bars] == ["v6.18", "yours", "mine"]
    assert picture.title == "thread-time per message"
    assert {each.text for each in picture.key} == {""}


def test_without_an_account_there_is_no_picture(make_comparison: Make) -> None:
    assert draw_time(make_comparison(), (), NAMES) is None
    assert draw_time(with_account(make_comparison, points=()), (), NAMES) is None
