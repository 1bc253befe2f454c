# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf mechanism``: text, JSON and page, and what it refuses."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from schedperf.cli import main
from schedperf.model.json_text import to_json
from schedperf.model.schema import to_plain
from tests.mechanisms import STILL, UP, measured, rows_of

Capture = pytest.CaptureFixture[str]
SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / "mechanism-1.schema.json"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with two comparisons."""
    monkeypatch.chdir(tmp_path)
    for name, rows in {
        "micro": rows_of(system=UP, waiting=STILL),
        "production": rows_of(system=UP, waiting=UP, user=STILL),
    }.items():
        (tmp_path / f"{name}.json").write_text(to_json(measured(rows)))
    return tmp_path


def test_text_json_and_page(files: Path, capsys: Capture) -> None:
    words = ["mechanism", "micro.json", "production.json"]
    assert main([*words, "--html", "page.html", "--json", "all.json"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(
        "Mechanisms production.json: same in 1 of 2 mechanisms that changed in production; only in "
        "production: account: waiting"
    )
    assert "account: +50.0% [+40.0%, +60.0%] +50.0% 5+5 / 5+5 same system" in text
    record = json.loads((files / "all.json").read_text())
    schema = json.loads(SCHEMA.read_text())
    jsonschema_rs.Draft202012Validator(schema).validate(record)
    assert record["pairs"][0]["sentence"].startswith("same in 1 of 2")
    page = (files / "page.html").read_text()
    assert page.count('class="joint"') == 2
    # The sentence continues in smaller type after its first clause.
    rest = '<span class="rest"><span class="unseen">;</span> only in production: '
    assert f"changed in production</span> {rest}" in page
    assert main([*words, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == record


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("micro.json",), "1 comparison given (expected that of the microbenchmark"),
        (("micro.json", "none.json"), "none.json: "),
        (("micro.json", "empty.json"), "empty.json: "),
        (("micro.json", "cut.json"), "cut.json: "),
        (("micro.json", "other.json"), "other.json: "),
        (
            ("micro.json", "production.json", "--point", "groups=4"),
            "--point: 'groups=4' names no given file (expected e.g. micro.json=VALUE)",
        ),
        (
            ("micro.json", "production.json", "--side", "production.json=new7"),
            "production.json: no new side 'new7' (expected one of new)",
        ),
    ],
)
def test_refusals(files: Path, capsys: Capture, words: tuple[str, ...], message: str) -> None:
    whole = (files / "micro.json").read_bytes()
    (files / "empty.json").write_bytes(b"")
    (files / "cut.json").write_bytes(whole[: len(whole) // 2])
    (files / "other.json").write_text('{"schema": "schedperf/show/1"}')
    assert main(["mechanism", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_hostile_names_are_text_on_a_page(files: Path, capsys: Capture) -> None:
    name = "<script>alert(1)</script>"
    rows = rows_of(system=UP)
    record = to_plain(measured(rows))
    assert isinstance(record, dict)
    text = json.dumps(record).replace("hackbench -g {groups}", name)
    (files / "hostile.json").write_text(text)
    assert main(["mechanism", "hostile.json", "production.json", "--html", "-"]) == 0
    assert name not in capsys.readouterr().out
