# SPDX-License-Identifier: GPL-2.0-or-later
"""Long output of a workload: its beginning and its end are kept, in whole lines."""

from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.recorder import output
from schedperf_collectors.recorder.output import HEAD_BYTES, PART_BYTES, TAIL_BYTES, shorten


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"", b""),
        (b"123\n567\n901\n", b"123\n567\n901\n"),
        (b"123\n" * 100, b"123\n" * 3),
        (b"a\nbcdefghijklmnop\nq\n", b"a\nq\n"),
        # Not one end of line in either part.
        (b"0123456789abcdef", b"012389abcdef"),
    ],
    ids=("empty", "short", "lines", "long line", "one line"),
)
def test_the_middle_is_left_out_in_whole_lines(tmp_path: Path, text: bytes, kept: bytes) -> None:
    path = tmp_path / "stdout"
    path.write_bytes(text)
    left_out = shorten(path, head_bytes=4, tail_bytes=8)
    assert path.read_bytes() == kept
    assert left_out == len(text) - len(kept)


def shortened(path: Path, text: bytes, *rules: str) -> bytes:
    path.write_bytes(text)
    left_out = shorten(path, rules, head_bytes=100, tail_bytes=200)
    kept = path.read_bytes()
    assert left_out == len(text) - len(kept)
    return kept


NOISE = b"noise\n" * 100_000


def test_the_last_match_of_each_rule_is_kept(tmp_path: Path) -> None:
    rates = b"rate: 1\n" + NOISE + b"rate: 2\nlatency:\n  \xff 3 us\r\n" + NOISE
    text = NOISE + rates
    rules = (r"^latency:\n +\S+ (\d+) us", r"^rate: (\d+)$", r"absent: (\d+)")
    kept = shortened(tmp_path / "stdout", text, *rules)
    assert kept.replace(b"noise\n", b"") == b"rate: 2\nlatency:\n  \xff 3 us\r\n"
    assert kept.startswith(b"noise\n")
    assert kept.endswith(b"noise\n")
    assert len(kept) < 400
    assert b"rate" not in shortened(tmp_path / "stdout", text)
    # A match in the end is the result, whatever was printed before it.
    assert shortened(tmp_path / "stdout", text + b"rate: 4\n", rules[1]).count(b"rate") == 1


def test_long_lines_and_large_matches_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stdout"
    long = b"x" * (3 * PART_BYTES) + b" rate: 1\n"
    assert b"rate" not in shortened(path, NOISE + long + NOISE, r"rate: (\d+)")
    # A line before a long one is found.
    assert b"rate: 0\n" in shortened(path, NOISE + b"rate: 0\n" + long + NOISE, r"rate: (\d+)")
    monkeypatch.setattr(output, "MATCHES_BYTES", 8)
    text = NOISE + b"latency: 10\n" + b"rate: 0\n" + NOISE
    kept = shortened(path, text, r"latency: (\d+)", r"rate: (\d+)")
    assert kept.replace(b"noise\n", b"") == b"rate: 0\n"


def test_a_search_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SEARCH_S", -1.0)
    text = NOISE + b"rate: 0\n" + NOISE
    assert b"rate" not in shortened(tmp_path / "stdout", text, r"rate: (\d+)")


@pytest.mark.system
def test_a_result_in_the_middle_is_compared(recorder: Any) -> None:
    noise = "yes 'no result' | head -c 20000000; echo"
    for side in ("base", "new"):
        ended = recorder(
            "record", "-o", f"{side}.tar", "-n", "1", "--warmup", "0", "--with", "none",
            "--metric", "rate[1/s,higher]=^rate: ([0-9.]+)", "--",
            "sh", "-c", f"{noise}; echo rate: 5.5; {noise}",
        )  # fmt: skip
        assert ended.returncode == 0
    assert "the last 8 MiB and the last match of each --metric rule are kept" in ended.stderr
    run = open_bundle(recorder.folder / "new.tar").runs[0]
    found = compare_bundles([open_bundle(recorder.folder / f"{s}.tar") for s in ("base", "new")])
    assert [row.values_new[0].value for row in found.rows if row.metric == "rate"] == [5.5]
    omitted = [each.text for each in found.caveats if each.code == "output-left-out"]
    assert (
        f"{run.output_left_out['stdout']} bytes in the middle of the output of 1 run" in omitted[1]
    )


@pytest.mark.system
def test_a_run_says_how_much_it_left_out(recorder: Any, read_bundle: Any) -> None:
    script = "echo first; yes 'no result' | head -c 40000000; echo; echo last >&2; echo last"
    ended = recorder(
        "record", "-o", "b.tar", "-n", "1", "--warmup", "0", "--with", "none", "--",
        "sh", "-c", script,
    )  # fmt: skip
    assert ended.returncode == 0
    assert (
        "bytes of stdout are omitted and only the first 4 and the last 8 MiB are kept"
        in ended.stderr
    )
    written = read_bundle(recorder.folder / "b.tar")
    [run] = written.runs
    stdout = written.members["boots/0/runs/000/stdout"]
    assert stdout.startswith(b"first\nno result\n")
    assert stdout.endswith(b"\nlast\n")
    assert len(stdout) <= HEAD_BYTES + TAIL_BYTES
    assert run["output_left_out"] == {"stdout": len("first\n\nlast\n") + 40_000_000 - len(stdout)}
    assert set(stdout.split(b"\n")) <= {b"first", b"no result", b"no resul", b"no", b"", b"last"}
