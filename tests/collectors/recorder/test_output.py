# SPDX-License-Identifier: GPL-2.0-or-later
"""Long output of a workload: its beginning and its end are kept, in whole lines."""

from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.recorder.output import HEAD_BYTES, TAIL_BYTES, shorten


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
