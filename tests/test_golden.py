# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands print is what they printed before, and the cases reach all that can be printed.

``make bless`` rewrites the expectations from what is printed now; read the difference then.
"""

import functools
import io
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest

from schedperf.cli import main
from schedperf.commands._compare_request import CompareRequest
from schedperf.compare.json import read_comparison
from schedperf.compare.why.find import all_rules
from schedperf.evidence import all_sections
from schedperf.inputs.benchmarks import all_parsers
from schedperf.model.caveats import TEXTS
from schedperf.model.comparison import SCHEMA
from schedperf.model.rows import Better, Family, Replication, Verdict
from schedperf.model.schema import to_plain
from schedperf.model.sections import Bearing, SectionStatus
from schedperf.model.sides import Severity
from tests.cell_numbers import computed_numbers
from tests.golden_cases import CASES, COMMANDS, Case
from tests.golden_files import (
    COLUMNS,
    LARGEST_FILE,
    TABLE,
    check_absent,
    check_csv,
    check_json,
    check_text,
    hide_version,
    read_document,
)
from tests.golden_plugins import check_golden_plugins

GOLDEN = Path(__file__).parent / "data" / "golden"
SCHEMAS = Path(__file__).parent.parent / "docs" / "schema"


# As long as any build id, so that lines wrap where they did.
BUILD_ID = "feedface" * 5
RUNNING = re.compile(r"(?<=that of the running)(\s+kernel\s+is\s+)[0-9a-f]{40}")


def hide_running_kernel(text: str) -> str:
    """Replace the build id of the kernel that the test runs on, which may be that of an example."""
    return RUNNING.sub(rf"\g<1>{BUILD_ID}", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Printed:
    """What a command printed on its two streams, and how it ended."""

    out: str
    err: str
    status: int


def run(line: str) -> Printed:
    """Run a command in this process, as if its output were a file."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = main(shlex.split(line))
    texts = []
    for stream in (out, err):
        stream.flush()
        written = stream.buffer
        assert isinstance(written, io.BytesIO)
        texts.append(hide_running_kernel(hide_version(written.getvalue().decode())))
    return Printed(out=texts[0], err=texts[1], status=status)


@pytest.fixture
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a terminal and of the person before it nothing may be seen in what is printed.
    for name in ("SCHEDPERF_DEBUG", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.golden
@pytest.mark.usefixtures("_plain_terminal", "_golden_plugins")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_prints_what_it_printed_before(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    # The forms of one comparison are drawn from one record, as those of one command are.
    monkeypatch.setattr(CompareRequest, "compare", functools.cache(CompareRequest.compare))
    lines = []
    for name, line in case.outputs.items():
        printed = run(line)
        lines += [f"$ schedperf {line} > {name}\n", printed.err, f"exit status {printed.status}\n"]
        if printed.out and name.endswith(".json"):
            document = json.loads(printed.out)
            if validator := published_schemas().get(document.get("schema")):
                validator.validate(document)
            if document.get("schema") == SCHEMA:
                comparison = read_comparison(printed.out.encode(), name)
                assert to_plain(comparison) == document
                assert not computed_numbers(comparison, document)
            check_json(GOLDEN / case.name / name, document)
        elif printed.out and name.endswith(".csv"):
            check_csv(GOLDEN / case.name / name, printed.out)
        elif printed.out:
            check_text(GOLDEN / case.name / name, printed.out)
        else:
            check_absent(GOLDEN / case.name / name)
    check_text(GOLDEN / case.name / "command", "".join(lines))


def test_no_expectation_is_orphaned() -> None:
    # What a command prints nothing into has no file; its exit status is in "command".
    known = {f"{case.name}/{name}" for case in CASES for name in (*case.outputs, "command")}
    kept = {
        # The rows of a document are kept beside it.
        str(path.relative_to(GOLDEN)).replace(TABLE, ".json")
        for path in GOLDEN.glob("*/*")
    }
    orphans = sorted(kept - known)
    assert not orphans, f"no case prints these any more; git rm them: {orphans}"


def test_no_expectation_is_too_large_to_be_reviewed() -> None:
    sizes = {path.relative_to(GOLDEN): path.stat().st_size for path in GOLDEN.glob("*/*")}
    assert not {path: size for path, size in sizes.items() if size > LARGEST_FILE}


@pytest.mark.golden
@pytest.mark.usefixtures("_golden_plugins")
def test_each_plugin_that_the_golden_files_hold_exists() -> None:
    check_golden_plugins()


def test_each_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_no_case_ends_in_an_internal_error() -> None:
    commands = {path.parent.name: path.read_text() for path in GOLDEN.glob("*/command")}
    assert not [name for name, text in commands.items() if "internal error" in text]


# What no bundle can bring about, and why.
UNREACHED = {
    "caveat failed-finding": "a rule fails only by a defect of its own",
    "section status failed": "an analysis fails only by a defect of its own",
    "severity ignored": "such a difference is not listed",
}


def kept_records() -> Iterator[Any]:
    """Yield each JSON document that the cases keep."""
    for path in sorted(GOLDEN.glob("*/*.json")):
        yield read_document(path)


def kept_comparisons() -> list[Any]:
    return [one for one in kept_records() if one.get("schema") == SCHEMA]


def codes_of_caveats(value: Any) -> Iterator[str]:
    """Yield the code of each caveat anywhere in a document."""
    if isinstance(value, dict):
        if {"code", "text"} <= value.keys():
            yield value["code"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from codes_of_caveats(item)


def codes_of_texts(document: Any) -> Iterator[str]:
    """Yield the code of each caveat of ``show``, which prints their texts alone."""
    if document.get("schema") != "schedperf/show/1":
        return
    for code, template in TEXTS.items():
        pattern = ".*".join(map(re.escape, re.split(r"{[^}]*}", template)))
        if any(re.fullmatch(pattern, text) for text in document["caveats"]):
            yield code


def everything() -> Iterator[str]:
    """Yield each thing that a comparison can say, from the registries and closed sets."""
    yield from (f"caveat {code}" for code in TEXTS)
    yield from (f"finding {name}" for name in all_rules())
    yield from (
        f"section {name} {status}"
        for name, plugin in all_sections().items()
        for status in ("ok", "absent" if plugin.applies is None else "not-applicable")
    )
    yield from (f"parser {name}" for name in all_parsers())
    closed = {
        "bearing": Bearing, "better": Better, "family": Family, "replication": Replication,
        "section status": SectionStatus, "severity": Severity, "verdict": Verdict,
        "overall": Verdict,
    }  # fmt: skip
    for name, words in closed.items():
        yield from (f"{name} {word}" for word in get_args(words))
    yield from (f"exit status {status}" for status in (0, 1, 2, 3, 4))


def reached() -> Iterator[str]:
    """Yield what the cases bring about."""
    for document in kept_records():
        codes = (*codes_of_caveats(document), *codes_of_texts(document))
        yield from (f"caveat {code}" for code in codes)
    for record in kept_comparisons():
        yield from (f"finding {one['id'].partition('#')[0]}" for one in record["findings"])
        yield from (f"bearing {one['bearing']}" for one in record["findings"])
        for name, section in record["sections"].items():
            yield f"section {name} {section['status']}"
            yield f"section status {section['status']}"
        for row in record["rows"]:
            for word in ("better", "family", "replication", "verdict"):
                yield f"{word} {row[word]}"
        yield f"overall {record['overall']['verdict']}"
        yield from (f"severity {one['severity']}" for one in record["comparability"]["differences"])
    for path in GOLDEN.glob("*/command"):
        yield from (line for line in path.read_text().splitlines() if line.startswith("exit"))
    # A parser's metrics begin with its name, and perf bench's with that of the benchmark.
    metrics = {row["metric"] for record in kept_comparisons() for row in record["rows"]}
    for name in all_parsers():
        spoken = (name, name.replace("_", "-"), *PERF_BENCH.get(name, ()))
        if any(metric.startswith(spoken) for metric in metrics):
            yield f"parser {name}"


PERF_BENCH = {
    # Metrics of the Go benchmark format are called like their units.
    "imported values": ("sec/op", "hits/op"),
    "perf bench sched pipe": ("sched/pipe",),
    "perf bench sched messaging": ("sched/messaging",),
    "perf bench futex": ("futex/",),
    "perf bench epoll": ("epoll/",),
    "perf bench syscall": ("syscall/",),
}


@pytest.mark.usefixtures("_golden_plugins")
def test_the_cases_reach_everything_that_a_comparison_can_say() -> None:
    found, known = set(reached()), set(everything())
    assert not sorted(known - found - UNREACHED.keys())
    assert not sorted(UNREACHED.keys() & found), "reached after all"
    assert known >= UNREACHED.keys()


def test_every_subcommand_prints_its_help() -> None:
    printed = (GOLDEN / "help" / "schedperf.txt").read_text().partition("Commands:\n")[2]
    assert {line.split()[0] for line in printed.splitlines() if line[:3].strip()} == set(COMMANDS)


@functools.cache
def published_schemas() -> dict[str, jsonschema_rs.Draft202012Validator]:
    """Return the validator of each schema that is published, by its title."""
    documents = [json.loads(path.read_bytes()) for path in SCHEMAS.glob("*.json")]
    return {one["title"]: jsonschema_rs.Draft202012Validator(one) for one in documents}


RECORD = {
    "schema": "made", "rows": [{"name": "time", "change": 0.301, "n": 12}, {"name": "rate"}],
    "verdict": "regression",
}  # fmt: skip


def changed(**changes: Any) -> Any:
    return {**deepcopy(RECORD), **changes}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (changed(rows=[{"name": "time", "change": 0.302, "n": 12}, {"name": "rate"}]),
         r"\$\.rows\[0\]\.change: expected 0\.301, found 0\.302"),
        (changed(rows=[{"name": "time", "change": 0.301, "n": 12.0}, {"name": "rate"}]),
         r"\$\.rows\[0\]\.n: expected 12, found 12\.0"),
        (changed(rows=RECORD["rows"][:1]), r"\$\.rows: 2 items expected, 1 found"),
        (changed(verdict="improvement"),
         r'\$\.verdict: expected "regression", found "improvement"'),
        (changed(verdict=None), r'\$\.verdict: expected "regression", found null'),
        (changed(more=1), r"\$\.more: not expected, found 1"),
        ({"schema": "made", "rows": RECORD["rows"]}, r"\$\.verdict: expected .*, missing"),
    ],
)  # fmt: skip
def test_a_wrong_number_a_lost_row_and_a_changed_word_of_json_fail(
    found: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(RECORD))
    check_json(path, deepcopy(RECORD))
    with pytest.raises(pytest.fail.Exception, match=told):
        check_json(path, found)


def test_numbers_that_differ_by_rounding_alone_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    path = tmp_path / "numbers.json"
    path.write_text("[0.1, 1e-300, 0.0]")
    check_json(path, [0.1 * (1.0 + 1e-13), 1e-300 * (1.0 - 1e-13), 0.0])
    for wrong in ([0.1 * (1.0 + 1e-11), 1e-300, 0.0], [0.1, 2e-300, 0.0], [0.1, 1e-300, 1e-300]):
        with pytest.raises(pytest.fail.Exception, match=r"\$\[\d\]: expected "):
            check_json(path, wrong)


def test_a_wrong_cell_of_a_table_fails_and_rounding_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    path = tmp_path / "table.csv"
    path.write_text("metric,values\ntime,0.1 0.2\n")
    check_csv(path, f"metric,values\ntime,{0.1 * (1.0 + 1e-13)} 0.2\n")
    for wrong in ("time,0.1 0.2001", "rate,0.1 0.2", "time,0.1", "time,0.1 0.2,1"):
        with pytest.raises(pytest.fail.Exception, match=r"\$\[1\]"):
            check_csv(path, f"metric,values\n{wrong}\n")


def test_a_wrong_number_fails_where_only_a_digest_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def document(last: float) -> Any:
        numbers = [float(number) / 7.0 for number in range(9000)]
        return {"rows": [1], "sections": {"long": {"data": [*numbers, last]}, "short": {}}}

    path = tmp_path / "long.json"
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("SCHEDPERF_BLESS", "1")
    check_json(path, document(0.5))
    monkeypatch.delenv("SCHEDPERF_BLESS")
    assert path.stat().st_size < 1000
    check_json(path, document(0.5 * (1.0 + 1e-14)))
    with pytest.raises(pytest.fail.Exception, match=r"\$\.sections\.long\.data\.sha256: expected"):
        check_json(path, document(0.5 * (1.0 + 1e-5)))


def test_rows_of_a_large_document_are_lines_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def document(number: int, **changes: Any) -> Any:
        caveats = [{"code": "coarse", "text": "x"}]
        row = dict.fromkeys(COLUMNS, 0.5) | {"metric": "time", "caveats": caveats, "reason": "a"}
        rows = [{**row, "reason": "a" * 300} for _ in range(500)]
        rows[number] |= changes
        return {"rows": rows}

    path = tmp_path / "large.json"
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("SCHEDPERF_BLESS", "1")
    check_json(path, document(0))
    monkeypatch.delenv("SCHEDPERF_BLESS")
    assert json.loads(path.read_text()) == {"rows": {"items": 500}}
    assert (tmp_path / "large.rows.csv").stat().st_size < LARGEST_FILE
    row = read_document(path)["rows"][0]
    assert (row["metric"], row["q"], row["caveats"][0]["code"]) == ("time", "0.5", "coarse")
    check_json(path, document(7, q=0.5 * (1.0 + 1e-14)))
    for changes in ({"q": 0.5001}, {"metric": "rate"}, {"reason": "b"}, {"q": None}):
        with pytest.raises(pytest.fail.Exception, match=r"\$\[8\]"):
            check_json(path, document(7, **changes))
    # A document that is small now has no table.
    small = {"rows": [1]}
    path.write_text(json.dumps(small))
    with pytest.raises(pytest.fail.Exception, match=r"large\.rows\.csv is not printed any more"):
        check_json(path, small)
    monkeypatch.setenv("SCHEDPERF_BLESS", "1")
    check_json(path, small)
    assert [*tmp_path.iterdir()] == [path]


def test_a_change_in_a_line_that_is_cut_from_a_large_text_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "title\n\n" + "".join(f"row {number} {'x' * 60}\n" for number in range(2000))
    path = tmp_path / "large.txt"
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("SCHEDPERF_BLESS", "1")
    check_text(path, text)
    monkeypatch.delenv("SCHEDPERF_BLESS")
    assert path.stat().st_size < 10_000
    check_text(path, text)
    with pytest.raises(pytest.fail.Exception, match=r"and \d+ lines"):
        check_text(path, text.replace("row 1999 ", "row 1998 "))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("time +30.2 %\nn 12\n", r"(?s)\n-time \+30\.1 %\n\+time \+30\.2 %"),
        ("time +30.1 %\n", r"(?s)\n-n 12"),
        ("time +30.1 %\nruns 12\n", r"(?s)\n-n 12\n\+runs 12"),
        ("time +30.1 %\nn 12", r"differs:"),
    ],
)
def test_a_wrong_number_a_lost_line_and_a_changed_word_of_text_fail(
    found: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    path = tmp_path / "text.txt"
    path.write_text("time +30.1 %\nn 12\n")
    check_text(path, "time +30.1 %\nn 12\n")
    with pytest.raises(pytest.fail.Exception, match=told):
        check_text(path, found)


def test_an_expectation_that_is_missing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDPERF_BLESS", raising=False)
    with pytest.raises(pytest.fail.Exception, match="SCHEDPERF_BLESS=1 writes it"):
        check_text(tmp_path / "never-written.txt", "text")


def test_expectations_are_not_rewritten_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDPERF_BLESS", "1")
    monkeypatch.setenv("CI", "true")
    for check in (check_text, check_json):
        with pytest.raises(pytest.fail.Exception, match="must not be rewritten"):
            check(tmp_path / "new", "text")
    assert not list(tmp_path.iterdir())
