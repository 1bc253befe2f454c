# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf rerun``: what it prints, what it refuses, and that it runs nothing unasked."""

import io
import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.commands._rerun_commands import Recording
from schedperf.commands._rerun_length import lengthen
from schedperf.commands._rerun_plan import _file_names, describe_this_machine
from schedperf.inputs.bundle.open import open_bundle
from schedperf_collectors.recorder.jobs import read_jobs

MakeBundle = Callable[..., Path]
Facts = Mapping[str, Any]

QUICK = "sh -c 'touch ran; sleep 0.02'"
OTHER = {"kernel": {"release": "6.99-other", "version": "#1", "build_id": "ffff00"}}
OTHER_TEXT = "boot 6.99-other (build id ffff00)"


@pytest.fixture(scope="module")
def here() -> Mapping[str, Any]:
    return describe_this_machine()


@pytest.fixture
def bundles(
    make_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Write base.tar, new.tar, … into the current directory, each of the given facts."""
    monkeypatch.chdir(tmp_path)
    # No terminal: the answer must not be read from a pipe.
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))

    def bundles(*sides: Facts) -> None:
        for name, side in zip(("base", "new", "new2"), sides, strict=False):
            runs = [{"time_s": 0.6, "warmup": number == 0} for number in range(4)]
            facts = {"runs": runs, "workload": QUICK, "label": name, "program": "record", **side}
            words = [
                facts.pop("program"),
                "-o",
                "a.tar",
                "--with",
                "none",
                *facts.pop("options", ()),
            ]
            command = ["schedperf", *words, "--", *shlex.split(facts["workload"])]
            declared = {"recordings": [{"command": command}], **facts.pop("manifest", {})}
            make_bundle(tmp_path / f"{name}.tar", **facts, manifest=declared)

    return bundles


def rerun(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["rerun", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def names_in(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def in_turns(side: str, setup: str, here: Facts) -> Facts:
    runs = [{"time_s": 0.6, "round": number, "side": side} for number in range(3)]
    return {"runs": runs, "setup": setup, "host": here, "program": "ab"}


def test_print_prints_commands_that_a_shell_takes_and_runs_nothing(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles({"host": here}, {"host": {**here, **OTHER}})
    status, out, err = rerun(capsys, "base.tar", "new.tar", "--print", "-n", "2")
    assert status == 0
    assert out.splitlines() == [
        f"schedperf record -o rerun/base.tar -n 2 --with none -- {QUICK}",
        f"schedperf record -o rerun/new.tar -n 2 --with none -- {QUICK}",
    ]
    assert OTHER_TEXT in err
    assert names_in(".") == ["base.tar", "new.tar"]


def test_without_a_terminal_and_without_yes_nothing_is_run(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles({"host": here}, {"host": here})
    status, out, err = rerun(capsys, "base.tar", "new.tar")
    assert (status, out) == (2, "")
    assert f"  schedperf record -o rerun/base.tar -n 3 --with none -- {QUICK}\n" in err
    assert err.splitlines()[-1] == (
        "schedperf: error: no terminal to ask whether to run these 2 commands; check the printed "
        "commands, then add --yes"
    )
    assert names_in(".") == ["base.tar", "new.tar"]


@pytest.mark.system
@pytest.mark.parametrize(("answer", "is_run"), [("n", False), ("", False), ("y", True)])
def test_the_answer_of_a_terminal_decides(
    bundles: Callable[..., None], here: Facts, answer: str, *, is_run: bool
) -> None:
    bundles({"host": here})
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "schedperf", "rerun", "base.tar", "-n", "1"]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == (0 if is_run else 2), done.stderr
    assert "Run this command? [y/N]" in done.stderr
    assert Path("ran").exists() == Path("rerun/base.tar").exists() == is_run
    assert is_run or "nothing was run" in done.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_whole_command_is_the_last_line_before_the_question(
    make_bundle: MakeBundle, tmp_path: Path, here: Facts, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A note with the name of the file must not cover the command, nor look like another one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    name = "a\x1b[1A\x1b[2K\r\u202e\n  schedperf record -o rerun|a.tar -- true.tar"
    long = " ".join(["word"] * 5000)
    host = {**here, "cpu": {**here["cpu"], "model": "Other CPU"}}
    make_bundle(tmp_path / name, runs=[{"time_s": 0.6}], workload=f"touch ran {long}", host=host)
    status, out, err = rerun(capsys, name)
    assert status == 2
    before, question, _ = err.partition("Run this command? [y/N]")
    *notes, command = before.splitlines()
    assert question
    assert command.startswith(
        "  schedperf record -o $'rerun/a\\x1b[1A\\x1b[2K\\x0d\\u202e\\n  sched"
    )
    assert command.endswith(f"-- touch ran {long}")
    assert len(notes) == 1
    assert "recorded on a machine with different cpu.model" in notes[0]
    assert all(line.isprintable() for line in (out + err).splitlines())
    assert not Path("ran").exists()


@pytest.mark.system
def test_a_side_is_recorded_as_it_was_and_nothing_executable_is_kept(
    bundles: Callable[..., None], here: Facts, capfd: pytest.CaptureFixture[str]
) -> None:
    setups = ("export DEPTH=1", "export DEPTH=8\nulimit -n 64")
    sides = zip(("base", "new"), setups, strict=True)
    workload = "sh -c 'echo depth=$DEPTH groups={groups}'"
    bundles(*(
        {**in_turns(side, setup, here), "workload": workload,
         "runs": [{"point": {"groups": group}, "round": number, "side": side, "warmup": number == 0}
                  for group in ("1", "4") for number in range(3)],
         "metric": [{"name": "d", "unit": "count", "better": "lower", "regex": "depth=(.*) "}],
         "options": ["--metric", "d[count,lower]=depth=(.*) ", "--point", "groups=1,4"]}
        for side, setup in sides
    ))  # fmt: skip
    status, out, err = rerun(capfd, "base.tar", "new.tar", "--yes", "-o", "out")
    assert status == 0, err
    assert "--new-setup $'export DEPTH=8\\nulimit -n 64'" in err
    assert out == "schedperf compare out/base.tar out/new.tar\n"
    for side, depth, setup in zip(("base", "new"), (1, 8), setups, strict=True):
        made = open_bundle(Path(f"out/{side}.tar"))
        assert (made.setup, made.label) == (setup, side)
        assert made.metric_rules == open_bundle(Path(f"{side}.tar")).metric_rules
        clean = [run for run in made.runs if not run.warmup]
        printed = [made.read_text(f"{run.folder}/stdout") for run in clean]
        expected = [f"depth={depth} groups={run.point['groups']}\n" for run in clean]
        assert printed == expected
        assert [run.point["groups"] for run in clean].count("4") == 2
    assert not [path for path in Path().rglob("*") if path.is_file() and os.access(path, os.X_OK)
                and path.stat().st_mode & 0o111]  # fmt: skip
    # The new bundles are repeated in the same way, into the next free directory.
    _, again, _ = rerun(capfd, "out/base.tar", "out/new.tar", "--print")
    _, before, _ = rerun(capfd, "base.tar", "new.tar", "--print")
    assert again == before


def test_what_a_terminal_does_not_show_is_escaped(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = "\x1b[2J\u202e\u200b"
    bundles({"host": here, "workload": shlex.join(["true", hidden, "##[add-mask]x"])})
    for options in (["--print"], []):
        _, out, err = rerun(capsys, "base.tar", *options)
        escaped = r"-- true $'\x1b[2J\u202e\u200b' $'\x23\x23[add-mask]x'"
        assert escaped in out + err
        assert not set(hidden) - set("[2J") & set(out + err)


@pytest.mark.system
def test_of_two_kernels_the_one_that_is_booted_is_recorded(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles({"host": here}, {"host": {**here, **OTHER}})
    status, out, err = rerun(capsys, "base.tar", "new.tar", "-n", "1", "--yes")
    assert status == 0, err
    assert out == f"{OTHER_TEXT}, then repeat this command\n"
    assert names_in("rerun") == ["base.tar"]
    status, out, err = rerun(capsys, "base.tar", "new.tar", "-n", "1", "--yes")
    assert status == 2
    assert err == (
        f"schedperf: error: rerun/base.tar: already recorded; {OTHER_TEXT}, then repeat this "
        "command\n"
    )
    # The machine was booted with the kernel of new, whose bundle comes into the same directory.
    bundles({"host": {**here, **OTHER}}, {"host": here})
    status, out, err = rerun(capsys, "base.tar", "new.tar", "-n", "1", "--yes")
    assert (status, out) == (0, "schedperf compare rerun/base.tar rerun/new.tar\n"), err


def test_a_kernel_that_is_not_booted_is_named(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    third = {"kernel": {**OTHER["kernel"], "build_id": "eeee00"}}
    bundles({"host": {**here, **OTHER}}, {"host": {**here, **third}})
    status, _, err = rerun(capsys, "base.tar", "new.tar", "--yes")
    assert status == 2
    assert err == (
        f"schedperf: error: {OTHER_TEXT} for base, or boot 6.99-other (build id eeee00) for new, "
        "then repeat this command\n"
    )


def test_a_setting_that_no_setup_sets_is_named(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: list[Facts] = [
        {"host": {**here, "sched": {**here["sched"], "hz": hz}}, "treatment": ["sched.hz"]}
        for hz in (11, 12)
    ]
    bundles(*settings)
    status, _, err = rerun(capsys, "base.tar", "new.tar", "--yes")
    assert status == 2
    assert "set sched.hz to 11 for base, or set sched.hz to 12 for new, then repeat" in err


@pytest.mark.system
def test_append_adds_runs_of_the_same_workload(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles({"host": here, "setup": "export X=1"}, {"host": here, "setup": "export X=2"})
    status, out, err = rerun(capsys, "base.tar", "new.tar", "--append", "-n", "2", "--yes")
    assert status == 0, err
    assert out == "schedperf compare base.tar new.tar\n"
    for name, number in (("base", 1), ("new", 2)):
        made = open_bundle(Path(f"{name}.tar"))
        added = [run for run in made.runs if not run.warmup][3:]
        assert len(added) == 2
        assert made.workload == (QUICK,)
        record = json.loads(made.read_text(f"{added[0].folder}/run.json"))
        assert record["setup"] == f"export X={number}"
    assert not Path("rerun").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--with", "default,bpf_pelt"],
        ["--without", "account"],
        ["--metric", "t[s,lower]=(.)"],
        ["-o", "x"],
    ],
)
def test_new_collectors_and_metrics_need_new_bundles(
    bundles: Callable[..., None], here: Facts, options: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    bundles({"host": here})
    status, _, err = rerun(capsys, "base.tar", "--append", *options)
    assert status == 2
    assert err.startswith(f"schedperf: error: {options[0]}: cannot be combined with --append")


def test_append_is_refused_on_another_machine_or_kernel(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles({"host": {**here, "cpu": {**here["cpu"], "model": "Other CPU"}}})
    status, _, err = rerun(capsys, "base.tar", "--append", "--yes")
    assert status == 2
    assert "base.tar: recorded on a machine with different cpu.model; leave out --append" in err
    bundles({"host": {**here, **OTHER}})
    status, _, err = rerun(capsys, "base.tar", "--append", "--yes")
    assert (status, err) == (2, f"schedperf: error: {OTHER_TEXT}, then repeat this command\n")


def test_scripts_and_programs_that_are_missing_are_named(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    setups = ("./enter-cgroup 0 $$", "./enter-cgroup 8 $$ && /opt/none/x")
    bundles(*({**in_turns(side, setup, here), "workload": "no-such-benchmark -l 1"}
              for side, setup in zip(("base", "new"), setups, strict=True)))  # fmt: skip
    status, _, err = rerun(capsys, "base.tar", "new.tar", "--yes")
    assert status == 2
    assert err.splitlines()[-1] == (
        "schedperf: error: ./enter-cgroup: no such file (needed by base and new); copy it from the "
        "original machine to the current directory; /opt/none/x: no such file (needed by "
        "new); copy it from the original machine to the same path; no-such-benchmark: no "
        "such program; install it or add it to PATH"
    )
    Path("enter-cgroup").touch()
    assert "enter-cgroup: no such" not in rerun(capsys, "base.tar", "new.tar", "--yes")[2]


@pytest.mark.system
def test_runs_that_are_too_short_are_reported(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    benchmark = tmp_path / "bin" / "hackbench"
    benchmark.parent.mkdir()
    benchmark.write_text("#!/bin/sh\nsleep 0.05\necho Time: 0.05\n")
    benchmark.chmod(0o755)
    monkeypatch.setenv("PATH", f"{benchmark.parent}:{os.environ['PATH']}")
    emulated = {**here["virtualisation"], "emulated": True}
    bundles({"host": {**here, "virtualisation": emulated}, "workload": "hackbench -l 50 -g 1"})
    status, _, err = rerun(capsys, "base.tar", "-n", "1", "--yes")
    assert status == 0, err
    assert "recorded under emulation, so runs may be too short on this machine" in err
    last = err.splitlines()[-1]
    assert "a run of `hackbench -l 50 -g 1` takes 0." in last
    assert "(expected at least 1 s); record runs of 5 s with: schedperf record -o " in last
    words = shlex.split(last.partition("runs of 5 s with: ")[2])
    assert words[:4] == ["schedperf", "record", "-o", "rerun/base-long.tar"]
    assert int(words[words.index("-l") + 1]) > 50
    assert [run.workload for run in open_bundle(Path("rerun/base.tar")).runs] == [
        "hackbench -l 50 -g 1"
    ] * 2


@pytest.mark.parametrize(
    ("workload", "longer"),
    [
        ("hackbench -p -l 50 -g 2", "hackbench -p -l 500 -g 2"),
        ("/usr/bin/hackbench --loops=33", "/usr/bin/hackbench --loops=330"),
        ("hackbench -g 2", "hackbench -l 1000 -g 2"),
        ("perf bench sched pipe -l 5000", "perf bench sched pipe -l 50000"),
        ("perf bench sched pipe", "perf bench sched pipe -l 10000000"),
        ("hackbench -l {loops}", None),
        ("stress-ng --cpu 1", None),
    ],
)
def test_loops_of_a_longer_run(workload: str, longer: str | None) -> None:
    words = lengthen(workload.split(), 10)
    assert words == (None if longer is None else tuple(longer.split()))


def test_guests_need_the_images_of_their_kernels(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["vm", "--kernel", "a=b", "--kernel-args=nokaslr", "--", *shlex.split(QUICK)]
    facts = {"host": here, "manifest": {"recordings": [{"command": ["schedperf", *words]}]}}
    bundles(facts, facts)
    status, _, err = rerun(capsys, "base.tar", "new.tar")
    assert status == 2
    assert err == (
        "schedperf: error: the kernel image of base is not in the bundle; add --kernel base=IMAGE "
        "--kernel new=IMAGE\n"
    )
    images = ["--kernel", "base=a/bzImage", "--kernel", "new=b/bzImage"]
    status, out, err = rerun(capsys, "base.tar", "new.tar", *images, "--print", "--boots", "4")
    assert status == 0
    assert out.startswith("schedperf vm --kernel base=a/bzImage --kernel new=b/bzImage --output ")
    assert " --kernel-args nokaslr --boots 4 -n 3 " in out
    assert "a/bzImage: no such file (expected the kernel image of base); build or copy it" in err


def test_a_kernel_that_was_booted_alone_is_booted_again(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["schedperf", "ab", "-o", "/home/me/", "--append", "--kernel", "base=6.1.0-1-amd64"]
    command += ["--on", "ssh:root@lab", "--", "no-such-program"]
    bundles(
        {
            "host": here,
            "workload": "no-such-program",
            "manifest": {"recordings": [{"command": command}]},
        },
        {},
    )
    status, out, _ = rerun(capsys, "base.tar", "--print")
    assert status == 0
    assert out == (
        "schedperf ab -o rerun/ --append --kernel base=6.1.0-1-amd64 --on ssh:root@lab -- "
        "no-such-program\n"
    )


def booted(tmp_path: Path, *options: str) -> Facts:
    words = [
        *("--kernel", "base=6.1.0-1-amd64", "--kernel", "new=6.1.0-2-amd64"),
        *("--boots", "4", "--power", str(tmp_path / "power"), "--warmup", "0", *options),
    ]
    command = ["schedperf", "ab", "-o", "/home/me/", *words, "--", "no-such-program"]
    return {"workload": "no-such-program", "manifest": {"recordings": [{"command": command}]}}


def test_kernels_that_were_booted_are_booted_again(
    bundles: Callable[..., None], tmp_path: Path, here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = booted(tmp_path, "--on", "ssh:root@lab")
    bundles({"host": here, **facts}, {"host": {**here, **OTHER}, **facts})
    status, out, err = rerun(capsys, "base.tar", "new.tar", "--print")
    command = (
        "schedperf ab -o rerun/ --kernel base=6.1.0-1-amd64 --kernel new=6.1.0-2-amd64 "
        f"--boots 4 --power {tmp_path}/power --on ssh:root@lab --warmup 0 -- no-such-program"
    )
    assert (status, out) == (0, f"{command}\n")
    assert err == (
        "schedperf: the command reboots root@lab\n"
        f"schedperf: {tmp_path}/power: no such file (called for the boots); copy it there\n"
    )
    # One of them stands for all, because all are recorded in the same boots.
    assert rerun(capsys, "new.tar", "--print")[1] == out
    status, _, err = rerun(capsys, "base.tar", "new.tar", "--append", "--print")
    assert status == 2
    assert "--append: boots of `ab --kernel` are added by `schedperf ab --append`" in err
    bundles({"host": here, **facts}, {"host": here, **booted(tmp_path, "--resume")})
    status, _, err = rerun(capsys, "base.tar", "new.tar", "--print")
    assert status == 2
    assert "recorded by another `ab --kernel` command than the other bundles" in err


def test_jobs_are_recorded_again_in_the_boots_of_one(
    bundles: Callable[..., None], tmp_path: Path, here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = booted(tmp_path, "--on", "ssh:root@lab", "--fact", "rack=1", "--timeout", "9")
    (first,) = facts["manifest"]["recordings"]
    begin = first["command"][: first["command"].index("--")]
    points = ["--point=g=1,2", "--runs=3", "--warmup=1", "--with=none", "--without=account"]
    rule = "--metric=rate[1/s,higher]=rate: (.*)"
    recordings = [
        first,
        {"command": [*begin, *points, "--", "./bench", "-g", "{g}"]},
        {"command": [*begin, "--instrumented=0", rule, "--", "my bench"]},
        # Other boots of the first two, and other options.
        {"command": [*begin, "--append", "--", "no-such-program"]},
        {"command": [*begin, "--timeout", "8", "--", "other"]},
    ]
    facts["manifest"]["recordings"] = recordings
    bundles({"host": here, **facts}, {"host": {**here, **OTHER}, **facts})
    status, out, err = rerun(capsys, "base.tar", "new.tar", "--print", "-n", "7")
    assert status == 0
    assert "other: not recorded again, because another command added it" in err
    words = shlex.split(out)
    assert words[:3] == ["schedperf", "ab", "-o"]
    assert words[-4:-1] == ["--timeout", "9", "--jobs"]
    assert "--" not in words
    tree, jobs = read_jobs(words[-1])
    assert [job.name for job in jobs] == ["no-such-program-1", "bench-2", "job-3"]
    assert tree["job"][1] == {
        "name": "bench-2", "run": ["./bench", "-g", "{g}"], "points": {"g": ["1", "2"]}, "runs": 7,
        "warmup": 1, "with": ["none"], "without": ["account"],
    }  # fmt: skip
    assert tree["job"][2] == {
        "name": "job-3", "run": ["my bench"], "runs": 7, "warmup": 0, "instrumented": 0,
        "metric": ["rate[1/s,higher]=rate: (.*)"],
    }  # fmt: skip


def test_a_machine_that_boots_itself_needs_the_workload(
    bundles: Callable[..., None], tmp_path: Path, here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "power").touch()
    bundles({"host": here, **booted(tmp_path, "--resume")})
    status, _, err = rerun(capsys, "base.tar", "--yes")
    assert status == 2
    assert "the command reboots this machine" in err
    assert err.splitlines()[-1] == (
        "schedperf: error: no-such-program: no such program; install it or add it to PATH"
    )


def test_the_same_bundle_twice_gives_two_files(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles(in_turns("base", "export X=1", here))
    _, out, _ = rerun(capsys, "base.tar", "base.tar", "--print")
    assert "--base rerun/base.tar --base-setup 'export X=1' --new rerun/base-2.tar " in out


def test_a_directory_with_bundles_is_not_used_again(
    bundles: Callable[..., None], here: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles({"host": here}, {"host": here})
    Path("rerun").mkdir()
    Path("rerun/base.tar").touch()
    _, out, _ = rerun(capsys, "base.tar", "new.tar", "--print")
    assert "-o rerun-2/base.tar" in out
    status, _, err = rerun(capsys, "base.tar", "new.tar", "--print", "-o", "rerun")
    assert (status, err) == (
        2, "schedperf: error: rerun/base.tar already exists; give another directory with -o\n",
    )  # fmt: skip


def test_the_commit_is_stated_again_for_the_same_kernel_only(
    bundles: Callable[..., None], capsys: pytest.CaptureFixture[str], here: Mapping[str, Any]
) -> None:
    source = {"source": {"commit": "0123456789abcdef0123456789abcdef01234567"}}
    bundles({"host": here, "manifest": source}, {"host": OTHER, "manifest": source})
    _, same, _ = rerun(capsys, "base.tar", "--print")
    assert '--source \'{"commit": "0123456789abcdef' in same
    _, other, _ = rerun(capsys, "new.tar", "--print")
    assert "--source" not in other


def test_bundles_of_one_name_get_different_ones() -> None:
    recordings = [
        Recording(
            program="record", workloads=(), setup="", service="", vary=(), label="", side=None,
            kernel="", path=path,
        )
        for path in ("a/x.tar", "b/x.tar.xz", "c/x.tar", "x-2.tar")
    ]  # fmt: skip
    names = _file_names(recordings, are_interleaved=False)
    assert names == ["x.tar", "x-2.tar", "x-3.tar", "x-2-2.tar"]
