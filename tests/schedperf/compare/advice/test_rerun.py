# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.advice.rerun: how a bundle was recorded, and the commands of that."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle.open import open_bundle
from schedperf.compare.advice.rerun import (
    LOCAL_FILE,
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
from schedperf.model.errors import BundleError
from schedperf_collectors.recorder.options import make_parser

MakeBundle = Callable[..., Path]
Read = Callable[..., Recording]

SETUP = "echo 0 >/proc/sys/kernel/x && ./enter-cgroup 8 $$"
GUEST = {
    "kernel": {"cmdline": "virtme_hostname=virtme-ng console=ttyS0 nokaslr mitigations=off ro"},
    "cpu": {"count_online": 8},
    "memory": {"total_bytes": 7_900_000_000},
    "topology": {"nodes": {"0": "0-3", "1": "4-7"}},
}
WORKLOAD = "hackbench -l 100 -g {groups}"


@pytest.fixture
def read(make_bundle: MakeBundle, tmp_path: Path) -> Read:
    """Read a bundle that is made of the given facts: base.tar, recorded by an older recorder."""

    def read(*runs: dict[str, Any], rerun: dict[str, Any] | None = None, **facts: Any) -> Recording:
        given = None if rerun is None else [{"workload": WORKLOAD, **rerun}]
        made = [{"time_s": 0.6, "point": {"groups": "4"}, **run} for run in runs or ({},) * 3]
        manifest = {} if given is None else {"manifest": {"rerun": given}}
        path = make_bundle(tmp_path / "base.tar", runs=made, workload=WORKLOAD, **manifest, **facts)
        return read_recording(open_bundle(path))

    return read


def again(recording: Recording, **changes: Any) -> str:
    """Return the options of the command that records the side again."""
    command = record_side(recording, recording.workloads[0], "new/base.tar", Changes(**changes))
    return " ".join(command.before)


def test_an_old_bundle_is_repeated_by_what_its_runs_show(read: Read) -> None:
    rule = {"name": "t", "unit": "s", "better": "lower", "regex": "T: (.*)"}
    warmup, other = {"warmup": True}, {"point": {"groups": "8"}}
    recording = read(
        warmup, warmup, {}, {}, {}, other, treatment=["sched.autogroup"], metric=[rule], label="tip"
    )
    assert recording.program == "record"
    assert again(recording) == (
        "-o new/base.tar --label tip -n 3 --vary sched.autogroup --with none --warmup 2 "
        "--point groups=4,8 --metric t[s,lower]=T: (.*)"
    )


@pytest.mark.parametrize(
    ("captured", "named"),
    [
        ((), ("none",)),
        (("energy",), ()),
        (("energy", "schedstat", "perf_profile"), ()),
        (("energy", "task_sched", "of_a_plugin"), ("default", "of_a_plugin", "task_sched")),
    ],
)
def test_collectors_that_record_adds_by_itself_are_not_named(
    read: Read, captured: tuple[str, ...], named: tuple[str, ...]
) -> None:
    files = {f"{name}/file": "1" for name in captured}
    assert read({"files": files}).collectors == named


def test_options_that_the_runs_do_not_show_are_kept_by_the_recorder(read: Read) -> None:
    options = [
        *("--with", "default,bpf_pelt", "--instrumented", "2", "--warmup", "0"),
        *("--set", "perf_profile.frequency=99", "--pelt-loader", "bcc", "--timeout", "90"),
        *("--teardown", "echo done"),
    ]
    recording = read(rerun={"program": "record", "options": options}, setup="echo 1")
    expected = "-o new/base.tar -n 3 --setup echo 1 --teardown echo done --with default,bpf_pelt "
    expected += "--instrumented 2 --warmup 0 --set perf_profile.frequency=99 --pelt-loader bcc "
    assert again(recording) == f"{expected}--timeout 90 --point groups=4"


def test_a_change_takes_the_place_of_what_was_recorded(read: Read) -> None:
    recording = read(rerun={"program": "record", "options": ["--warmup", "0"]})
    changed = again(
        recording, runs=10, collectors=("default", "bpf_pelt"), rules=("t[s,lower]=(.)",)
    )
    assert changed == (
        "-o new/base.tar -n 10 --with default,bpf_pelt --warmup 0 --point groups=4 "
        "--metric t[s,lower]=(.)"
    )


def test_options_of_files_in_a_bundle_are_left_out(read: Read) -> None:
    options = ["--force", "-q", "--append", "/etc/passwd", "--output=/etc/shadow"]
    with pytest.raises(BundleError, match="rerun cannot repeat this recording .*not allowed with"):
        read(rerun={"program": "record", "options": options})
    recording = read(
        rerun={"program": "record", "options": ["--force", "--label", "x", "-n", "99"]}
    )
    assert again(recording) == "-o new/base.tar -n 3 --point groups=4"


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_commit_and_the_machine_are_stated_again(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    declared = {"source": {"commit": COMMIT, "author": "J\u00fcrgen"}, "machine": "epyc-2s"}
    path = make_bundle(tmp_path / "base.tar", manifest=declared)
    recording = read_recording(open_bundle(path))
    command = record_side(recording, recording.workloads[0], "new/base.tar", Changes())
    text = f'{{"commit": "{COMMIT}", "author": "J\\u00fcrgen"}}'
    assert command.before[:4] == ("-o", "new/base.tar", "--source", text)
    assert "--machine epyc-2s" in " ".join(command.before)
    options = make_parser("record", "schedperf").parse_args(list(command.before))
    assert options.source == declared["source"]
    # Runs that are added have the commit of the bundle.
    added = record_side(recording, recording.workloads[0], "base.tar", Changes(), append=True)
    assert "--source" not in added.before


@pytest.mark.parametrize("words", [("--source", "/etc/passwd"), ("--source=x=/etc/passwd",)])
@pytest.mark.parametrize("program", ["record", "boots"])
def test_files_that_a_bundle_names_as_sources_are_not_read(
    read: Read, words: tuple[str, ...], program: str
) -> None:
    with pytest.raises(BundleError, match=r"--source '.*/etc/passwd': a file \(expected JSON\)"):
        read(rerun={"program": program, "options": list(words)})


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"rerun": {"program": "record", "options": ["--exec", "reboot"]}}, "unrecognized"),
        ({"treatment": ["--output=/etc/passwd"]}, "invalid field"),
        ({"metric": [{"name": "a b", "unit": "s", "better": "lower", "regex": "("}]}, "metric"),
        ({"setup": "echo \0"}, "NUL"),
    ],
)
def test_what_the_recorder_does_not_take_is_refused(
    read: Read, facts: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BundleError, match=problem):
        read(**facts)


def test_values_that_begin_with_a_dash_are_no_options(read: Read) -> None:
    recording = read(setup="--force", label="-q")
    options = make_parser("record", "schedperf").parse_args(
        list(record_side(recording, recording.workloads[0], "x.tar", Changes()).before)
    )
    assert (options.setup, options.label, options.force) == ("--force", "-q", False)


def test_two_settings_are_interleaved_each_with_its_setup(read: Read) -> None:
    base = read({"side": "base", "round": 0}, setup=SETUP)
    new = read({"side": "new", "round": 0}, label="deep", setup="./enter-cgroup 9 $$")
    assert base.program == "ab"
    command = record_in_turns((base, new), base.workloads[0], ("a.tar", "b.tar"), Changes(runs=8))
    assert command.show() == (
        "schedperf ab --base a.tar --base-setup 'echo 0 >/proc/sys/kernel/x && "
        "./enter-cgroup 8 $$' --base-label base --new b.tar --new-setup './enter-cgroup 9 $$' "
        "--new-label deep -n 8 --with none --warmup 0 --point groups=4 "
        "-- hackbench -l 100 -g {groups}"
    )
    make_parser("ab", "schedperf").parse_args(list(command.before))


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
    options = [*BOOTED, *TARGET, "-n", "3", "--with", "none", *more]
    recording = read(
        {"factors": {"kernel": "a", "setting": "on"}},
        rerun={"program": "boots", "options": options},
    )
    work = recording.workloads[0]
    booting = work.options.booting
    assert booting is not None
    assert (recording.program, booting.names, booting.target) == ("boots", names, "ssh:root@lab")
    command = record_boots(recording, work, booting, Changes(boots=4), output="new")
    assert command.show() == (
        "schedperf ab -o new/ --kernel a=6.1.0-1-amd64 --kernel b=6.1.0-2-amd64 "
        f"--on ssh:root@lab --boot grub-reboot --settle 0 {shown}--boots 4 -n 3 --with none "
        "--point groups=4 -- hackbench -l 100 -g {groups}"
    )


@pytest.mark.parametrize(
    "options",
    [
        [],
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
        read(rerun={"program": "boots", "options": options})
    assert "\n" not in str(error.value)


def test_guests_are_like_the_recorded_ones(read: Read) -> None:
    kernels = {"base": "a/bzImage", "new": "b/bzImage"}
    old = read(host=GUEST)
    command = record_in_guests(old, old.workloads[0], kernels, Changes(boots=4), output="out")
    assert " ".join(command.before) == (
        "--kernel base=a/bzImage --kernel new=b/bzImage --output out --cpus 8 --memory 8G "
        "--kernel-args nokaslr mitigations=off --boots 4 -n 3 --with none --warmup 0 "
        "--point groups=4"
    )
    assert command.paths == ("out/base.tar", "out/new.tar")
    options = ["--threads", "2", "--setup", "sysctl x=1", "--with", "bpf_pelt"]
    kept = read(host=GUEST, rerun={"program": "vm", "options": options})
    command = record_in_guests(kept, kept.workloads[0], kernels, Changes(), output=".", append=True)
    assert " ".join(command.before) == (
        "--kernel base=a/bzImage --kernel new=b/bzImage --add-boots --threads 2 "
        "--setup sysctl x=1 --boots 1 -n 3 --with bpf_pelt --point groups=4"
    )
    assert kept.scripts == ("sysctl x=1",)


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
