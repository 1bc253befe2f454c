# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf compare``: what it prints, where, and with which exit status."""

import json
import os
import stat
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.model.text import PIPED_COLUMNS

Capture = pytest.CaptureFixture[str]


def test_json_alone_is_on_stdout(base: str, slower: str, capsys: Capture) -> None:
    assert main(["compare", base, slower, "--json", "-"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "schedperf/compare/2"
    assert record["overall"]["verdict"] == "regression"
    assert [side["path"] for side in record["sides"]] == [base, slower]


def test_the_format_json_is_the_same(base: str, slower: str, capsys: Capture) -> None:
    main(["compare", base, slower, "--json", "-"])
    by_option = capsys.readouterr().out
    main(["compare", base, slower, "--format", "json"])
    assert capsys.readouterr().out == by_option


def test_files_are_written_beside_the_table(
    base: str, slower: str, tmp_path: Path, capsys: Capture
) -> None:
    page, record = tmp_path / "report.html", tmp_path / "out.json"
    record.write_text("what was there before, and is longer " * 1000)
    arguments = ["compare", base, slower, "--html", str(page), "--json", str(record)]
    assert main(arguments) == 1
    assert "regression" in capsys.readouterr().out
    assert json.loads(record.read_text())["overall"]["exit_status"] == 1
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")


def test_the_text_of_the_terminal_is_beside_a_page(
    base: str, slower: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    monkeypatch.delenv("COLUMNS", raising=False)
    main(["compare", base, slower])
    printed = capsys.readouterr().out
    # Neither a wide terminal nor another format of stdout changes it.
    monkeypatch.setenv("COLUMNS", "200")
    main(["compare", base, slower, "--html", str(page), "--format", "lkml"])
    assert (tmp_path / "report.html.txt").read_text() == printed
    main(["compare", base, slower, "--html", str(page), "--all"])
    assert len((tmp_path / "report.html.txt").read_text()) > 2 * len(printed)


def test_a_page_on_a_device_has_no_text_beside_it(base: str, slower: str) -> None:
    assert main(["compare", base, slower, "--html", "/dev/null"]) == 1
    assert not Path("/dev/null.txt").exists()


def test_an_allowed_field_that_no_bundle_has_is_a_warning(
    base: str, slower: str, capsys: Capture
) -> None:
    allowed = ["--allow", "cpu.microcod", "--allow", "cpu", "--allow", "cpu.microcode"]
    assert main(["compare", base, slower, *allowed]) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "schedperf: warning: --allow cpu.microcod names an unknown field of host.json; "
        "`schedperf show "
        "--cat boots/0/host.json BUNDLE` prints the fields"
    )
    assert said.count("\n") == 1


@pytest.mark.parametrize(("text", "margin"), [("5%", 0.05), ("0.02", 0.02), ("1.5 %", 0.015)])
def test_the_margin_is_a_percentage_or_a_fraction(
    base: str, slower: str, text: str, margin: float, capsys: Capture
) -> None:
    main(["compare", base, slower, "--json", "-", "--margin", text])
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert row["margin"] == pytest.approx(margin)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "0 bundle(s) given (expected at least two, e.g. base.tar new.tar"),
        (["base.tar"], "1 bundle(s) given (expected at least two, e.g. base.tar new.tar"),
        (["a.tar", "b.tar", "--format", "pdf"], "unknown format 'pdf' (expected one of"),
        (["a.tar", "b.tar", "--json", "-", "--html", "-"], "formats requested (expected one of"),
        (
            ["a.tar", "b.tar", "--margin", "much"],
            "invalid margin 'much' (expected a percentage or a fraction, e.g. 3% or 0.03",
        ),
        (["a.tar", "b.tar", "--margin", "nan"], "'nan' is out of range (expected above 0%"),
        (["a.tar", "b.tar", "--margin", "0"], "'0' is out of range (expected above 0%"),
        (["a.tar", "b.tar", "--margin", "80%"], "'80%' is out of range; it means 80%"),
        (["a.tar", "b.tar"], "a.tar"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: Capture
) -> None:
    assert main(["compare", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_an_output_that_cannot_be_written_is_found_before_the_work(
    base: str, tmp_path: Path, capsys: Capture
) -> None:
    target = str(tmp_path / "no" / "such" / "out.json")
    assert main(["compare", base, "absent.tar", "--json", target]) == 2
    assert f"{target}: cannot be written (no such file or directory" in capsys.readouterr().err


def test_an_input_is_never_overwritten(base: str, slower: str, capsys: Capture) -> None:
    before = Path(slower).read_bytes()
    assert main(["compare", base, slower, "--json", slower]) == 2
    assert "also an input; write to another file" in capsys.readouterr().err
    assert Path(slower).read_bytes() == before


def test_a_failed_comparison_leaves_no_file_and_no_change(
    base: str, tmp_path: Path, capsys: Capture
) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.html"
    old.write_text("as it was")
    assert main(["compare", base, "absent.tar", "--json", str(new), "--html", str(old)]) == 2
    assert "absent.tar" in capsys.readouterr().err
    assert not new.exists()
    assert old.read_text() == "as it was"


def test_a_device_can_be_written_to_and_stays_a_device(base: str, slower: str) -> None:
    assert main(["compare", base, slower, "--format", "json", "--json", "/dev/null"]) == 1
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_one_screen_is_printed_unless_all_is_asked_for(
    name: str, base: str, slower: str, capsys: Capture
) -> None:
    printed = []
    for options in ([], ["--all"]):
        assert main(["compare", base, slower, "--format", name, *options]) == 1
        printed.append(capsys.readouterr().out)
    assert len(printed[0].splitlines()) < len(printed[1].splitlines())
    assert printed[0].splitlines()[0] == printed[1].splitlines()[0]
    assert ("--all prints the full report" in printed[0]) == (name == "text")
    assert "--all prints the full report" not in printed[1]


def test_text_is_the_default(
    base: str, slower: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    # Paths are not broken, and those of tests are long.
    monkeypatch.chdir(Path(base).parent)
    sides = [os.path.relpath(base), os.path.relpath(slower)]
    main(["compare", *sides])
    unsaid = capsys.readouterr().out
    main(["compare", *sides, "--format", "text"])
    assert capsys.readouterr().out == unsaid
    before_commands = unsaid.partition("What to do next")[0]
    assert max(map(len, before_commands.splitlines())) <= PIPED_COLUMNS


@pytest.mark.parametrize(("wanted", "widest"), [("50", 50), ("0", PIPED_COLUMNS), ("", 78)])
def test_an_exported_width_holds_in_a_pipe(  # noqa: PLR0917 # what is compared and what follows
    base: str,
    slower: str,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
    widest: int,
) -> None:
    monkeypatch.setenv("COLUMNS", wanted)
    main(["compare", base, slower])
    text = capsys.readouterr().out.partition("What to do next")[0]
    assert widest - 12 < max(map(len, text.splitlines())) <= widest
