# SPDX-License-Identifier: GPL-2.0-or-later
"""``--source`` and ``--machine``: what a bundle declares about its kernel, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.elf_symbols import read_build_id
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.options import make_parser, without_added
from schedperf_collectors.recorder.source import (
    agree,
    agree_facts,
    check_build,
    format_source,
    named_sources,
    only_source,
    read_source,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WHOLE = {
    "commit": COMMIT,
    "committed": "2026-11-21T10:00:00+01:00",
    "tree": "https://git.example.org/linux.git",
    "ref": "sched/core",
    "subject": "sched/fair: Place tasks by their lag",
    "author": "Jürgen Author <author@example.org>",
    "committer": "A Committer <committer@example.org>",
    "describe": "v6.12-17-g0123456789ab",
    "dirty": True,
    "patches": ["0001-sched-fair-more.patch"],
    "links": ["https://lore.kernel.org/r/1@example.org"],
}
QUICK = ("-n", "1", "--with", "none", "-q")


def text_of(**changes: object) -> str:
    return json.dumps({"commit": COMMIT, **changes})


def test_a_file_and_its_json_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "source.json"
    path.write_text(json.dumps(WHOLE))
    assert dict(read_source(str(path))) == WHOLE
    assert dict(read_source(json.dumps(WHOLE))) == WHOLE
    assert dict(read_source(format_source(read_source(str(path))))) == WHOLE


def test_dates_of_git_become_iso_8601_and_null_is_left_out() -> None:
    source = read_source(text_of(committed="2026-11-21 10:00:00 +0100", ref=None, links=[]))
    assert source == {"commit": COMMIT, "committed": "2026-11-21T10:00:00+01:00"}


def test_a_vmlinux_is_stored_as_its_build_id(tmp_path: Path) -> None:
    program = Path("/bin/true")
    built = read_build_id(program)
    (tmp_path / "vmlinux").write_bytes(program.read_bytes())
    (tmp_path / "source.json").write_text(text_of(vmlinux="vmlinux"))
    # Its path is relative to the file.
    source = read_source(str(tmp_path / "source.json"))
    assert source == {"commit": COMMIT, "build_id": built}
    with pytest.raises(ValueError, match="build_id ffffffffffffffff differs from"):
        read_source(text_of(vmlinux=str(program), build_id="f" * 16))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "invalid JSON"),
        ('{"a":' * 100_000, "invalid JSON"),
        ("{}", "commit is missing"),
        ('{"comit": 1}', "unknown key 'comit' (expected one of commit"),
        (text_of(commit="v6.12"), "invalid commit 'v6.12' (expected 40 or 64 hexadecimal digits)"),
        (text_of(commit=12), "invalid commit '12'"),
        (text_of(subject="a\r\nBcc: x"), "invalid subject 'a\\r\\nBcc: x' (expected one line"),
        (text_of(subject="a\u202eb"), "invalid subject 'a\\u202eb'"),
        (text_of(subject="a\0b"), "invalid subject"),
        (text_of(subject=" "), "invalid subject"),
        (text_of(subject="x" * 501), "subject has 501 characters (expected at most 500)"),
        (text_of(author=["x"]), "invalid author"),
        (text_of(dirty="yes"), "invalid dirty (expected true or false)"),
        (text_of(links="x"), "invalid links (expected a list of at most 100 texts)"),
        (text_of(links=["x"] * 101), "invalid links"),
        (text_of(patches=["ok", "a\nb"]), "invalid patches[1]"),
        (text_of(committed="yesterday"), "invalid committed 'yesterday' (expected a date"),
        (text_of(committed="2026-13-21"), "invalid committed '2026-13-21' (expected a date"),
        (text_of(build_id="xyz"), "invalid build_id"),
        (text_of(vmlinux="/nonexistent"), "vmlinux /nonexistent: no such file"),
        (text_of(vmlinux="/dev/null"), "vmlinux /dev/null: not a regular file"),
        ("/nonexistent.json", "no such file or directory"),
        ("/dev/zero", "not a regular file"),
    ],
    ids=lambda text: str(text)[:40],
)
def test_what_is_invalid_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        read_source(text)
    said = str(refused.value)
    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize("content", [b"\xff", b"[1]", b'"x"', b"", b"{" + b" " * (1 << 20)])
def test_files_that_hold_something_else_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "source.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"source\.json: "):
        read_source(str(path))


def test_a_bundle_keeps_its_commit_and_its_machine() -> None:
    path = Path("a.tar")
    assert agree(path, "--machine", None, "x") == "x"
    assert agree(path, "--machine", "x", None) == "x"
    with pytest.raises(RecordError, match=r"a\.tar: recorded with another --machine \(x\); leave"):
        agree(path, "--machine", "x", "y")
    with pytest.raises(RecordError, match=rf"another --source \({COMMIT}\)"):
        agree(path, "--source", {"commit": COMMIT}, {"commit": COMMIT, "dirty": True})


def test_a_bundle_keeps_its_facts() -> None:
    path = Path("a.tar")
    assert agree_facts(path, None, {}) == {}
    assert agree_facts(path, {"rack": "b12"}, {"shelf": "1"}) == {"rack": "b12", "shelf": "1"}
    assert agree_facts(path, {"rack": "b12"}, {"rack": "b12"}) == {"rack": "b12"}
    with pytest.raises(RecordError, match=r"a\.tar: recorded with another --fact rack \(b12\)"):
        agree_facts(path, {"rack": "b12"}, {"rack": "c1"})


@pytest.mark.parametrize(
    "text", ["rack", "rack=", "=b12", "Rack=b12", "r-k=1", "1=1", "a=b\nc", "a=\x1b[1m", "é=1",
             "a" * 41 + "=1", "a=" + "b" * 201]
)  # fmt: skip
def test_what_is_no_fact_is_refused(text: str) -> None:
    parser = make_parser("record", "schedperf")
    with pytest.raises(RecordError, match="argument --fact: invalid fact ") as refused:
        parser.parse_args(["--fact", text])
    assert str(refused.value).isprintable()


def test_sources_of_kernels_have_their_names() -> None:
    source = {"commit": COMMIT}
    assert named_sources([("new", source)], ["base", "new"]) == {"new": source}
    assert only_source([("", source)]) == source
    assert only_source([]) is None
    for given, message in (
        ([("old", source)], r"--source: old: no --kernel of this name \(expected NAME=FILE, NAME"),
        ([("", source)], "--source: name missing"),
        ([("new", source), ("new", source)], "--source new: given twice"),
    ):
        with pytest.raises(RecordError, match=message):
            named_sources(given, ["base", "new"])
    with pytest.raises(RecordError, match="--source new=FILE: names are those of --kernel"):
        only_source([("new", source)])
    with pytest.raises(RecordError, match="--source: given twice"):
        only_source([("", source)] * 2)


def test_another_kernel_than_the_vmlinux_is_refused() -> None:
    check_build(None)
    check_build({"commit": COMMIT})
    with pytest.raises(RecordError, match=r"^--source: "):
        check_build({"commit": COMMIT, "build_id": "ff" * 20})


def test_options_that_programs_add_are_not_part_of_the_command() -> None:
    given = ["-o", "a.tar", "--events", "7", "-n", "2", "--turn", "3f,0,7", "--try", "x"]
    assert without_added(given) == ["-o", "a.tar", "-n", "2"]


@pytest.mark.system
def test_the_manifest_holds_commit_machine_and_commands(
    recorder: Any, read_bundle: Any, tmp_path: Path
) -> None:
    path = tmp_path / "source.json"
    path.write_text(json.dumps(WHOLE))
    declared = ("--source", str(path), "--machine", "epyc-2s")
    first = ("record", "-o", "a.tar", *QUICK, *declared, "--", "sh", "-c", "true")
    second = ("record", "--append", "a.tar", *QUICK, "--", "sh", "-c", "true")
    for words in (first, second):
        done = recorder(*words)
        assert done.returncode == 0, done.stderr
    manifest = read_bundle(recorder.folder / "a.tar").manifest
    assert manifest["source"] == WHOLE
    assert manifest["machine"] == "epyc-2s"
    commands = [recording["command"] for recording in manifest["recordings"]]
    assert commands == [["schedperf", *first], ["schedperf", *second]]
    names = [program["name"] for program in manifest["recordings"][0]["programs"]]
    assert names == ["sh", "true"]
    assert all(recording["minutes"] >= 0 for recording in manifest["recordings"])
    done = recorder("record", "--append", "a.tar", *QUICK, "--machine", "other", "--", "true")
    assert done.returncode == 2
    assert "recorded with another --machine (epyc-2s)" in done.stderr


@pytest.mark.system
def test_the_boots_of_one_command_are_one_recording(recorder: Any, read_bundle: Any) -> None:
    as_given = json.dumps(["schedperf", "ab", "--kernel", "base=6.1"])
    for number, target in enumerate(("-o", "--append")):
        done = recorder("record", target, "a.tar", *QUICK, "--turn", f"3f,{number},0",
                        "--recorded-as", as_given, "--", "true")  # fmt: skip
        assert done.returncode == 0, done.stderr
    (recording,) = read_bundle(recorder.folder / "a.tar").manifest["recordings"]
    assert recording["command"] == json.loads(as_given)
    assert recording["minutes"] >= 0


@pytest.mark.system
def test_all_sides_of_ab_have_the_commit_of_the_kernel(recorder: Any, read_bundle: Any) -> None:
    done = recorder("ab", "-o", "x", *QUICK, "--source", text_of(), "--", "true")
    assert done.returncode == 0, done.stderr
    for side in ("base", "new"):
        assert read_bundle(recorder.folder / f"x-{side}.tar").manifest["source"] == {
            "commit": COMMIT
        }


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--source", text_of(build_id="ff" * 20)), "--source: "),
        (("--source", text_of(subject="a\nb")), "invalid subject"),
        (("--machine", "a b"), "invalid name 'a b' (expected at most 64 letters"),
    ],
)
def test_nothing_is_recorded_for_another_kernel(
    recorder: Any, options: tuple[str, ...], message: str
) -> None:
    done = recorder("record", "-o", "a.tar", *QUICK, *options, "--", "true")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(recorder.folder.glob("a.tar*"))


def test_names_of_a_commit_may_change_between_recordings() -> None:
    first = {"commit": COMMIT, "describe": "v6.12-1-g0", "ref": "tip"}
    assert agree(Path("a.tar"), "--source", first, {"commit": COMMIT, "patches": []}) == first
