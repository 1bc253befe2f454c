# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of the tasks' time: a line and a drawing per point, tables, and what is missing."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.account.findings import account_changes
from schedperf.evidence.account.record import Account, AccountRow, Kind, Part
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Item, Items, Table, Text
from schedperf_reports.evidence.account import (
    MEANING,
    MOST_DRAWN,
    MOST_LINES,
    MOST_ROWS,
    TITLE,
    account,
    describe_point,
    draw_points,
    time_lines,
)
from schedperf_reports.formats import Options, all_formats
from schedperf_reports.graphics.parts import Parts
from schedperf_reports.page.first_screen.screen import draw_first_screen
from schedperf_reports.page.first_screen.why import CORRELATED, NOT_IDENTIFIED
from schedperf_reports.sections import shown_sections
from tests.account_records import (
    account_of,
    account_point,
    account_row,
    divided_point,
    divided_row,
    other_load,
    sampled_row,
)

Make = Callable[..., Comparison]
Describe = Callable[..., list[Block]]

LOAD = other_load(0.5, 5.5, ("stress-ng", 0.0, 4.0), ("sshd", 0.2, 0.1))
LINE = (
    "groups=4: thread-time per message +20.0%: waiting for a CPU +20 pp [+18, +22], "
    "system +1.0 pp [-1.0, +3.0], blocked -1.0 pp [-3.0, +1.0], user 0 pp [-2.0, +2.0] (5+5 runs)"
)
HOSTILE = "\x1b[31m</i><script>alert(1)</script>\nline\u202e"


def with_account(make_comparison: Make, data: Account) -> Comparison:
    return make_comparison(sections={"account": Section.of(data)})


@pytest.fixture
def describe(make_comparison: Make) -> Describe:
    """Return the blocks for a section's data."""

    def run(*rows: AccountRow, **changes: Any) -> list[Block]:
        return list(account(with_account(make_comparison, account_of(*rows, **changes))))

    return run


def lines_of(blocks: list[Block]) -> list[str]:
    return [item.text for block in blocks if isinstance(block, Items) for item in block.items]


def draw(comparison: Comparison, name: str) -> str:
    return all_formats()[name].render(comparison, Options(width=72, colour=False))


def test_the_line_of_a_point_begins_with_the_largest_contribution(describe: Describe) -> None:
    blocks = describe(account_row(), **LOAD)
    assert lines_of(blocks) == [
        LINE,
        "other commands used 0.5 s -> 5.5 s of CPU time per second, most: stress-ng 0 s -> 4 s",
    ]
    lines = next(block for block in blocks if isinstance(block, Items))
    assert lines.brief == MOST_LINES


def test_waiting_and_blocked_time_are_divided_by_reason(describe: Describe) -> None:
    reasons = divided_point(
        {"woken": 0.1, "preempted": 0.8, "yielded": 0.0, "other": -0.2, "io": 0.3}, ("throttled",)
    )
    blocks = describe(divided=(reasons,), divided_rows=(divided_row(), divided_row("migrations")))
    assert lines_of(blocks)[1:] == [
        (
            "groups=4: waiting for a CPU, in instrumented runs: preempted +80 pp [+75, +85], woken "
            "+10 pp [+5.0, +15], yielded 0 pp [-5.0, +5.0]; throttled: not measured (3+3 runs)"
        ),
        (
            "groups=4: blocked, in instrumented runs: I/O +30 pp [+25, +35], other -20 pp "
            "[-25, -15] (3+3 runs)"
        ),
    ]
    [table] = [block for block in blocks if isinstance(block, Table)]
    assert [row[0].text for row in table.rows] == ["waiting: preempted", "migrations"]
    assert table.caption.startswith("why the workload's tasks waited: 2 of 2 rows changed")


def test_blocked_time_without_io_is_not_divided(describe: Describe) -> None:
    point = divided_point({"woken": 0.1, "io": 0.0, "other": 0.2})
    io = replace(point.parts[1], base=0.0, new=0.0)
    idle = replace(point, parts=(point.parts[0], io, point.parts[2]))
    assert [line.split(",")[0] for line in lines_of(describe(divided=(idle,)))[1:]] == [
        "groups=4: waiting for a CPU"
    ]


def test_reasons_of_one_run_have_no_interval(describe: Describe) -> None:
    point = divided_point({"woken": 0.1}, n_base=1, n_new=1)
    alone = replace(point, parts=(replace(point.parts[0], ci_low=None, ci_high=None),))
    [_, line] = lines_of(describe(divided=(alone,)))
    assert line.endswith(": woken +10 pp (1+1 runs, no interval)")


def test_the_blocks_are_lines_drawing_sides_tables_and_notes(describe: Describe) -> None:
    blocks = describe(account_row("cpu"), account_row(row="new-1"), **LOAD, notes=("a note",))
    assert [type(block) for block in blocks] == [Items, Parts, Text, Table, Table, Text, Text]
    said = [block.text for block in blocks if isinstance(block, Text)]
    assert said[0] == "base: 5 clean runs; new: 5 clean runs"
    assert said[1].startswith(MEANING)
    assert said[2] == "a note"


def test_times_come_first_and_lower_is_better(describe: Describe) -> None:
    rows = [account_row(kind, row=f"new-{kind}") for kind in ("cpu", "waiting", "major faults")]
    rates, others = (block for block in describe(*rows, **LOAD) if isinstance(block, Table))
    assert [row[0].text for row in rates.rows] == [
        "CPU time", "waiting for a CPU", "major faults",
    ]  # fmt: skip
    assert rates.anchors == ("new-cpu", "new-waiting", "new-major faults")
    assert rates.limit == MOST_ROWS
    assert rates.caption.startswith("the workload's tasks: 3 of 3 rows changed significantly")
    [change] = [column for column in rates.columns if column.title == "change"]
    assert "lower is better" in change.explains
    assert [[cell.text for cell in row][1:] for row in others.rows] == [
        ["0.5 s", "5.5 s"], ["0 s", "4 s"], ["200 ms", "100 ms"],
    ]  # fmt: skip
    assert others.caption.endswith(
        "groups=4: CPU time of other commands per second of a run, base and new"
    )


def test_what_was_not_measured_is_named(describe: Describe) -> None:
    blocks = describe(account_row("cpu"), points=(account_point(("user", "system")),), **LOAD)
    [line] = lines_of(blocks)
    assert line == (
        "groups=4: CPU time of the workload's tasks per message +2.5%: system +2.5 pp "
        "[+0.5, +4.5], user 0 pp [-2.0, +2.0]; waiting for a CPU or blocked: not measured "
        "(5+5 runs)"
    )
    [drawing] = [block for block in blocks if isinstance(block, Parts)]
    assert [name for _, name in drawing.key] == ["user", "system"]


UNKNOWN: tuple[Part, ...] = ("user", "system")
BOUND = (
    "groups=4: waiting for a CPU: at least 40 us -> 60 us per message, +50.0% [+40.0%, +60.0%], "
    "sampled in instrumented runs (coverage 89% -> 91%; 5+5 runs)"
)


def test_sampled_waiting_is_a_bound_and_only_blocked_time_is_unknown(describe: Describe) -> None:
    blocks = describe(
        account_row("cpu"), points=(account_point(UNKNOWN),), sampled=(sampled_row(),)
    )
    first, second = lines_of(blocks)
    assert first.endswith("[-2.0, +2.0]; blocked: not measured (5+5 runs)")
    assert second == BOUND
    _, table = (block for block in blocks if isinstance(block, Table))
    assert table.caption.startswith("sampled in instrumented runs: 1 of 1 row")
    assert [row[0].text for row in table.rows] == ["waiting for a CPU, at least"]
    assert table.rows[0][-1].text == "89% -> 91%"
    # Findings refer to it.
    assert table.anchors == ("sampled-new-0",)


def test_bounds_whose_change_may_be_that_of_the_coverage_have_no_change() -> None:
    for changed in (False, None):
        data = account_of(sampled=(sampled_row(changed=changed),))
        _, line = describe_point(account_point(UNKNOWN), data)
        assert "at least 40 us -> 60 us per message, sampled" in line


def test_bounds_of_other_points_are_not_those_of_this_one() -> None:
    for field in ("side", "workload", "point", "basis"):
        row = sampled_row(**{field: "time" if field == "basis" else "other"})
        [line] = describe_point(account_point(UNKNOWN), account_of(sampled=(row,)))
        assert "waiting for a CPU or blocked: not measured" in line


@pytest.mark.parametrize("name", ["text", "html", "lkml"])
def test_where_waiting_is_unknown_nothing_claims_it(make_comparison: Make, name: str) -> None:
    at = points_at(make_comparison)
    data = account_of(account_row("cpu", **at), points=(account_point(UNKNOWN, **at),))
    shown = " ".join(draw(with_account(make_comparison, data), name).split())
    claims = re.findall(r"wait(?:ing|ed) for a CPU[^.;]{0,40}", shown)
    assert {each for each in claims if "not measured" not in each} <= {MEANING}
    assert "thread-time per message" not in shown


def test_sampled_waiting_is_in_all_reports(make_comparison: Make) -> None:
    at = points_at(make_comparison)
    data = account_of(
        account_row("cpu", **at),
        points=(account_point(UNKNOWN, **at),),
        sampled=(sampled_row(**at),),
    )
    comparison = with_account(make_comparison, data)
    for name in ("text", "lkml"):
        shown = " ".join(draw(comparison, name).split())
        assert "at least 40 us -> 60 us per message, +50.0% [+40.0%, +60.0%], sampled" in shown
    assert re.search(r'id="[^"]*sampled-new-0"', draw(comparison, "html"))


def test_a_contribution_without_interval_is_a_number_alone() -> None:
    point = account_point()
    alone = [replace(each, ci_low=None, ci_high=None) for each in point.parts]
    [line] = describe_point(replace(point, parts=tuple(alone)), account_of())
    assert "waiting for a CPU +20 pp, system +1.0 pp" in line


def test_nobody_is_named_if_tasks_waited_no_longer() -> None:
    point = account_point()
    turned = [replace(each, contribution=-each.contribution) for each in point.parts]
    data = account_of(**LOAD)
    assert len(list(describe_point(replace(point, parts=tuple(turned)), data))) == 1
    assert len(list(describe_point(point, data))) == 2


def test_sides_and_workloads_are_named_if_there_are_several(describe: Describe) -> None:
    two = (account_point(), account_point(side="new2"))
    assert [line.partition(" thread")[0] for line in lines_of(describe(points=two))] == [
        "new: groups=4:", "new2: groups=4:",
    ]  # fmt: skip
    two = (account_point(point=""), account_point(point="", workload="make"))
    assert [line.partition(" thread")[0] for line in lines_of(describe(points=two))] == [
        "hackbench -g {groups}:", "make:",
    ]  # fmt: skip


def test_bars_have_one_scale_and_one_colour_per_part() -> None:
    drawing = draw_points([account_point()])
    base, new = drawing.bars
    assert [(bar.label, bar.total) for bar in drawing.bars] == [
        ("base", "100 us"),
        ("new", "120 us"),
    ]
    assert [each.text for each in base.segments] == ["5 us", "35 us", "40 us", "20 us"]
    assert sum(each.width for each in new.segments) == pytest.approx(100.0, abs=0.05)
    assert sum(each.width for each in base.segments) == pytest.approx(100.0 / 1.2, abs=0.05)
    assert [each.has_room for each in new.segments] == [False, True, True, True]
    assert drawing.key == ((0, "user"), (1, "system"), (3, "waiting for a CPU"), (4, "blocked"))
    assert base.place != new.place
    assert drawing.plain() == ()
    shown = draw_points([account_point(("waiting", "blocked"))])
    assert [number for number, _ in shown.key] == [3, 4]


def test_all_sides_of_a_point_are_bars_of_one_drawing(describe: Describe) -> None:
    points = (account_point(), account_point(side="new2"), account_point(point="groups=1"))
    several, single = (block for block in describe(points=points) if isinstance(block, Parts))
    assert [bar.label for bar in several.bars] == ["base", "new", "new2"]
    assert [bar.label for bar in single.bars] == ["base", "new"]
    # The total of a side without waiting is another quantity.
    other = account_point(("user", "system"), side="new2")
    assert [bar.label for bar in draw_points([account_point(), other]).bars] == ["base", "new"]


def test_of_a_long_sweep_the_first_points_are_drawn(describe: Describe) -> None:
    points = tuple(account_point(point=f"groups={n}") for n in range(MOST_DRAWN + 3))
    blocks = describe(points=points)
    assert sum(isinstance(block, Parts) for block in blocks) == MOST_DRAWN
    assert "3 more points: in the table" in [
        block.text for block in blocks if isinstance(block, Text)
    ]


def test_without_data_the_reason_is_there(make_comparison: Make) -> None:
    section = Section.without(Account, "absent", "no run of base has a resource usage")
    comparison = make_comparison(sections={"account": section})
    [block] = account(comparison)
    assert isinstance(block, Text)
    assert block.text == "no run of base has a resource usage"
    assert time_lines(comparison) is None
    assert time_lines(with_account(make_comparison, account_of(points=()))) is None


def points_at(make_comparison: Make) -> dict[str, Any]:
    row = next(row for row in make_comparison().rows if row.verdict == "regression")
    return {"workload": row.workload, "point": row.point}


def test_the_page_draws_a_bar_per_side(make_comparison: Make) -> None:
    at = points_at(make_comparison)
    page = draw(with_account(make_comparison, account_of(points=(account_point(**at),))), "html")
    [figure] = re.findall(r'<div class="stacked">.*?</figure>', page, re.DOTALL)
    assert figure.count('class="row"') == 2
    assert "all 120 us" in figure


def test_a_mail_has_the_lines(make_comparison: Make) -> None:
    text = draw(with_account(make_comparison, account_of(account_row(), **LOAD)), "lkml")
    assert TITLE in text
    words = " ".join(text.split())
    assert LINE in words
    assert "other commands used 0.5 s -> 5.5 s of CPU time per second, most: stress-ng" in words
    assert TITLE not in draw(make_comparison(), "lkml")


def test_the_brief_text_has_the_lines(make_comparison: Make) -> None:
    comparison = with_account(make_comparison, account_of(account_row(), **LOAD))
    assert "thread-time per message +20.0%" in " ".join(draw(comparison, "text").split())


@pytest.mark.parametrize("name", sorted(all_formats().keys() - {"json"}))
def test_names_of_commands_and_sides_are_clean(make_comparison: Make, name: str) -> None:
    at = points_at(make_comparison)
    others = other_load(0.5, 5.5, (HOSTILE, 0.0, 4.0), **at)
    data = account_of(account_row(**at), points=(account_point(**at),), **others, notes=(HOSTILE,))
    shown = draw(with_account(make_comparison, data), name)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    if name == "html":
        assert "<script>alert" not in shown
        assert "&lt;script&gt;alert(1)" in shown
    if name in ("text", "lkml"):
        # What is on a line of its own would look like a line of the report.
        assert not re.search(r"^line", shown, re.MULTILINE)


def test_items_are_plain_sentences(describe: Describe) -> None:
    [lines] = [block for block in describe() if isinstance(block, Items)]
    assert lines.items == (Item(text=LINE),)


@pytest.mark.parametrize(
    ("kind", "lead", "listed"),
    [
        ("user", NOT_IDENTIFIED, 0),
        ("system", NOT_IDENTIFIED, 0),
        # The largest part of the picture, and a small one.
        ("waiting", CORRELATED, 0),
        ("blocked", CORRELATED, 1),
    ],
)
def test_cpu_time_is_no_reason_for_a_longer_time(
    make_comparison: Make, kind: Kind, lead: str, listed: int
) -> None:
    cpu = account_row("cpu", row="new-1", changed=kind in ("user", "system"))
    data = account_of(account_row(kind), cpu)
    comparison = make_comparison(
        findings=tuple(account_changes(data)), sections={"account": Section.of(data)}
    )
    screen = draw_first_screen(comparison, shown_sections(comparison))
    assert screen.why.lead == lead
    # Nor is the sum of user and system time worth a look.
    assert screen.time is not None
    assert len(screen.why.reasons) == listed
