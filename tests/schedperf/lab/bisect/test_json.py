# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.json: the record is read again, and bad input is one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.lab.bisect.json import MOST_BYTES, load_bisection
from schedperf.model.errors import InputError
from schedperf.model.json_text import to_json
from tests.bisections import Search, make_commits, named

Change = Callable[[Any], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b.json"


def problem_of(path: Path) -> str:
    with pytest.raises(InputError) as error:
        load_bisection(path)
    text = str(error.value)
    assert text.startswith(f"{path}")
    assert text.isprintable()
    return text.removeprefix(f"{path}: ")


def test_the_record_is_read_as_it_was_written(path: Path) -> None:
    commits = make_commits()
    for document in (named(), Search(commits, {20: 0.92}, untestable=(3, 20)).finish(25)):
        path.write_text(to_json(document))
        assert load_bisection(path) == document


def test_unknown_fields_are_ignored(path: Path) -> None:
    document = named()
    path.write_text(json.dumps({**json.loads(to_json(document)), "later": 1}))
    assert load_bisection(path) == document


def test_a_cut_file_is_refused_wherever_it_is_cut(path: Path) -> None:
    content = to_json(named()).rstrip().encode()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        assert problem_of(path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.update(schema="schedperf/bisect/2"), "$.schema is"),
        (lambda d: d.update(schema="schedperf/culprit/1"), "$.schema is"),
        (lambda d: d.pop("tested"), "$.tested is missing"),
        (lambda d: d["bad"].update(hash="--output=x"), "$.bad.hash is"),
        (lambda d: d["bad"].update(hash="0" * 41), "$.bad.hash is"),
        (lambda d: d["bad"].update(subject="a\n# git bisect"), "$.bad.subject is"),
        (lambda d: d["bad"].update(subject="\u202ea"), "$.bad.subject is"),
        (lambda d: d["bad"].update(subject="x" * 1001), "$.bad.subject has 1001 characters"),
        (lambda d: d["named"][0].update(commits=[]), "$.named[0].commits is"),
        (lambda d: d["named"][0].update(probability=1.5), "$.named[0].probability is 1.5"),
        (lambda d: d["named"][0]["change"].update(ratio=0.0), "$.named[0].change.ratio is 0.0"),
        (lambda d: d["tested"][0].update(position=-1), "$.tested[0].position is -1"),
        (lambda d: d["tested"][0]["boots"][0].update(value=-1.0), "$.tested[0].boots[0].value is"),
        (lambda d: d["tested"][0]["boots"][0].update(value="1"), "$.tested[0].boots[0].value is"),
        (lambda d: d.update(status="done"), "$.status is"),
        (lambda d: d.update(not_used={"a": -1}), "$.not_used[...] is"),
    ],
)  # fmt: skip
def test_a_damaged_record_is_one_line(path: Path, change: Change, problem: str) -> None:
    document = json.loads(to_json(named()))
    change(document)
    path.write_text(json.dumps(document))
    assert problem_of(path).startswith(problem)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"schema": NaN}', b'{"a": 1, "a": 2}'],
)
def test_other_content_is_one_line(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert problem_of(path)


def test_a_large_file_is_not_read(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert f"larger than {MOST_BYTES} bytes" in problem_of(path)
