# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.commands._rerun_commands: how a bundle was recorded, and the commands of that."""

import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._rerun_commands import (
    PROGRAM_FILE,
    Changes,
    Command,
    Recording,
    read_recording,
    record_boots,
    record_in_guests,
    record_in_turns,
    record_side,
    show_word,
)
from schedperf.compare.advice.recorded import LOCAL_FILE
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.errors import BundleError
from schedperf_collectors.recorder.options import make_parser

MakeBundle = Callable[..., Path]
Read = Callable[..., Recording]

SETUP = "echo 0 >/proc/sys/kernel/x && ./enter-cgroup 8 $$"
WORKLOAD = "hackbench -l 100 -g {groups}"


@pytest.fixture
def read(make_bundle: MakeBundle, tmp_path: Path) -> Read:
    """Read base.tar, made of the given facts; without a command, the recorder stored none."""

    def read(
        *runs: dict[str, Any],
        command: Sequence[str] = (),
        declared: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Recording:
        made = [{"time_s": 0.6, "point": {"groups": "4"}, **run} for run in runs or ({},) * 3]
        words = ["schedperf", *command, "--point=groups=4", "--", *WORKLOAD.split()]
        manifest = {"recordings": [{"command": words}]} if command else {}
        path = make_bundle(
            tmp_path / "base.tar", runs=made, workload=WORKLOAD,
            manifest={**manifest, **(declared or {})}, **facts,
        )  # fmt: skip
        return read_recording(open_bundle(path))

    return read


def again(recording: Recording, **changes: Any) -> str:
    """Return the options of the command that records the side again."""
    command = record_side(recording, recording.workloads[0], "new/base.tar", Changes(**changes))
    return " ".join(command.before)


def test_a_bundle_without_commands_is_repeated_by_what_its_runs_show(read: Read) -> None:
    rule = {"name": "t", "unit": "s", "better": "lower", "regex": "T: (.*)"}
    other = {"point": {"groups": "8"}}
    recording = read(
        {}, {}, {}, other, treatment=["sched.autogroup"], metric=[rule], label="tip", setup="echo 1"
    )
    assert recording.program == "ab"
    assert again(recording) == (
        "-o new/base.tar --label tip -n 3 --vary sched.autogroup --setup echo 1 "
        "--point groups=4,8 --metric t[s,lower]=T: (.*)"
    )


RECORDED = (
    *("record", "-o", "/home/me/base.tar", "--force", "-q", "-n", "99", "--label=x", "--seed", "1"),
    *("--with", "default,bpf_pelt", "--instrumented", "20", "--warmup", "0", "--shareable"),
    *("--set", "perf_profile.frequency=99", "--pelt-loader", "bcc", "--timeout", "90"),
    *("--source", "/etc/passwd", "--until-decided", "--against", "/home/me/old.tar"),
    *("--kernel-files", "/boot", "--teardown", "echo done"),
)
KEPT = (
    "--warmup 0 --set perf_profile.frequency=99 --pelt-loader bcc --timeout 90 --point groups=4 "
    "--shareable"
)


def test_options_of_the_recording_are_kept_and_those_of_files_left_out(read: Read) -> None:
    recording = read(command=RECORDED, setup="echo 1")
    assert again(recording) == (
        "-o new/base.tar -n 3 --setup echo 1 --teardown echo done --with default,bpf_pelt "
        f"--instrumented 20 {KEPT}"
    )


def test_a_change_takes_the_place_of_what_was_recorded(read: Read) -> None:
    recording = read(command=RECORDED)
    changed = again(
        recording, runs=10, collectors=("default", "bpf_placement"), rules=("t[s,lower]=(.)",)
    )
    assert changed == (
        "-o new/base.tar -n 10 --teardown echo done --with default,bpf_placement "
        f"--instrumented 10 {KEPT} --metric t[s,lower]=(.)"
    )


SERVED = ("--workload-pid", "77", "--workload-unit", "db", "--workload-cgroup", "/a")


def test_the_server_of_the_workload_is_given_again_but_not_in_guests(read: Read) -> None:
    recording = read(command=("record", "-o", "a.tar", *SERVED))
    assert again(recording) == f"-o new/base.tar -n 3 {' '.join(SERVED)} --point groups=4"
    kernels = {"base": "b.img", "new": "n.img"}
    guests = record_in_guests(recording, recording.workloads[0], kernels, Changes(), output=".")
    assert not [word for word in guests.before if word.startswith("--workload-")]


LEFT_OUT = ("record", "-o", "a.tar", "--with", "default,bpf_pelt", "--without", "account,energy")


@pytest.mark.parametrize(
    ("command", "changes", "words"),
    [
        (LEFT_OUT, {}, "--with default,bpf_pelt --without account,energy"),
        (LEFT_OUT, {"left_out": ("energy",)}, "--with default,bpf_pelt --without energy"),
        (LEFT_OUT, {"left_out": ("bpf_pelt",)}, "--with default --without bpf_pelt"),
        (
            LEFT_OUT,
            {"collectors": ("default", "account")},
            "--with default,account --without energy",
        ),
        (LEFT_OUT, {"collectors": ("account", "energy")}, "--with account,energy"),
        (
            LEFT_OUT,
            {"collectors": ("account",), "left_out": ("account",)},
            "--with account --without account",
        ),
        (("record", "-o", "a.tar"), {"left_out": ("account",)}, "--without account"),
        (
            ("record", "-o", "a.tar", "--with", "account"),
            {"left_out": ("account",)},
            "--with= --without account",
        ),
    ],
)
def test_a_collector_is_not_both_selected_and_left_out_unless_the_user_says_so(
    read: Read, command: Sequence[str], changes: Mapping[str, Any], words: str
) -> None:
    assert again(read(command=command), **changes) == (
        f"-o new/base.tar -n 3 {words} --point groups=4"
    )


def test_each_recording_is_one_command_and_further_boots_of_it_are_none(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    commands = [
        ["collect.pyz", "record", *target, "a.tar", *options, "--", *workload]
        for target, options, workload in (
            (("-o",), ("--warmup", "0"), ("true", "1")),
            (("-n", "9", "--append"), ("--warmup=0",), ("true", "1")),
            (("--append",), (), ("true", "1")),
            (("--append",), (), ("true", "a b")),
        )
    ]
    manifest = {"recordings": [{"command": command} for command in commands]}
    recording = read_recording(open_bundle(make_bundle(tmp_path / "base.tar", manifest=manifest)))
    given = [work.given for work in recording.workloads]
    assert [(each.name, each.last("warmup")) for each in given] == [
        ("true 1", "0"), ("true 1", None), ("true 'a b'", None),
    ]  # fmt: skip


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_commit_and_the_machine_are_stated_again(read: Read) -> None:
    declared = {"source": {"commit": COMMIT, "author": "J\u00fcrgen"}, "machine": "epyc-2s"}
    recording = read(
        command=["record", "-o", "a.tar", "--source", "c.json", "--machine", "epyc-2s"],
        declared=declared,
    )
    command = record_side(recording, recording.workloads[0], "new/base.tar", Changes())
    text = f'{{"commit": "{COMMIT}", "author": "J\\u00fcrgen"}}'
    assert command.before[:4] == ("-o", "new/base.tar", "--source", text)
    assert "--machine epyc-2s" in " ".join(command.before)
    options = make_parser("record", "schedperf").parse_args(list(command.before))
    assert options.source == declared["source"]
    # Runs that are added have the commit of the bundle.
    added = record_side(recording, recording.workloads[0], "base.tar", Changes(), append=True)
    assert "--source" not in added.before


@pytest.mark.parametrize(
    ("command", "facts", "problem"),
    [
        (("record", "-o", "a.tar", "--exec", "reboot"), {}, "unrecognized arguments: --exec"),
        (("record", "-o", "a.tar", "--help"), {}, "unrecognized arguments: --help"),
        (("record", "-o", "a.tar", "--append", "/etc/passwd"), {}, "not allowed with"),
        (("record", "-o", "a.tar", "--with-load", "echo {x}"), {}, "x} has no values"),
        (("record", "-o", "a.tar", "--timeout", "9\0"), {}, "NUL"),
        (("vm", "--cpus", "2", "--check"), {}, "unrecognized arguments: --check"),
        (("exec", "--nice", "1"), {}, "none of record, ab and vm with a workload"),
        ((), {"treatment": ["--output=/etc/passwd"]}, "invalid field"),
        ((), {"metric": [{"name": "a b", "unit": "s", "better": "lower", "regex": "("}]}, "metric"),
        ((), {"setup": "echo \0"}, "NUL"),
    ],
)
def test_what_the_recorder_does_not_take_is_refused(
    read: Read, command: Sequence[str], facts: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BundleError, match="rerun cannot repeat this recording") as error:
        read(command=command, **facts)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_values_that_begin_with_a_dash_are_no_options(read: Read) -> None:
    recording = read(setup="--force", label="-q")
    options = make_parser("record", "schedperf").parse_args(
        list(record_side(recording, recording.workloads[0], "x.tar", Changes()).before)
    )
    assert (options.setup, options.label, options.force) == ("--force", "-q", False)


def test_two_settings_are_interleaved_each_with_its_setup(read: Read) -> None:
    command = [*("ab", "-o", "a", "--base-setup", SETUP, "--new-setup", "./enter-cgroup 9 $$")]
    command += ["--new-teardown", "./leave", "--with", "none", "--warmup", "0"]
    base = read({"side": "base", "round": 0}, setup=SETUP, command=command)
    new = read(
        {"side": "new", "round": 0}, label="deep", setup="./enter-cgroup 9 $$", command=command
    )
    assert base.program == "ab"
    made = record_in_turns((base, new), base.workloads[0], ("a.tar", "b.tar"), Changes(runs=8))
    assert made.show() == (
        "schedperf ab --base a.tar --base-setup 'echo 0 >/proc/sys/kernel/x && "
        "./enter-cgroup 8 $$' --base-label base --new b.tar --new-setup './enter-cgroup 9 $$' "
        "--new-teardown ./leave --new-label deep -n 8 --with none --warmup 0 "
        "--point groups=4 -- hackbench -l 100 -g {groups}"
    )
    make_parser("ab", "schedperf").parse_args(list(made.before))


BOOTED = ["--kernel", "a=6.1.0-1-amd64", "--kernel", "b=6.1.0-2-amd64", "--boots", "2"]
TARGET = ["--boot", "grub-reboot", "--on", "ssh:root@lab", "--settle", "0"]


@pytest.mark.parametrize(
    ("more", "names", "shown"),
    [
        ([], ("a", "b"), ""),
        (["--feature", "LAG"], ("a-NO_LAG", "a-LAG", "b-NO_LAG", "b-LAG"), "--feature LAG "),
        (
            ["--setup", "off=", "--setup", "on=echo 1", "--teardown", "on=echo 2"],
            ("a-off", "a-on", "b-off", "b-on"),
            "--setup off= --setup 'on=echo 1' --teardown 'on=echo 2' ",
        ),
    ],
)
def test_boots_are_repeated_with_their_kernels_and_settings(
    read: Read, more: list[str], names: tuple[str, ...], shown: str
) -> None:
    command = ["ab", "-o", "x", *BOOTED, *TARGET, "-n", "3", "--with", "none", *more]
    recording = read(
        {"factors": {"kernel": "b", "setting": "on"}},
        command=command, declared={"source": {"commit": COMMIT}},
    )  # fmt: skip
    boots = recording.boots
    assert boots is not None
    assert (recording.program, boots.names, boots.target) == ("boots", names, "ssh:root@lab")
    assert recording.workloads[0].teardown == ("echo 2" if "--teardown" in more else "")
    made = record_boots([recording], boots, Changes(boots=4), output="new")
    assert made.show() == (
        "schedperf ab -o new/ --kernel a=6.1.0-1-amd64 --kernel b=6.1.0-2-amd64 "
        f"--boot grub-reboot --on ssh:root@lab --settle 0 -n 3 {shown}--boots 4 "
        f'--source \'b={{"commit": "{COMMIT}"}}\' --with none --point groups=4 '
        "-- hackbench -l 100 -g {groups}"
    )


@pytest.mark.parametrize(
    "options",
    [
        ["--kernel", "a=1"],
        [*BOOTED, *TARGET, "--resume"],
        [*BOOTED, *TARGET, "--exec", "x"],
        [*BOOTED, "--on", "ssh:-oProxyCommand=x"],
        [*BOOTED, *TARGET, "--setup", "on=true"],
        [*BOOTED, *TARGET, "--feature", "A;reboot"],
    ],
)
def test_boots_that_the_recorder_does_not_take_are_refused(read: Read, options: list[str]) -> None:
    with pytest.raises(BundleError, match="rerun cannot repeat this recording") as error:
        read(command=["ab", "-o", "x", *options])
    assert "\n" not in str(error.value)


def test_guests_are_like_the_recorded_ones(read: Read) -> None:
    kernels = {"base": "a/bzImage", "new": "b/bzImage"}
    images = "--kernel base=a/bzImage --kernel new=b/bzImage"
    command = ["vm", "--kernel", "x=c/bzImage", "--output", "x", "--add-boots", "--threads", "2"]
    command += ["--source", "x=/etc/passwd", "--kernel-files", "x=/boot", "--setup", "sysctl x=1"]
    kept = read(command=[*command, "--accel=tcg", "--with", "bpf_pelt"])
    made = record_in_guests(
        kept, kept.workloads[0], kernels, Changes(boots=4), output=".", append=True
    )
    assert " ".join(made.before) == (
        f"{images} --add-boots --threads 2 --setup sysctl x=1 --boots 4 -n 3 --with bpf_pelt "
        "--point groups=4"
    )
    assert kept.scripts == ("sysctl x=1",)
    other = read(command=["record", "-o", "x.tar", "--setup", "echo 1"], setup="echo 1")
    made = record_in_guests(other, other.workloads[0], kernels, Changes(), output="out")
    assert " ".join(made.before) == f"{images} --output out --boots 1 -n 3 --point groups=4"
    assert made.paths == ("out/base.tar", "out/new.tar")


@pytest.mark.parametrize(
    ("script", "files"),
    [
        (SETUP, ["./enter-cgroup"]),
        ("cd /tmp; (../a.sh) && './b'", ["../a.sh", "./b"]),
        ("/usr/bin/x --file=./c >./d|./e", ["./c", "./d", "./e"]),
        ("echo a/./b .. ./", []),
    ],
)
def test_files_of_the_folder_are_found_in_a_script(script: str, files: list[str]) -> None:
    assert LOCAL_FILE.findall(script) == files


def test_programs_with_a_path_are_found_where_a_command_begins() -> None:
    script = "/opt/set 1 >/tmp/log && exec /opt/b /etc/x; . /opt/env\n(/opt/c)"
    assert PROGRAM_FILE.findall(script) == ["/opt/set", "/opt/b", "/opt/env", "/opt/c"]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("{groups}", "{groups}"),
        ("a b", "'a b'"),
        ("$(reboot)", "'$(reboot)'"),
        ("a\x1b[2Jb", "$'a\\x1b[2Jb'"),
        ("a\u202egnp.exe", "$'a\\u202egnp.exe'"),
        ("it's\n\\", "$'it\\'s\\n\\\\'"),
        ("é\u3164\U000e0041", "$'\\u00e9\\u3164\\U000e0041'"),
        ("\r", "$'\\x0d'"),
        ("\udcff", "$'\\xff'"),
    ],
)
def test_every_character_of_a_word_is_shown(word: str, shown: str) -> None:
    assert show_word(word) == shown
    assert show_word(word).isascii()
    assert show_word(word).isprintable()


def test_a_shell_reads_a_shown_word_as_it_is() -> None:
    words = ["a\tb\n'\\ $x `y`", "\x1b[2J", "\u202e\U000e0041", "\udcff", "{groups}", "x" * 300]
    script = f"printf '%s\\0' {' '.join(map(show_word, words))}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode(errors="surrogateescape").split("\0")[:-1] == words


def test_a_command_is_shown_with_all_its_words() -> None:
    command = Command(name="record", before=("-o", "a b.tar"), workload=("x", "\x07"))
    assert command.show() == "schedperf record -o 'a b.tar' -- x $'\\x07'"
    assert shlex.split("schedperf record -o 'a b.tar'")[1:] == list(command.words[:3])
