"""What the commands print is what they printed before, and the cases reach all that can be printed.

``make bless`` rewrites the expectations from what is printed now; read the difference then.
"""

import functools
import io
import json
import shlex
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.commands._compare_request import CompareRequest
from tests.golden_cases import CASES, Case
from tests.golden_files import check_json, check_text, hide_version

GOLDEN = Path(__file__).parent / "data" / "golden"


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
        texts.append(hide_version(written.getvalue().decode()))
    return Printed(out=texts[0], err=texts[1], status=status)


@pytest.fixture
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a terminal and of the person before it nothing may be seen in what is printed.
    for name in ("SCHEDPERF_DEBUG", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.mark.golden
@pytest.mark.usefixtures("_plain_terminal")
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
            check_json(GOLDEN / case.name / name, json.loads(printed.out))
        elif printed.out:
            check_text(GOLDEN / case.name / name, printed.out)
    check_text(GOLDEN / case.name / "command", "".join(lines))
