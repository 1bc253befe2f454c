# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf show``: what is inside a bundle, and what is missing and why."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.commands._show_text import format_summary
from schedperf.commands._summary import summarise
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.errors import BundleError

MakeBundle = Callable[..., Path]
RunCli = Callable[..., subprocess.CompletedProcess[str]]
MakeMembers = Callable[..., dict[str, bytes]]
MakeTar = Callable[[Path, Iterable[tuple[str, bytes]]], Path]

HOSTILE = f"::a\x1b]0;title\x07b\u202ec ##\x07[add-mask]{' ::set-output x::' * 20}"


@pytest.fixture
def show(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> RunCli:
    """Run the command where the bundles are, so that the paths it prints are short."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(folder)
        return run_cli("show", *args)

    return run


def sweep(count: int) -> list[dict[str, object]]:
    """Return clean and instrumented runs of two points, and a failed one at the end."""
    runs: list[dict[str, object]] = [
        {
            "time_s": 0.5 + number / 100,
            "point": {"groups": ("1", "16")[number % 2]},
            "kind": "instrumented" if number % 4 > 1 else "clean",
            "files": {"schedstat/before": "version 17\n", "schedstat/after": "version 17\n"},
        }
        for number in range(count)
    ]
    return [*runs, {"exit_status": 1, "point": {"groups": "16"}}]


FAILED = {
    "collector": "layout",
    "path": "boots/0/layout",
    "status": "failed",
    "reason": "PermissionError: /proc/kallsyms",
}


def test_piped_output_has_78_columns_and_no_trailing_blanks(
    tmp_path: Path, make_bundle: MakeBundle, show: RunCli
) -> None:
    reason = "a reason that is much longer than a line may be " * 5
    make_bundle(
        tmp_path / "base.tar",
        runs=sweep(12),
        captures=[{**FAILED, "reason": reason}],
        workload="hackbench " + "-x" * 100 + " -g {groups}",
    )
    lines = show(tmp_path, "--runs", "base.tar").stdout.split("\n")
    assert max(map(len, lines)) <= 78
    assert [line for line in lines if line != line.rstrip()] == []
    assert reason.replace(" ", "") in "".join(lines).replace(" ", "")


@pytest.mark.parametrize(
    ("setup", "side", "treatment"),
    [
        ("renice -n 5 -p $$", "new", "the setup, sched.autogroup"),
        # Base of `ab` is what differs from the other setup.
        (None, "base", "the setup, sched.autogroup"),
        ("renice -n 5 -p $$", None, "the kernel, the setup, sched.autogroup"),
        (None, None, "the kernel, sched.autogroup"),
    ],
)
def test_the_treatment_of_ab_is_the_setup(
    tmp_path: Path,
    make_bundle: MakeBundle,
    setup: str | None,
    side: str | None,
    treatment: str,
) -> None:
    runs = [{"time_s": 0.5, "side": side}]
    path = tmp_path / "base.tar"
    make_bundle(path, runs=runs, setup=setup, treatment=["sched.autogroup"])
    summary = summarise(open_bundle(path), verify=False)
    assert f"\n  treatment  {treatment}\n" in format_summary(summary, list_runs=False)


def test_the_levels_of_a_side_are_named(tmp_path: Path, make_bundle: MakeBundle) -> None:
    runs = [{"time_s": 0.5, "factors": {"kernel": "new", "setting": "PLACE_LAG"}}]
    path = make_bundle(tmp_path / "base.tar", runs=runs)
    summary = summarise(open_bundle(path), verify=False)
    assert "\n  factors    kernel new, setting PLACE_LAG\n" in format_summary(
        summary, list_runs=False
    )


def test_discarded_runs_are_counted_where_there_are_some(
    tmp_path: Path, make_bundle: MakeBundle
) -> None:
    runs = [{"time_s": 0.5}, {"time_s": 0.5, "discarded": "scx_a was ejected"}]
    for path, made, end in (
        ("a.tar", runs, "failed  discarded  clean wall time"),
        ("b.tar", runs[:1], "failed  clean wall time"),
    ):
        summary = summarise(open_bundle(make_bundle(tmp_path / path, runs=made)), verify=False)
        (point,) = summary.points
        assert (point.clean, point.failed, point.discarded) == (1, 0, len(made) - 1)
        (heads,) = (
            line for line in format_summary(summary, list_runs=False).splitlines()
            if line.startswith("  point ")
        )  # fmt: skip
        assert " ".join(heads.split()).endswith(" ".join(end.split()))


def test_captured_text_cannot_drive_the_terminal(
    tmp_path: Path, make_bundle: MakeBundle, show: RunCli
) -> None:
    make_bundle(
        tmp_path / "base.tar",
        runs=[{"point": {HOSTILE: HOSTILE}, "exit_status": None, "failure": HOSTILE}],
        label=HOSTILE,
        workload="hackbench",
        setup=HOSTILE,
        treatment=[HOSTILE],
        host={"cpu": {"model": HOSTILE}, "system": {"hostname": "[red]host[/red]"}},
        captures=[{**FAILED, "collector": HOSTILE, "reason": HOSTILE}],
        manifest={"complete": False, "incomplete_reason": HOSTILE, "created": HOSTILE},
    )
    for arguments in (["--runs"], ["--json"]):
        done = show(tmp_path, *arguments, "base.tar")
        assert done.returncode == 0
        for character in "\x1b\x07\u202e":
            assert character not in done.stdout
        assert "set-output" in done.stdout
        if arguments == ["--runs"]:
            assert not re.search(r"^\s*::|##\w*\[", done.stdout, re.MULTILINE)
        assert "[red]host[/red]" in done.stdout


def test_cat_writes_the_bytes_of_a_member_as_they_are(
    tmp_path: Path, make_bundle: MakeBundle
) -> None:
    content = bytes(range(256))
    path = make_bundle(tmp_path / "base.tar", runs=[{"files": {"perf_profile/perf.data": content}}])
    member = "boots/0/runs/000/perf_profile/perf.data"
    done = subprocess.run(
        [sys.executable, "-m", "schedperf", "show", "--cat", member, path], capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, content, b"")


def test_cat_of_no_member_is_one_line(
    tmp_path: Path, make_bundle: MakeBundle, show: RunCli
) -> None:
    make_bundle(tmp_path / "base.tar")
    done = show(tmp_path, "--cat", "perf.data", "base.tar")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("schedperf: error: base.tar: no member perf.data;")


def test_a_truncated_bundle_shows_what_is_left_and_fails(
    tmp_path: Path, make_bundle: MakeBundle, show: RunCli
) -> None:
    path = make_bundle(tmp_path / "base.tar", runs=20)
    path.write_bytes(path.read_bytes()[:40_000])
    done = show(tmp_path, "base.tar")
    assert done.returncode == 2
    assert "incomplete" in done.stdout
    assert "runs: 10" in done.stdout
    assert "truncated at byte 40000" in " ".join(done.stdout.split())
    assert done.stderr.startswith("schedperf: error: base.tar: truncated at byte 40000, after")
    assert done.stderr.count("\n") == 1


def test_a_recording_that_still_runs_is_shown_without_an_error(
    tmp_path: Path, make_bundle: MakeBundle, show: RunCli
) -> None:
    path = make_bundle(tmp_path / "base.tar", runs=20)
    (tmp_path / "base.tar.partial").write_bytes(path.read_bytes()[:40_000])
    done = show(tmp_path, "base.tar.partial")
    assert (done.returncode, done.stderr) == (0, "")
    assert "runs: 10" in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--verify"]])
def test_only_verify_reads_every_member(
    arguments: list[str], tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar, show: RunCli
) -> None:
    members = make_members(files={"boots/0/layout/kallsyms": "original"})
    members["boots/0/layout/kallsyms"] = b"tampered"
    make_tar(tmp_path / "base.tar", members.items())
    done = show(tmp_path, *arguments, "base.tar")
    assert done.returncode == (2 if arguments else 0)
    assert ("kallsyms does not match its checksum" in done.stderr) == bool(arguments)


@pytest.mark.parametrize(
    ("lost", "edited", "message"),
    [
        (["stdout"], [], "000/stdout is in the manifest but not in the archive"),
        (
            ["stdout"],
            ["stderr"],
            "000/stdout is in the manifest but not in the archive (and 1 more problem)",
        ),
        (
            ["stderr", "stdout"],
            ["run.json"],
            "000/stderr is in the manifest but not in the archive (and 2 more problems)",
        ),
        # It is read to show the runs, and once more to verify it.
        ([], ["run.json"], "000/run.json does not match its checksum"),
    ],
)
def test_an_edited_bundle_is_refused_with_one_sentence(
    *,
    lost: list[str],
    edited: list[str],
    message: str,
    tmp_path: Path,
    make_members: MakeMembers,
    make_tar: MakeTar,
    show: RunCli,
) -> None:
    members = make_members()
    for name in lost:
        del members[f"boots/0/runs/000/{name}"]
    for name in edited:
        members[f"boots/0/runs/000/{name}"] += b" "
    make_tar(tmp_path / "base.tar", members.items())
    done = show(tmp_path, "--verify", "base.tar")
    assert done.stderr == f"schedperf: error: base.tar: boots/0/runs/{message}; copy it again\n"
    assert done.returncode == 2


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.property
@given(data=st.data())
def test_whatever_a_key_holds_it_is_shown_or_refused(
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    make_members: MakeMembers,
    make_tar: MakeTar,
) -> None:
    members = make_members(runs=1, manifest=None)
    name = data.draw(st.sampled_from(["boots/0/host.json", "boots/0/runs/000/run.json"]))
    values = json.loads(members[name])
    key = data.draw(st.sampled_from(sorted(values)))
    if isinstance(values[key], dict) and values[key]:
        values[key][data.draw(st.sampled_from(sorted(values[key])))] = data.draw(JSON_VALUES)
    else:
        values[key] = data.draw(JSON_VALUES)
    members[name] = json.dumps(values).encode()
    path = make_tar(tmp_path_factory.getbasetemp() / "shown.tar", members.items())
    try:
        bundle = open_bundle(path)
    except BundleError:
        return
    summary = summarise(bundle, verify=True)
    assert "runs: 1\n" in format_summary(summary, list_runs=True)
