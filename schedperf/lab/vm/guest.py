# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot once: start virtme-ng, monitor the guest's output, and kill the guest if it hangs.

virtme-ng 1.42 passes its arguments through a shell, unquoted, so schedperf chooses the paths.
"""

import contextlib
import json
import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from schedperf.lab.failed import Failed
from schedperf.lab.group import end_group, signals_delayed
from schedperf.lab.vm import script
from schedperf.lab.vm.machine import Machine, find_kvm_error
from schedperf.model.errors import InputError

# A kernel with built-in drivers reports that it is up after 8 s under emulation, one with modules
# after 60 s; other guests may run at the same time.
START_LIMIT_S = 240.0
# A guest powers off within 3 s under emulation; one that cannot is killed.
SHUTDOWN_LIMIT_S = 60.0
# A guest reports every ten seconds; after this time without a report it is hung.
DEAD_AFTER_S = 120.0
# Interval of polling the shared directory.
_LOOK_S = 0.25
# The number of bytes at the end of QEMU's and the guest's output that are kept to explain a
# failure.
_CONSOLE_BYTES = 1 << 16
# An event has some hundred bytes; this limits how much is read at a time.
_EVENTS_BYTES = 1 << 20
# Number of bytes that are read of a guest's log, and of its status.
_TEXT_BYTES = 1 << 16
# Signals by which the user ends a session.

# With one thread per CPU, QEMU 7.2 may continue executing code translated while the kernel had int3
# there, as it has while probes are added and removed (text_poke_bp()). All CPUs then trap at one
# address forever: half of the guests that loaded some BPF programs twice hung this way.
_ONE_THREAD = "--qemu-opts=-accel tcg,thread=single"

Event = Mapping[str, Any]
ALIVE: Event = json.loads(script.ALIVE)

_NO_ROOT = (
    "the kernel cannot mount the root file system, because 9p is neither built in nor a module "
    "(CONFIG_9P_FS, "
    "CONFIG_NET_9P_VIRTIO; Debian's cloud kernels lack them)"
)
# Console messages of failed guests, and their meaning; the first match is used.
_REASONS = (
    (
        r"VFS: (?:Unable to mount|Cannot open) root|No filesystem could mount root",
        _NO_ROOT,
    ),
    (
        r"unknown filesystem type .?overlay|virtme_rw_overlay\d: .*No such device",
        "the kernel lacks overlayfs (CONFIG_OVERLAY_FS)",
    ),
    (r"cannot find script I/O ports", "the kernel lacks CONFIG_VIRTIO_CONSOLE"),
    (r"Kernel panic - not syncing: .*", None),
    (r"Cannot allocate memory|cannot set up guest memory.*", "the guest ran out of memory"),
    (r"^qemu-system-\w+: (?!warning|terminating).*", None),
)
_TIME_STAMP = re.compile(r"^\[ *\d+\.\d+\] ")


class GuestFailed(Failed):
    """A guest ended, or was killed, before it finished."""


class KvmFailed(GuestFailed):
    """KVM cannot run the guest's code."""


class Hypervisor(Struct, frozen=True, kw_only=True):
    """The settings with which guests boot.

    :param vng: path of the program
    :param is_kvm: whether KVM is used; otherwise QEMU emulates the CPU
    :param kernel_arguments: extra arguments for the kernel command line
    :param silence_s: a guest that is silent for this long is considered hung
    """

    vng: str
    machine: Machine
    is_kvm: bool
    kernel_arguments: str
    silence_s: float

    def command(self, image: Path, share: Path, *, is_verbose: bool) -> list[str]:
        """Return the command that boots an image and runs the script in the shared directory.

        :param share: directory that guest and this machine share
        :param is_verbose: enable kernel messages on the console
        """
        accelerator = [] if self.is_kvm else ["--disable-kvm", _ONE_THREAD]
        append = ["--append", self.kernel_arguments] if self.kernel_arguments else []
        return [
            self.vng, *accelerator, "--force-9p", "--disable-microvm",
            *self.machine.vng_arguments(),
            "--run", str(image), "--rwdir", f"{script.SHARE}={share}", "--cwd", script.SHARE,
            *append, *(["--verbose"] if is_verbose else []), "--exec", script.COMMAND,
        ]  # fmt: skip


def boot(
    hypervisor: Hypervisor,
    image: Path,
    share: Path,
    hear: Callable[[Event], None],
    *,
    is_verbose: bool = False,
) -> None:
    """Boot an image and run the script in its shared directory.

    :param hear: function that is called with each event of the guest, except that it is alive
    :param is_verbose: enable kernel messages, which take time but explain a crash
    :raises GuestFailed: the guest ended before it finished, or hung and was killed
    :raises KvmFailed: KVM cannot run the guest
    :raises InputError: the recording in the guest failed
    """
    for name in ("events", "log", "status", "bundle.tar.copy"):
        (share / name).unlink(missing_ok=True)
    command = hypervisor.command(image, share, is_verbose=is_verbose)
    with _started(command) as process:
        watch = _Watch(process, share, hypervisor.silence_s, hear)
        watch.until_end()
    if not _read(share / "status").strip():
        raise GuestFailed(explain(watch.console.decode("utf-8", "replace")))
    if _read(share / "status").strip() != "0":
        raise InputError(
            _last_line(_read(share / "log"))
            or "the recorder in the guest failed without an error message; run the session again"
        )


def explain(console: str) -> str:
    """Return in one line why a guest ended, from its output and QEMU's."""
    # Serial consoles end their lines with \\r\\n, and firmware clears the screen.
    text = re.sub(r"\x1b(?:\[[0-9;?]*[A-Za-z]|c)|\r", "", console)
    lines = [_TIME_STAMP.sub("", line).strip() for line in text.splitlines()]
    for pattern, meaning in _REASONS:
        for line in lines:
            match = re.search(pattern, line)
            if match:
                return meaning or match[0]
    last = next((line for line in reversed(lines) if line), None)
    return f"last output: {last}" if last else "no output"


class _Watch:
    """Monitors a running guest until it ends or hangs; its caller kills a guest that hangs."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        share: Path,
        silence_s: float,
        hear: Callable[[Event], None],
    ) -> None:
        self.console = bytearray()
        self._process = process
        self._events = share / "events"
        self._status = share / "status"
        self._done_s: float | None = None
        self._offset = 0
        self._hear = hear
        self._silence_s = silence_s
        self._limit_s = START_LIMIT_S
        self._heard_s = self._alive_s = time.monotonic()
        # Missing reports mean a hang only if the guest has reported before.
        self._says_alive = False

    def until_end(self) -> None:
        """Wait until the guest has ended, or has finished but not powered off within 60 s.

        :raises GuestFailed: the guest hung
        :raises KvmFailed: KVM cannot run the guest
        """
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            is_open = True
            while self._process.poll() is None:
                if not is_open:
                    time.sleep(_LOOK_S)
                elif selector.select(_LOOK_S):
                    is_open = self._keep(os.read(self._process.stdout.fileno(), _CONSOLE_BYTES))
                    if not is_open:
                        selector.unregister(self._process.stdout)
                self._look()
                if self._is_over():
                    break
            # A pipe holds at most this much, and the process at its other end has ended.
            if is_open and selector.select(0):
                self._keep(os.read(self._process.stdout.fileno(), _CONSOLE_BYTES))
        self._look()

    def _keep(self, output: bytes) -> bool:
        self.console += output
        del self.console[:-_CONSOLE_BYTES]
        problem = find_kvm_error(self.console)
        if problem is not None:
            # QEMU has stopped the guest and waits.
            raise KvmFailed(f"KVM cannot run this guest ({problem})")
        return bool(output)

    def _look(self) -> None:
        for event in self._new_events():
            self._alive_s = time.monotonic()
            if event == ALIVE:
                self._says_alive = True
                continue
            self._heard_s = self._alive_s
            self._limit_s = self._silence_s
            self._hear(event)

    def _new_events(self) -> Iterator[Event]:
        try:
            with self._events.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_EVENTS_BYTES)
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        # A line longer than the limit was not written by a recorder.
        self._offset += len(whole) or (len(data) if len(data) == _EVENTS_BYTES else 0)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

    def _is_over(self) -> bool:
        """Return whether the guest has finished, and has exceeded its time to power off.

        :raises GuestFailed: it has not finished, and hangs
        """
        now_s = time.monotonic()
        if self._done_s is None and self._status.exists():
            self._done_s = now_s
        if self._done_s is not None:
            return now_s - self._done_s > SHUTDOWN_LIMIT_S
        silent_s, dead_s = now_s - self._heard_s, now_s - self._alive_s
        is_dead = self._says_alive and dead_s > DEAD_AFTER_S
        if is_dead or silent_s > self._limit_s:
            reason = explain(self.console.decode("utf-8", "replace"))
            what = (
                f"hung for {dead_s:.0f} s" if is_dead else f"printed nothing for {silent_s:.0f} s"
            )
            raise GuestFailed(f"it {what} ({reason})")
        return False


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in its own session; kill the whole session at the end."""
    # QEMU is a grandchild: signals reach it through the session's group. A terminal's Ctrl-C does
    # not. virtme-ng runs another of its programs, which may not be on the PATH.
    path = f"{Path(command[0]).parent}:{os.environ.get('PATH', os.defpath)}"
    with signals_delayed() as deliver:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=deliver,  # noqa: PLW1509 # this process has one thread
        )
        try:
            deliver()
            yield process
        finally:
            end_group(process)
            if process.stdout is not None:
                process.stdout.close()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_TEXT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last.removeprefix("schedperf: ").removeprefix("error: ")
