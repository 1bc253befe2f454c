# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare --html``: commands for other bases."""

import json
import shlex
import shutil
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.cli import main
from schedperf.commands._compare_request import CompareRequest
from schedperf.model.comparison import Comparison
from tests.reports.comparison_records import make_side

Capture = pytest.CaptureFixture[str]


def make_request(*paths: str, are_tables: bool = False) -> CompareRequest:
    return CompareRequest(
        paths=tuple(map(Path, paths)),
        history=(),
        margin=0.03,
        allowed=(),
        base=None,
        are_tables=are_tables,
    )


def test_each_further_side_becomes_base_and_the_others_keep_their_order() -> None:
    sides = [make_side(name) for name in ("base", "new", "new2")]
    orders = [one.paths for one in make_request("a", "b", "c").other_bases(sides)]
    assert orders == [(Path("b"), Path("a"), Path("c")), (Path("c"), Path("a"), Path("b"))]


def test_each_side_of_one_table_can_be_base(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    values = "".join(
        f"{side},tbench,,time,s,lower,{value}\n" for side in ("tip", "a", "b") for value in (1, 2)
    )
    table.write_text(f"side,workload,point,metric,unit,better,value\n{values}")
    request = make_request(str(table), are_tables=True)
    for chosen, others in ((request, ["a", "b"]), (replace(request, base="a"), ["tip", "b"])):
        sides = chosen.compare().sides
        assert [one.base for one in chosen.other_bases(sides)] == others


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], False),
        (["--format", "lkml"], False),
        (["--all"], True),
        (["--json", "-"], True),
        (["--html", "report.html"], True),
    ],
)
def test_flame_graphs_are_computed_only_for_outputs_that_draw_them(
    base: str,
    slower: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    options: list[str],
    expected: bool,
) -> None:
    compare = CompareRequest.compare
    sections: set[str] = set()

    def record_sections(request: CompareRequest, *, drawings: bool = True) -> Comparison:
        comparison = compare(request, drawings=drawings)
        sections.update(comparison.sections)
        return comparison

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(CompareRequest, "compare", record_sections)
    assert main(["compare", base, slower, *options]) == 1
    assert "profile" in sections
    assert ("flames" in sections) is expected


def test_the_command_on_the_page_compares_the_other_way_round(
    base: str, slower: str, tmp_path: Path, capsys: Capture
) -> None:
    spaced = str(shutil.copy(slower, tmp_path / "a slower one.tar"))
    page = tmp_path / "report.html"
    assert (
        main(["compare", base, spaced, "--margin", "5%", "--html", str(page), "--json", "-"]) == 1
    )
    there = json.loads(capsys.readouterr().out)
    menu = page.read_text().partition('class="menu other-bases"')[2].partition("</details>")[0]
    command = shlex.split(unescape(menu.partition("<code>")[2].partition("</code>")[0]))
    assert command == ["schedperf", "compare", spaced, base, "--margin", "0.05"]
    assert main([*command[1:], "--json", "-"]) == 0
    back = json.loads(capsys.readouterr().out)
    assert back["overall"]["verdict"] == "improvement"
    for one, other in zip(there["rows"], back["rows"], strict=True):
        assert one["ratio"] * other["ratio"] == pytest.approx(1.0)


def test_the_record_says_which_command_makes_it_again(
    base: str, slower: str, capsys: Capture
) -> None:
    main(["compare", base, slower, "--margin", "5%", "--allow", "cpu.microcode", "--json", "-"])
    record = json.loads(capsys.readouterr().out)
    said = ["schedperf", "compare", base, slower, "--margin", "0.05", "--allow", "cpu.microcode"]
    assert record["command"] == said
    main([*said[1:], "--json", "-"])
    assert json.loads(capsys.readouterr().out) == record
