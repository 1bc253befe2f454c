# SPDX-License-Identifier: GPL-2.0-or-later
"""One boot: what is called, what is heard, and how it ends. Real guests: tests/end_to_end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands.vm import Interrupted, interruptible
from schedperf.lab.vm.guest import Event, GuestFailed, Hypervisor, boot, explain
from schedperf.model.errors import InputError
from tests.programs import lives

MakeHypervisor = Callable[..., Hypervisor]


@pytest.fixture
def share(tmp_path: Path) -> Path:
    folder = tmp_path / "tip" / "share"
    folder.mkdir(parents=True)
    return folder


def boot_once(hypervisor: Hypervisor, share: Path) -> list[Event]:
    heard: list[Event] = []
    boot(hypervisor, share / "image", share, heard.append)
    return heard


def test_what_the_guest_tells_is_heard_in_order(
    make_hypervisor: MakeHypervisor, share: Path
) -> None:
    behaviour = """
    echo '{"event": "booted"}' >$share/events
    sleep 0.6
    printf '{"event": "run", ' >>$share/events
    sleep 0.6
    printf '"done": 1}\\n' >>$share/events
    echo 0 >$share/status
    """
    heard = boot_once(make_hypervisor(behaviour), share)
    assert heard == [{"event": "booted"}, {"event": "run", "done": 1}]


def test_what_is_no_event_is_not_heard(make_hypervisor: MakeHypervisor, share: Path) -> None:
    behaviour = """
    printf 'nonsense\\n[1]\\n\\377\\376\\n{"event": "booted"}\\n' >$share/events
    python3 -c 'print("[" * 100000)' >>$share/events
    head -c 3000000 /dev/zero >>$share/events
    echo 0 >$share/status
    """
    assert boot_once(make_hypervisor(behaviour), share) == [{"event": "booted"}]


def test_a_console_without_end_neither_blocks_nor_fills_memory(
    make_hypervisor: MakeHypervisor, share: Path
) -> None:
    behaviour = "head -c 30000000 /dev/zero; echo 'Kernel panic - not syncing: VFS'\n"
    with pytest.raises(GuestFailed, match="Kernel panic - not syncing: VFS"):
        boot_once(make_hypervisor(behaviour), share)


def test_work_that_failed_is_told_in_its_own_words(
    make_hypervisor: MakeHypervisor, share: Path
) -> None:
    behaviour = """
    printf 'mount: ignored\\nschedperf: error: no space left on device\\n' >$share/log
    echo 2 >$share/status
    """
    with pytest.raises(InputError) as caught:
        boot_once(make_hypervisor(behaviour), share)
    assert str(caught.value) == "no space left on device"


def test_what_an_earlier_boot_left_is_not_taken_for_this_one(
    make_hypervisor: MakeHypervisor, share: Path
) -> None:
    (share / "status").write_text("0\n")
    (share / "events").write_text('{"event": "booted"}\n')
    with pytest.raises(GuestFailed):
        boot_once(make_hypervisor("exit 255"), share)


@pytest.mark.system
def test_a_guest_that_hangs_is_ended_with_all_that_it_started(
    make_hypervisor: MakeHypervisor, share: Path
) -> None:
    behaviour = """
    echo '{"event": "booted"}' >$share/events
    trap '' TERM
    (trap '' TERM; echo $BASHPID >$share/child; while :; do sleep 0.1; done) &
    wait
    """
    silence_s, child = 0.5, share / "child"
    # A busy machine takes its time to start it.
    while not child.exists() or not child.read_text():
        silence_s *= 2
        with pytest.raises(GuestFailed, match=r"it printed nothing for \d+ s"):
            boot_once(make_hypervisor(behaviour, silence_s=silence_s), share)
    assert not lives(child.read_text().strip())


def test_a_guest_that_tells_now_and_then_does_not_hang(
    make_hypervisor: MakeHypervisor, share: Path
) -> None:
    behaviour = """
    for i in 1 2 3 4 5 6 7 8; do echo '{"event": "note"}' >>$share/events; sleep 0.7; done
    echo 0 >$share/status
    """
    assert len(boot_once(make_hypervisor(behaviour, silence_s=4), share)) == 8


def test_a_guest_that_no_longer_says_that_it_lives_is_ended(
    make_hypervisor: MakeHypervisor, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedperf.lab.vm.guest.DEAD_AFTER_S", 0.5)
    behaviour = """
    echo '{"event": "booted"}' >$share/events
    echo '{"event": "alive"}' >>$share/events
    exec sleep 3600
    """
    with pytest.raises(GuestFailed, match=r"it hung for \d+ s"):
        boot_once(make_hypervisor(behaviour, silence_s=30.0), share)


def test_a_guest_that_has_done_its_work_and_does_not_go_is_ended(
    make_hypervisor: MakeHypervisor, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedperf.lab.vm.guest.SHUTDOWN_LIMIT_S", 1.0)
    began = time.monotonic()
    assert boot_once(make_hypervisor("echo 0 >$share/status; sleep 3600"), share) == []
    assert time.monotonic() - began > 1


def test_the_command_asks_for_what_was_asked(
    make_hypervisor: MakeHypervisor, share: Path, tmp_path: Path
) -> None:
    with pytest.raises(GuestFailed):
        boot(make_hypervisor("exit 1"), share / "image", share, print, is_verbose=True)
    called = (tmp_path / "calls").read_text()
    assert "--disable-kvm --qemu-opts=-accel tcg,thread=single --force-9p" in called
    assert "--disable-microvm --cpus 4,sockets=2,cores=2" in called
    assert f"--run {share}/image --rwdir /mnt={share} --cwd /mnt --verbose" in called
    assert called.rstrip().endswith("--exec sh /mnt/run")


def test_virtme_ng_finds_its_own_programs_when_they_are_not_on_the_path(
    make_hypervisor: MakeHypervisor, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    behaviour = "virtme-run >$share/log\necho 0 >$share/status\n"
    hypervisor = make_hypervisor(behaviour)
    other = Path(hypervisor.vng).with_name("virtme-run")
    other.write_text("#!/bin/sh\necho found\n")
    other.chmod(0o755)
    boot_once(hypervisor, share)
    assert (share / "log").read_text() == "found\n"
    assert os.environ["PATH"] == "/usr/bin:/bin"


@pytest.mark.parametrize(
    ("console", "reason"),
    [
        ("", "no output"),
        ("\x1bc\x1b[2J\r\n\r\n", "no output"),
        ("[    1.2] Run init\r\n[    1.3] hello\r\n", "last output: hello"),
        (
            (
                '[    2.1] VFS: Cannot open root device "" or unknown-block(0,0): error -6\r\n'
                "[    2.2] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n"
            ),
            (
                "the kernel cannot mount the root file system, because 9p is neither built in "
                "nor a module"
            ),
        ),
        (
            (
                "[    9.1] BUG: unable to handle page fault\r\n"
                "[    9.2] Kernel panic - not syncing: Fatal exception\r\n[    9.3] Rebooting\r\n"
            ),
            "Kernel panic - not syncing: Fatal exception",
        ),
        (
            (
                "qemu-system-x86_64: warning: 4 CPUs\n"
                "qemu-system-x86_64: cannot set up guest memory: Cannot allocate memory\n"
            ),
            "the guest ran out of memory",
        ),
        (
            "qemu-system-x86_64: terminating on signal 15\nqemu-system-x86_64: -smp: too many\n",
            "qemu-system-x86_64: -smp: too many",
        ),
        ("mount: unknown filesystem type 'overlay'\n", "the kernel lacks overlayfs"),
    ],
)
def test_the_console_says_why_a_guest_ended(console: str, reason: str) -> None:
    assert explain(console).startswith(reason)


def test_a_signal_while_a_guest_starts_leaves_no_guest_behind(
    make_hypervisor: MakeHypervisor, share: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self.pid)
            signal.raise_signal(signal.SIGTERM)

    hypervisor = make_hypervisor("exec sleep 60")
    monkeypatch.setattr(subprocess, "Popen", Signalled)
    with pytest.raises(Interrupted), interruptible():
        boot_once(hypervisor, share)
    (pid,) = started
    assert not lives(pid)


def test_a_guest_does_not_ignore_signals(make_hypervisor: MakeHypervisor, share: Path) -> None:
    behaviour = """
    grep SigBlk /proc/self/status >$share/blocked
    echo 0 >$share/status
    """
    boot_once(make_hypervisor(behaviour), share)
    assert int((share / "blocked").read_text().split()[1], 16) == 0
