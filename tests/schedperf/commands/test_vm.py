# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf vm``: what it refuses before anything is booted. Real guests: tests/end_to_end."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.inputs.bundle.open import open_bundle
from tests.programs import Program, default_hangup, lives

pytestmark = pytest.mark.system

REAL_PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def header(release: str) -> bytes:
    """Return the first bytes of a kernel image."""
    image = bytearray(4096)
    image[0x1FE:0x200], image[0x202:0x206] = b"\x55\xaa", b"HdrS"
    image[0x20E:0x210] = (0x600).to_bytes(2, "little")
    image[0x800 : 0x801 + len(release)] = release.encode() + b" "
    return bytes(image)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a directory with two kernels and programs that stand in for QEMU and virtme-ng."""
    for name in ("tip", "new"):
        (tmp_path / name).write_bytes(header(f"6.1.0-{name}"))
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "bin/qemu-system-x86_64", "exit 1")
    write_program(tmp_path / "bin/vng", "exit 1")
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def start(place: Path, *arguments: str, path: str | None = None) -> Program:
    command = [sys.executable, "-m", "schedperf", "vm", *arguments]
    return Program(
        command,
        cwd=place,
        env={**os.environ, "PATH": path or f"{place}/bin:{REAL_PATH}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_hangup,
    )


def run(place: Path, *arguments: str, path: str | None = None) -> tuple[int, str, str]:
    with start(place, *arguments, path=path) as process:
        out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err


TWO = ("--kernel", "tip=tip", "--kernel", "new=new")
WORK = ("--", "true")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (*WORK,),
            (
                "--kernel: 0 kernel(s) given (expected at least two, e.g. --kernel base=IMAGE "
                "--kernel new=IMAGE"
            ),
        ),
        (
            ("--kernel", "tip=tip", *WORK),
            (
                "--kernel: 1 kernel(s) given (expected at least two, e.g. --kernel base=IMAGE "
                "--kernel new=IMAGE"
            ),
        ),
        (
            ("--kernel", "a/bzImage", *WORK),
            "a/bzImage: name missing (expected NAME=PATH, e.g. tip=",
        ),
        (
            ("--kernel", "../x=new", *WORK),
            (
                "../x=new: invalid name (expected at most 64 letters, digits and _ . + -, starting "
                "with a letter or digit, e.g. tip="
            ),
        ),
        (
            ("--kernel", "../x=new", *WORK),
            (
                "invalid name (expected at most 64 letters, digits and _ . + -, starting with a "
                "letter or digit, e.g. tip=new"
            ),
        ),
        (
            ("--kernel", "a=", *WORK),
            "--kernel a=: path missing (expected NAME=PATH, e.g. a=bzImage)",
        ),
        (
            (*TWO, "--kernel-files", "tip=", *WORK),
            "tip=: path missing (expected NAME=PATH, e.g. tip=DIRECTORY",
        ),
        (
            (*TWO, "--kernel-files", "tip=none", *WORK),
            "none: no such directory; give the directory with",
        ),
        (
            ("--kernel", "tip=tip", "--kernel", "tip=new", *WORK),
            "--kernel tip: name given twice; use different names",
        ),
        (
            (*TWO, "--kernel-files", "old=.", *WORK),
            "--kernel-files old: no --kernel with this name; add --kernel old=IMAGE",
        ),
        (
            ("--kernel", "tip=none", "--kernel", "new=new", *WORK),
            "none: no such file or directory (expected a kernel image)",
        ),
        (
            ("--kernel", "tip=bin", "--kernel", "new=new", *WORK),
            "bin: is a directory (expected a kernel image",
        ),
        ((*TWO,), "no command given; put it at the end, after --"),
        ((*TWO, "--", "no-such-program-here"), "no-such-program-here: no such program"),
        ((*TWO, "--", "echo", "{groups}"), "command: {groups} has no values; add --point"),
        ((*TWO, "--point", "groups", *WORK), "expected NAME=VALUE,VALUE, e.g. groups=1,4"),
        ((*TWO, "--with", "no_such_collector", *WORK), "no_such_collector"),
        ((*TWO, "--set", "schedstat.on=1", *WORK), "unknown option 'on' of schedstat"),
        (
            (*TWO, "--with", "none", "--set", "schedstat.enable=1", *WORK),
            "--set: options of schedstat, which is not used",
        ),
        (
            (*TWO, "--with", "wakeup_latency", "--instrumented", "0", *WORK),
            "--instrumented is 0; set --instrumented to 1 or more",
        ),
        (
            (*TWO, "--set", "perf_profile", *WORK),
            "expected COLLECTOR.NAME=VALUE, e.g. schedstat.enable=1",
        ),
        ((*TWO, "--memory", "9999999G", *WORK), "--memory 9999999G: more than this machine's"),
        ((*TWO, "--cpus", "3", *WORK), "--cpus 3: cannot be divided evenly among --nodes 2"),
        (
            (*TWO, "--output", "none", *WORK),
            "--output none: no such directory; create it, or give an existing directory",
        ),
        (
            (*TWO, "--output", "tip", *WORK),
            "--output tip: not a directory; give another path",
        ),
        ((*TWO, "--accel", "kvm", *WORK), "--accel kvm: "),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_before_a_boot(
    place: Path, arguments: tuple[str, ...], said: str
) -> None:
    write_program(place / "bin/vng", f"touch {place}/booted")
    status, out, err = run(place, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (place / "booted").exists()


def test_help_fits_a_terminal_of_80_columns(place: Path) -> None:
    status, out, _ = run(place, "--help")
    assert (status, [line for line in out.splitlines() if len(line) > 80]) == (0, [])


def test_a_missing_program_is_named_with_what_installs_it(place: Path) -> None:
    (place / "bin/qemu-system-x86_64").unlink()
    status, _, err = run(place, *TWO, *WORK, path=f"{place}/bin")
    assert status == 2
    assert "qemu-system-x86_64: not found; run: apt-get install -y qemu-system-x86" in err


def test_a_bundle_that_exists_stays_as_it_is(place: Path, make_bundle: Callable[..., Path]) -> None:
    made = make_bundle(place / "tip.tar").read_bytes()
    status, _, err = run(place, *TWO, *WORK)
    assert status == 2
    assert "tip.tar: already exists; use --add-boots" in err
    assert (place / "tip.tar").read_bytes() == made


def test_check_says_how_guests_run_here(place: Path) -> None:
    write_program(place / "bin/qemu-system-x86_64", "echo 'error: no such CPU' >&2; exit 1")
    status, out, err = run(place, "--check")
    assert (status, err) == (0, "")
    assert re.fullmatch(
        r"guests are emulated \((QEMU cannot use )?/dev/kvm: .+\), so timings are informational "
        r"and not used for the verdict; counts and layouts are valid\n",
        out,
    )


GUEST = """
while [ $# -gt 0 ]; do case $1 in --rwdir) share=${2#*=};; esac; shift; done
echo '{"event": "booted"}' >$share/events
echo '{"event": "note", "text": "bpf_pelt skipped: no bcc"}' >>$share/events
echo '{"event": "run", "done": 1, "total": 1, "said": "0.50 s"}' >>$share/events
WAIT
[ -e $share/bundle.tar ] || cp FOLDER/guest.tar $share/bundle.tar
echo 0 >$share/status
"""


def guest(place: Path, wait: str = "") -> str:
    return GUEST.replace("FOLDER", str(place)).replace("WAIT", wait)


def test_results_go_to_stdout_and_what_goes_on_to_stderr(
    place: Path, make_bundle: Callable[..., Path]
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    write_program(place / "bin/vng", guest(place))
    status, out, err = run(place, *TWO, "--boots", "1", "--accel", "tcg", *WORK)
    assert status == 0, err
    assert out.splitlines() == ["tip.tar", "new.tar", "schedperf compare tip.tar new.tar"]
    lines = err.splitlines()
    assert lines[0].startswith("schedperf: guests are emulated (--accel tcg), so ")
    assert lines[1].startswith("schedperf: perf_profile is not recorded, because ")
    told = [re.fullmatch(r"\[\d:\d\d\] boot 1/2 tip: (.*)", line) for line in lines[2:6]]
    *doing, done = [match[1] for match in told if match]
    assert doing == ["booting", "bpf_pelt skipped: no bcc", "run 1/1 0.50 s"]
    assert re.fullmatch(r"done, about \d s left", done)
    assert err.count("bpf_pelt skipped") == 1
    assert re.fullmatch(r"2 boots in \d+ s", lines[-1])


def recorded_with(place: Path, *options: str) -> tuple[str, str]:
    """Return the recorder's command in the guest, and what was said on stderr."""
    keep = f"cp $share/run {place}/script"
    write_program(place / "bin/vng", guest(place, keep))
    arguments = ("--boots", "1", "--accel", "tcg", "--output", place / "out", *options)
    (place / "out").mkdir()
    status, _, err = run(place, *TWO, *map(str, arguments), *WORK)
    assert status == 0, err
    script = (place / "script").read_text()
    (command,) = (line for line in script.splitlines() if " record --events " in line)
    return command, err


def test_an_emulated_guest_makes_one_instrumented_run_without_a_profile(
    place: Path, make_bundle: Callable[..., Path]
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    command, err = recorded_with(place)
    assert "--instrumented=1" in command
    # A guest's kernel may lack what they need, and the user asked for none of them.
    assert re.findall(r" --with=(\S*)", command) == [""]
    (names,) = re.findall(r"--try=(\S+)", command)
    chosen = names.split(",")
    assert {"bpf_pelt", "bpf_placement", "perf_stat", "schedstat"} <= set(chosen)
    assert not {"default", "perf_profile"} & set(chosen)
    assert "perf_profile is not recorded" in err


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ("perf_profile,bpf_pelt", "perf_profile,bpf_pelt"),
        ("none", "none"),
        ("layout", "layout"),
    ],
)
def test_collectors_that_are_named_are_used(
    place: Path, make_bundle: Callable[..., Path], given: str, recorded: str
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    options = ("--with", given, "--instrumented", "3", "--pelt-loader", "bcc")
    command, err = recorded_with(place, *options)
    assert re.findall(r" --with=(\S+)", command) == [recorded]
    assert re.findall(r" --instrumented=(\S+)", command) == ["3"]
    assert "--pelt-loader=bcc" in command
    assert "left out" not in err
    # The bundle keeps the command, for `schedperf rerun`.
    words = shlex.split(command)
    (kept,) = (word.partition("=")[2] for word in words if word.startswith("--recorded-as="))
    assert " ".join(json.loads(kept)).count(" ".join(options)) == 1


def test_a_profile_that_is_named_beside_the_default_is_taken(
    place: Path, make_bundle: Callable[..., Path]
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    command, err = recorded_with(place, "--with", "default,perf_profile")
    assert re.findall(r" --with=(\S+)", command) == ["perf_profile"]
    (names,) = re.findall(r"--try=(\S+)", command)
    assert "perf_stat" in names.split(",")
    assert "left out" not in err


KVM_BREAKS = """
case "$*" in
*--disable-kvm*) ;;
*) echo 'KVM internal error. Suberror: 1'; sleep 60;;
esac
"""


@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no KVM to break")
def test_a_guest_that_kvm_cannot_run_is_emulated(
    place: Path, make_bundle: Callable[..., Path]
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    write_program(place / "bin/qemu-system-x86_64", "exit 0")
    write_program(place / "bin/vng", KVM_BREAKS + guest(place))
    status, out, err = run(place, *TWO, "--boots", "1", "--accel", "kvm", *WORK)
    reason = "KVM cannot run this guest (KVM internal error. Suberror: 1)"
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].endswith(f"--accel kvm: {reason}; use --accel tcg")
    status, _, err = run(place, *TWO, "--boots", "1", *WORK)
    assert status == 0, err
    assert "guests run on KVM, so timings are valid" in err
    assert f"guests are emulated ({reason}), so timings are informational" in err
    assert (place / "tip.tar").exists()


def test_quiet_says_nothing_that_is_no_trouble(
    place: Path, make_bundle: Callable[..., Path]
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    write_program(place / "bin/vng", guest(place))
    status, _, err = run(place, *TWO, "--boots", "1", "-q", *WORK)
    assert (status, err) == (0, "")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_finished_boots_and_leaves_no_guest_behind(
    place: Path, make_bundle: Callable[..., Path], signum: signal.Signals
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    hangs = f"[ ! -e $share/bundle.tar ] || {{ echo $$ >{place}/guest.pid; exec sleep 3600; }}"
    write_program(place / "bin/vng", guest(place, hangs))
    with start(place, *TWO, "--boots", "2", *WORK) as process:
        while not (place / "guest.pid").exists() or not (place / "guest.pid").read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signum)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signum
    assert err.splitlines()[-1] == (
        "schedperf: interrupted; bundles with finished boots: tip.tar, new.tar"
    )
    assert open_bundle(place / "new.tar").incomplete_reason == "interrupted after 1 of 2 boots"
    pid = (place / "guest.pid").read_text().strip()
    assert not lives(pid)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_each_kernel_has_its_commit_and_all_have_the_command(
    place: Path, make_bundle: Callable[..., Path]
) -> None:
    make_bundle(place / "guest.tar", runs=2)
    (place / "new.json").write_text(json.dumps({"commit": COMMIT, "subject": "a: b"}))
    declared = ("--source", "new=new.json", "--machine", "guest-4")
    command, _ = recorded_with(place, *declared)
    words = shlex.split(command)
    # The last boot is that of new.
    (source,) = [word for word in words if word.startswith("--source=")]
    assert json.loads(source.partition("=")[2]) == {"commit": COMMIT, "subject": "a: b"}
    assert "--machine=guest-4" in words
    (given,) = [word for word in words if word.startswith("--recorded-as=")]
    given_words = json.loads(given.partition("=")[2])
    assert given_words[:2] == ["schedperf", "vm"]
    assert given_words[-2:] == ["--", "true"]
    assert set(declared) < set(given_words)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f'old={{"commit": "{COMMIT}"}}', "--source: old: no --kernel of this name (expected"),
        (f'{{"commit": "{COMMIT}"}}', "--source: name missing (expected NAME=FILE"),
        ("new=gone.json", "--source: gone.json: no such file or directory"),
        ('new={"commit": 7}', "--source: JSON: invalid commit '7'"),
    ],
)
def test_a_source_that_is_invalid_is_refused_before_a_boot(
    place: Path, given: str, said: str
) -> None:
    status, out, err = run(place, *TWO, "--accel", "tcg", "--source", given, *WORK)
    assert (status, out) == (2, "")
    assert said in err
