# SPDX-License-Identifier: GPL-2.0-or-later
"""Heat maps of CPUs: their order, shades that never stand alone, and cells without numbers."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.counted import CpuRow
from schedperf.model.host import Topology
from schedperf.model.run import Captured, RunKey, SideOf
from schedperf.model.sections import Section
from schedperf.stats.counted.distributions import CpuMeasure, CpuValues, compare_cpus
from schedperf_reports.blocks import Table, Text
from schedperf_reports.graphics.matrix import SHADES, Matrix, shade_of
from schedperf_reports.rates.cpu_maps import MOST_MAPS, cpu_maps, name_cpu, order_cpus
from tests.schedperf.evidence.schedstat.records import schedstat_of

Json = dict[str, Any]

# Two nodes of two cores with two threads each, numbered as Linux does on x86.
CPUS = [{"cpu": cpu, "core": cpu % 2, "socket": cpu // 2 % 2, "node": cpu // 2 % 2, "llc": None}
        for cpu in range(8)]  # fmt: skip
WAKEUPS = CpuMeasure("ttwu_count", "1/s", "wakeups")
BUSY = CpuMeasure("cpu busy", "", "share of its time")


def entries(cpus: int = 8, point: str = "", more: float = 500.0) -> list[CpuRow]:
    """Compare runs in which CPU 4 of new wakes so many more tasks and CPU 1 is less busy."""

    def run(number: int, *, is_new: bool) -> Captured[CpuValues]:
        wakeups = {cpu: 1000.0 + 3 * number + cpu for cpu in range(cpus)}
        busy = dict.fromkeys(range(cpus), 0.5 + 0.001 * number)
        if is_new:
            wakeups[4] += more
            busy[1] -= 0.25
        name = "new" if is_new else "base"
        return Captured(
            key=RunKey(side=name, workload="hackbench", point=point, boot=0, run=number),
            content={WAKEUPS: wakeups, BUSY: busy},
        )

    base, new = (
        SideOf(
            name=name,
            kind="clean",
            runs=tuple(run(number, is_new=name == "new") for number in range(5)),
        )
        for name in ("base", "new")
    )
    return list(compare_cpus(base, new))


def taking_turns(found: list[CpuRow]) -> list[CpuRow]:
    return [replace(one, replication="rounds") for one in found]


@pytest.fixture
def compared(make_comparison: Callable[..., Comparison]) -> Callable[..., Comparison]:
    """Build a record whose sides have the topology, and these numbers of the CPUs."""

    def make(found: list[CpuRow], cpus: list[Json] = CPUS) -> Comparison:
        made = make_comparison()
        host = {**made.sides[0].host, "topology": {"cpus": cpus}}
        sides = tuple(replace(side, host=host) for side in made.sides)
        data = schedstat_of(cpus=tuple(found))
        section = Section.of(data)
        return replace(made, sides=sides, sections={"schedstat": section})

    return make


@pytest.fixture
def matrix(compared: Callable[..., Comparison]) -> Callable[..., Matrix]:
    """Draw numbers of the CPUs."""

    def make(found: list[CpuRow]) -> Matrix:
        [drawn] = cpu_maps(compared(found), found)
        assert isinstance(drawn, Matrix)
        return drawn

    return make


def test_cpus_stand_in_the_order_of_the_topology_with_siblings_side_by_side(
    matrix: Callable[..., Matrix],
) -> None:
    drawn = matrix(entries())
    assert [column.text for column in drawn.columns] == ["0", "4", "1", "5", "2", "6", "3", "7"]
    assert [column.starts for column in drawn.columns] == [
        "node", "", "core", "", "node", "", "core", "",
    ]  # fmt: skip
    assert [(label.text, span) for label, span in drawn.groups] == [("node 0", 4), ("node 1", 4)]
    assert drawn.columns[1].title == "CPU 4 (core 0, socket 0, node 0)"


def test_cpus_of_an_unknown_topology_stand_in_their_own_order() -> None:
    found = order_cpus(Topology(), [2, 0, 1])
    assert [cpu.cpu for cpu in found] == [0, 1, 2]
    assert name_cpu(found[2]) == "CPU 2"


def test_differences_of_shares_are_points_and_rounds_are_one_number(
    matrix: Callable[..., Matrix],
) -> None:
    drawn = matrix(taking_turns(entries()))
    assert "changed significantly (5 pairs)" in drawn.caption
    wakeups, busy = drawn.bands
    assert [line.label.text for line in busy.lines] == ["base", "new", "new - base, pp"]
    assert wakeups.lines[2].label.text == "new - base"
    title = busy.lines[2].cells[2].title
    assert "base 50.2%, new 25.2%, difference -25 [-" in title
    assert "] pp, significant" in title


def test_only_what_is_outside_noise_is_shaded_and_has_a_sign(
    matrix: Callable[..., Matrix],
) -> None:
    drawn = matrix(entries())
    wakeups, busy = drawn.bands
    assert [line.label.side for line in wakeups.lines] == ["base", "new", "difference"]
    assert [cell.sign for cell in wakeups.lines[2].cells] == ["", "more", *[""] * 6]
    assert [cell.shade for cell in wakeups.lines[2].cells] == [0, SHADES, *[0] * 6]
    assert [cell.sign for cell in busy.lines[2].cells] == ["", "", "less", *[""] * 5]
    assert wakeups.lines[2].cells[1].text == "+0.5"
    assert wakeups.label == "ttwu_count, k/s"
    less = busy.lines[2].cells[2]
    assert less.text == "-25"
    assert less.title.startswith(
        "CPU 1 (core 1, socket 0, node 0), cpu busy: base 50.2%, new 25.2%, difference -25 [-"
    )
    assert less.title.endswith("] pp, significant")


def test_the_caption_states_what_changed(matrix: Callable[..., Matrix]) -> None:
    assert matrix(entries()).caption == (
        "per CPU, CPUs in topology order; 2 of 16 values changed significantly (5+5 runs), "
        "most often ttwu_count on CPU 4"
    )
    wakeups = [one for one in entries() if one.measure == "ttwu_count"]
    assert matrix(wakeups).caption.endswith(
        "1 of 8 values changed significantly (5+5 runs), ttwu_count on CPU 4"
    )
    still = [one for one in entries(more=0.0) if one.measure == "ttwu_count"]
    assert matrix(still).caption.endswith("no significant change (5+5 runs)")
    unknown = [replace(one, changed=(None,) * 8) for one in still]
    assert matrix(unknown).caption.endswith("significance unknown (5+5 runs)")


def test_a_cpu_that_a_side_lacks_is_a_dash(matrix: Callable[..., Matrix]) -> None:
    found = entries()
    found[0] = replace(found[0], new=(None, *found[0].new[1:]), changed=(None,) * 8)
    cells = [line.cells[0] for line in matrix(found).bands[0].lines]
    assert [cell.text for cell in cells[1:]] == ["-", "-"]
    assert "difference" not in cells[0].title


def test_many_cpus_have_no_numbers_in_their_cells_but_as_data_and_as_a_table(
    matrix: Callable[..., Matrix],
) -> None:
    drawn = matrix(entries(cpus=256))
    assert drawn.size == "tiny"
    assert matrix(entries(cpus=32)).size == "small"
    data: Any = drawn.data()
    assert len(data["said"]) == 6
    assert len(data["said"][0]) == 256
    [table] = drawn.plain()
    assert isinstance(table, Table)
    assert len(table.rows) == 256
    assert matrix(entries()).data() is None


def test_few_points_are_drawn_those_with_the_most_changes(
    compared: Callable[..., Comparison],
) -> None:
    found = [
        one
        for number in range(MOST_MAPS + 2)
        for one in entries(point=f"groups={number}", more=500.0 if number == 4 else 0.0)
    ]
    *drawn, left = cpu_maps(compared(found), found)
    assert len(drawn) == MOST_MAPS
    assert isinstance(drawn[0], Matrix)
    assert drawn[0].caption.startswith("hackbench at groups=4: per CPU")
    assert isinstance(left, Text)
    assert left.text.startswith(
        "2 heat maps not drawn (fewest significant changes); --json FILE writes the per-CPU values"
    )


def test_a_shade_is_none_only_where_there_is_nothing() -> None:
    assert [shade_of(value, 8.0) for value in (None, 0.0, 0.001, 4.0, -8.0)] == [0, 0, 1, 4, 8]
    assert shade_of(1.0, 0.0) == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 360])
def test_cells_are_read_out_by_pointer_and_by_arrow_keys(
    width: int, visit: Callable[..., Any], compared: Callable[..., Comparison]
) -> None:
    opened = visit(compared(entries(cpus=64)), width=width)
    page = opened.page
    said = page.locator(".matrix-said")
    page.locator("figure.matrix .scroll").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    opened.wait_for("document.querySelector('.matrix-said').textContent !== ''")
    assert said.inner_text().startswith("CPU 4 (core 0, socket 0, node 0), ttwu_count: base")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert said.inner_text().endswith(", significant")
    page.locator("figure.matrix tbody tr").nth(3).locator("td").first.hover()
    assert said.inner_text().startswith("CPU 0 (core 0, socket 0, node 0), cpu busy")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


@pytest.mark.browser
def test_a_cell_that_is_chosen_before_its_numbers_are_there_says_them_then(
    visit: Callable[..., Any], compared: Callable[..., Comparison]
) -> None:
    opened = visit(compared(entries(cpus=64)), is_shared=False)
    opened.page.add_init_script(
        "(() => { const { text } = Response.prototype;"
        " const wait = new Promise((resolve) => { window.deliver = resolve; });"
        " Response.prototype.text = async function () { await wait; return text.call(this); };"
        " })()"
    )
    opened.page.reload()
    opened.wait_for("document.documentElement.dataset.ready === 'true'")
    opened.page.locator("figure.matrix .scroll").first.focus()
    opened.press("ArrowRight")
    said = "document.querySelector('.matrix-said').textContent"
    assert opened.ask(said) == ""
    opened.ask("deliver()")
    opened.wait_for(f"{said}.startsWith('CPU 0 (core 0, socket 0, node 0), ttwu_count: base')")


@pytest.mark.browser
def test_without_scripting_the_numbers_are_in_the_cells_or_in_the_table(
    visit: Callable[..., Any], compared: Callable[..., Comparison]
) -> None:
    page = visit(compared(entries()), java_script_enabled=False).page
    assert page.locator("figure.matrix tbody tr").nth(2).locator("td").nth(1).inner_text() == "+0.5"
    many = visit(compared(entries(cpus=64)), java_script_enabled=False).page
    table = many.locator("figure.matrix details").first
    table.locator("summary").first.click()
    assert "ttwu_count" in table.inner_text()
