"""``schedperf compare --html``: each side may be base; reports may share the charts' library."""

import gzip
import json
import multiprocessing
import os
import re
import signal
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.commands._compare_request import CompareRequest, compare_swapped

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


def test_the_page_carries_the_comparison_with_the_other_base(
    base: str, slower: str, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    assert main(["compare", base, slower, "--html", str(page)]) == 1
    island = re.search(r'data-base="B"[^>]*>([^<]+)<', page.read_text())
    assert island is not None
    swapped = gzip.decompress(b64decode(island[1])).decode()
    assert "improvement: " in swapped.partition("</title>")[0]


@pytest.mark.parametrize("cpus", [1, 2])
def test_the_swapped_comparison_is_the_one_in_the_other_order(
    base: str, slower: str, cpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    with compare_swapped(make_request(base, slower), is_wanted=True) as swapped:
        (found,) = swapped()
    assert found == make_request(slower, base).compare()
    assert found.overall.verdict == "improvement"


def test_nothing_is_swapped_for_what_is_no_page(base: str, slower: str) -> None:
    with compare_swapped(make_request(base, slower), is_wanted=False) as swapped:
        assert list(swapped()) == []


def test_each_further_side_becomes_base_and_the_others_keep_their_order() -> None:
    orders = [request.paths for request in make_request("a", "b", "c").swapped()]
    assert orders == [(Path("b"), Path("a"), Path("c")), (Path("c"), Path("a"), Path("b"))]


def test_each_side_of_one_table_can_be_base(tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    values = "".join(
        f"{side},tbench,,time,s,lower,{value}\n" for side in ("tip", "a", "b") for value in (1, 2)
    )
    table.write_text(f"side,workload,point,metric,unit,better,value\n{values}")
    request = make_request(str(table), are_tables=True)
    assert [one.base for one in request.swapped()] == ["a", "b"]
    assert [one.base for one in replace(request, base="a").swapped()] == ["tip", "b"]


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_page_that_cannot_swap_says_why(
    base: str, cpus: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    with compare_swapped(make_request(base, "gone.tar"), is_wanted=True) as swapped:
        assert list(swapped()) == []
    said = capsys.readouterr().err
    assert said.count("warning: the report cannot swap its sides: gone.tar") == 1


def test_the_record_says_which_command_makes_it_again(
    base: str, slower: str, capsys: Capture
) -> None:
    main(["compare", base, slower, "--margin", "5%", "--allow", "cpu.microcode", "--json", "-"])
    record = json.loads(capsys.readouterr().out)
    said = ["schedperf", "compare", base, slower, "--margin", "0.05", "--allow", "cpu.microcode"]
    assert record["command"] == said
    main([*said[1:], "--json", "-"])
    assert json.loads(capsys.readouterr().out) == record


def test_many_reports_share_one_library(base: str, slower: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        page = tmp_path / name / "report.html"
        page.parent.mkdir()
        main(["compare", base, slower, "--html", str(page), "--assets", str(tmp_path / "assets")])
        assert 'data-source="../assets/plotly-' in page.read_text()
        assert len(page.read_bytes()) < 500_000
    (library,) = (tmp_path / "assets").iterdir()
    assert library.stat().st_size > 1_000_000


@pytest.mark.parametrize("html", [[], ["--html", "-"]])
def test_a_library_beside_no_file_is_refused(
    base: str, slower: str, html: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert main(["compare", base, slower, "--assets", str(tmp_path / "assets"), *html]) == 2
    assert "--assets is found from the report's place" in capsys.readouterr().err
    assert not (tmp_path / "assets").exists()


def test_a_directory_that_cannot_be_written_leaves_no_page(
    base: str, slower: str, tmp_path: Path, capsys: Capture
) -> None:
    page = tmp_path / "report.html"
    assert main(["compare", base, slower, "--html", str(page), "--assets", base]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert not page.exists()


def test_an_interrupt_within_the_fork_comes_behind_it(
    base: str, slower: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python drops what is raised while it forks.
    fork = os.fork

    def interrupted_fork() -> int:
        signal.raise_signal(signal.SIGINT)
        return fork()

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "fork", interrupted_fork)
    handler = signal.getsignal(signal.SIGINT)
    with (
        pytest.raises(KeyboardInterrupt),
        compare_swapped(make_request(base, slower), is_wanted=True),
    ):
        pytest.fail("the interrupt was lost")
    assert signal.getsignal(signal.SIGINT) is handler
    assert multiprocessing.active_children() == []
