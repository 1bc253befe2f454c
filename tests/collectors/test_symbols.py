# SPDX-License-Identifier: GPL-2.0-or-later
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.contract import VDSO, Unavailable
from schedperf_collectors.plugin import AfterRun
from schedperf_collectors.symbols import files_hit, read_file, symbols, symbols_of

# What spends nearly all of its time in user space.
BUSY = "sh -c 'i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done'"


def split(content: bytes) -> tuple[dict[str, Any], list[list[str]]]:
    head, *lines = content.decode().splitlines()
    return json.loads(head), [line.split(" ", 2) for line in lines]


def library() -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libc.so.6" in line:
            return line.split()[-1]
    pytest.skip("this Python has no libc.so.6")


def test_a_file_is_stored_by_offset_size_and_name() -> None:
    path = library()
    found = read_file(path)
    assert found.build_id is not None

    facts, lines = split(symbols_of(found.build_id, path))

    assert facts == {
        "format": "schedperf-symbols/1",
        "build_id": found.build_id,
        "path": path,
        "table": found.table,
        "functions": len(lines),
        "reason": None,
    }
    assert [(int(at, 16), int(size, 16), name) for at, size, name in lines] == found.functions
    assert len(lines) > 1000


def test_the_vdso_is_read_from_memory() -> None:
    found = read_file(VDSO)
    assert any("clock_gettime" in one.name for one in found.functions)


def test_why_a_file_has_no_symbols_is_stored(tmp_path: Path) -> None:
    facts, lines = split(symbols_of("00" * 20, library()))
    assert facts["reason"].startswith("the file was replaced; its build id is now")
    assert (facts["functions"], facts["table"], lines) == (0, None, [])

    facts, _ = split(symbols_of("00" * 20, str(tmp_path / "gone")))
    assert facts["reason"] == "no such file or directory"

    build_id = read_file(library()).build_id or ""
    facts, _ = split(symbols_of(build_id, library(), 1000))
    assert facts["reason"].endswith(
        "bytes of symbols exceed the limit of 1000 bytes (limit per file, or the rest of "
        "the limit per run)"
    )


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "perf.data"
    command = f"perf record -q -N -e cpu-clock -F 999 -o {path} -- {BUSY}"
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    return path


@pytest.mark.usefixtures("needs_perf")
def test_files_that_were_hit_are_stored_unless_they_are_there(
    profile: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "stored"
    folder.mkdir()
    hit = files_hit("perf", profile)
    shell = str(Path(shutil.which("sh") or "/bin/sh").resolve())
    assert shell in hit.values()

    symbols(AfterRun(folder, 1, {}, (profile,), frozenset()))
    stored = {path.name for path in folder.iterdir()}
    assert stored == {f"{build_id}.sym" for build_id in hit}

    again = tmp_path / "again"
    again.mkdir()
    symbols(AfterRun(again, 1, {}, (profile,), frozenset(stored)))
    assert not list(again.iterdir())


@pytest.mark.usefixtures("needs_perf")
def test_a_profile_that_perf_cannot_read_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(b"no profile")
    capture = AfterRun(tmp_path, 1, {}, (tmp_path / "perf.data",), frozenset())
    with pytest.raises(Unavailable, match="^perf: exit status"):
        symbols(capture)


@pytest.mark.usefixtures("needs_perf")
def test_a_bundle_has_each_file_once_in_its_boot(
    recorder: Any, read_bundle: Callable[[Path], Any]
) -> None:
    options = ["--with", "perf_profile", "-n", "1", "--instrumented", "2", "--warmup", "0"]
    done = recorder("record", "-o", "b.tar", *options, "--", "sh", "-c", BUSY[7:-1])
    assert done.returncode == 0, done.stderr
    done = recorder("record", "--append", "b.tar", *options, "--", "sh", "-c", BUSY[7:-1])
    assert done.returncode == 0, done.stderr

    written = read_bundle(recorder.folder / "b.tar")

    stored = [name for name in written.members if name.startswith("boots/0/symbols/")]
    assert stored
    for name in stored:
        facts, lines = split(written.members[name])
        assert name == f"boots/0/symbols/{facts['build_id']}.sym"
        assert facts["functions"] == len(lines)
    entries = [one for one in written.manifest["captures"] if one["collector"] == "symbols"]
    assert sorted(one["path"] for one in entries) == sorted(stored)
    assert {one["status"] for one in entries} == {"ok"}


COLLECTORS = """
@collector(scope="run", intrusive=True, cost="nothing")
def added(capture):
    "Write a file."
    yield
    (capture.folder / "out").write_text("text")

@collector(scope="after", cost="nothing")
def broken(capture):
    "Fail."
    assert [path.name for path in capture.files] == ["out"]
    raise ValueError("no luck")

@collector(scope="after", cost="nothing")
def cannot(capture):
    "Say that it cannot."
    raise Skipped("there is none")

@collector(scope="after", cost="nothing")
def counts(capture):
    "Write one more file after each run."
    (capture.folder / str(len(capture.present))).write_text("")
"""


def test_what_is_made_after_a_run_fails_or_is_skipped_on_its_own(
    recorder_with: Callable[[str], Any], read_bundle: Callable[[Path], Any]
) -> None:
    recorder = recorder_with(COLLECTORS)
    options = ["-n", "1", "--instrumented", "2", "--warmup", "0"]
    done = recorder("record", "-o", "b.tar", *options, "--with", "added", "--", "true")
    assert done.returncode == 0, done.stderr

    written = read_bundle(recorder.folder / "b.tar")

    captures = written.manifest["captures"]
    by_name = {
        name: [(one["path"], one["status"], one["reason"]) for one in captures
               if one["collector"] == name]
        for name in ("broken", "cannot", "counts")
    }  # fmt: skip
    assert by_name["broken"] == [("boots/0/broken", "failed", "ValueError: no luck")] * 2
    assert by_name["cannot"] == [("boots/0/cannot", "skipped", "there is none")]
    assert by_name["counts"] == [
        ("boots/0/counts/0", "ok", None), ("boots/0/counts/1", "ok", None)
    ]  # fmt: skip
    assert done.stderr.count("cannot skipped: there is none") == 1
