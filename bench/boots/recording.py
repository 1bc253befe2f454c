# SPDX-License-Identifier: GPL-2.0-or-later
"""Record two kernels on a machine under QEMU, and check the bundles and the machine at the end."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from schedperf.commands._zipapp import build_zipapp
from schedperf_generators.disk.machine import DidNotBoot, Machine
from schedperf_generators.disk.tree import LIES, PANICS, Kernels

# Paths in the guest, for a machine that drives itself.
_HOME = "/var/lib/schedperf/boots"
_PREFIX = "/root/recorded"
_FINISHED = "/root/finished"
_OVER = "over"
_NAME = "id=$(cat /proc/sys/kernel/random/uuid)"
# Each run prints a random id, and the machine stores the ids of the runs that finished.
WORKLOAD = (
    "sh",
    "-c",
    f"hackbench -l 50 -g 1 && {_NAME} && echo id=$id && echo $id >>{_FINISHED} && sync {_FINISHED}",
)
_ID = re.compile(rb"^id=(\S+)$", re.MULTILINE)
_RUN = re.compile(r"boots/\d+/runs/\d+/stdout$")
# The check needs no measurements besides the runs.
_QUICK = ("--warmup", "0", "--instrumented", "0", "--with", "none", "--settle", "0")
_FEATURE = "GENTLE_FAIR_SLEEPERS"
# All that a setting may change, without what changes by itself: counts, the next process, and what
# each boot computes from the free memory.
_SETTINGS = (
    "grep -rs . /proc/sys/kernel /proc/sys/vm /sys/kernel/debug/sched | grep -v -e /random/ "
    "-e ns_last_pid -e /pty/nr -e cad_pid -e /debug/sched/debug: -e max_newidle_lb_cost "
    "-e last_decay -e stat_refresh -e _reserve_kbytes | sort; "
    "find /sys/fs/cgroup -type d | grep -v -e /user.slice | sort"
)
# Each look at a machine that drives itself takes a second of its emulated processors.
_POLL_S = 5.0
_END_S = 3600.0
# Time limit from the end of a recording to the end of its controller.
_CONCLUDE_S = 30.0

Say = Callable[[str], None]


class Wrong(Exception):
    """A check failed; the message describes what is wrong."""


class Size(NamedTuple):
    """Boots of each kernel, and runs in each boot."""

    boots: int
    runs: int


class Recording(ABC):
    """A recording of two kernels that are booted alternately.

    Each subclass drives it in one way.

    :cvar visits: how often the recording is started; a later one adds boots to the bundles
    :param kernels: releases of the default and of the other kernel
    :param folder: directory for the bundles
    :param say: prints a line about the progress
    """

    visits: ClassVar = 1

    def __init__(
        self, machine: Machine, kernels: Kernels, size: Size, folder: Path, say: Say
    ) -> None:
        self.machine = machine
        self.kernels = kernels
        self.boots, self.runs = size
        self.folder = folder
        self.say = say

    def options(self) -> list[str]:
        """Return the options of ``schedperf ab`` that do not depend on how it is driven."""
        kernels = []
        for name, release in self.sides():
            kernels += ["--kernel", f"{name}={release}"]
        return [*kernels, "--boots", str(self.boots), "-n", str(self.runs), *_QUICK]

    @abstractmethod
    def state(self) -> Mapping[str, Any] | None:
        """Return the content of the recording's state.json; None if it cannot be read now."""

    @abstractmethod
    def start(self) -> None:
        """Start recording."""

    @abstractmethod
    def kill_controller(self) -> bool:
        """Kill the program that drives the recording; return whether there was one."""

    @abstractmethod
    def go_on(self) -> None:
        """Continue the recording after a kill."""

    def end(self) -> None:  # noqa: B027 # most need none
        """End the processes of this recording on the host; there are none by default."""

    def sides(self) -> Sequence[tuple[str, str]]:
        """Return name and release of each kernel.

        ``new`` is the default kernel, because with an odd number of boots it has the last one: the
        machine need not reboot into its default kernel.
        """
        return [("base", self.kernels.new), ("new", self.kernels.old)]

    def planned_bundles(self) -> Sequence[tuple[str, str]]:
        """Return the name of each bundle after the prefix, and the release of its kernel."""
        return self.sides()

    @abstractmethod
    def fetch(self, name: str) -> Path:
        """Return the path of a bundle on the host, after the end of the recording.

        :param name: name of the bundle after the prefix
        """

    @property
    def is_over(self) -> bool:
        """Return whether the recording has ended; False if its state cannot be read now."""
        state = self.state()
        return state is not None and state["phase"] == _OVER

    def wait_for(self, what: str, is_so: Callable[[Mapping[str, Any]], bool]) -> None:
        """Wait until a condition on the state holds.

        :param what: name of the condition for the error
        :raises Wrong: the recording ends before, or an hour passes
        """
        end = time.monotonic() + _END_S
        while time.monotonic() < end:
            state = self.state()
            if state is not None and is_so(state):
                return
            if state is not None and state["phase"] == _OVER:
                raise Wrong(f"ended before: {what}; {state['ended']}")
            time.sleep(_POLL_S)
        raise Wrong(f"not within {_END_S:.0f} s: {what}; {self.state()}")

    def cut_power(self) -> None:
        """Cut the power of the machine and switch it on again, without waiting for it."""
        self.machine.cut_power()
        self.machine.start(waits=False)

    def check(self, kills: int) -> None:
        """Check the bundles and the machine at the end.

        :param kills: number of kills: each may lose one run that finished just before it
        :raises Wrong: a check fails; the message lists all failures
        """
        wrong = list(self._check_runs(kills))
        wrong += self._check_machine()
        if wrong:
            raise Wrong("; ".join(wrong))

    def _check_runs(self, kills: int) -> Iterator[str]:
        state = self.state()
        planned = len(self.sides()) * self.boots
        if state is None or state["phase"] != _OVER or state["ended"] is not None:
            yield f"the recording has not come to its end: {state}"
            return
        if len(state["done"]) != planned:
            yield f"{len(state['done'])} of {planned} boots recorded"
        runs = self.visits * self.boots * self.runs
        seen: Counter[str] = Counter()
        for name, release in self.planned_bundles():
            bundle = self.fetch(name)
            ids, releases = read_bundle(bundle)
            seen.update(ids)
            if len(ids) < runs:
                yield f"{bundle.name}: {len(ids)} runs (expected {runs} or more)"
            if releases != {release}:
                yield f"{bundle.name}: of {releases} (expected {release})"
        twice = [run for run, times in seen.items() if times > 1]
        if twice:
            yield f"{len(twice)} runs are twice in the bundles"
        finished = self.machine.get(_FINISHED).decode().split()
        if set(seen) - set(finished):
            yield f"{len(set(seen) - set(finished))} runs in the bundles never ended"
        lost = len(set(finished) - set(seen))
        self.say(f"{len(seen)} runs in the bundles, {lost} cut off as they ended")
        if lost > kills:
            yield f"{lost} runs ended and are in no bundle ({kills} kills)"

    def _check_machine(self) -> Iterator[str]:
        """Yield what the recording left behind: another kernel, a boot entry, or its service."""
        running = self.machine.run("uname", "-r").strip()
        if running != self.kernels.old:
            yield f"{running} runs (expected the default {self.kernels.old})"
        armed = self.machine.call("grub-editenv", "list").stdout
        if re.search(r"^next_entry=.", armed, re.MULTILINE):
            yield f"a boot entry is still set: {armed.strip()}"
        one_shot = self.machine.shell("ls /sys/firmware/efi/efivars", checks=False).stdout
        if "LoaderEntryOneShot" in one_shot:
            yield "a boot entry is still set in the firmware"
        units = self.machine.shell("systemctl is-enabled schedperf-ab", checks=False).stdout.strip()
        if units == "enabled":
            yield "schedperf-ab.service is still enabled"


class BySsh(Recording):
    """A controller on the host drives the machine: ``ab --on ssh:HOST``."""

    _controller: subprocess.Popen[bytes] | None = None

    def state(self) -> Mapping[str, Any] | None:
        """Return the controller's state; None before it is written.

        The controller replaces the file atomically, so it is always complete.
        """
        path = self.folder / "recorded.boots" / "state.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def start(self) -> None:
        """Start the controller."""
        self._run(["ab", *self.options(), "--on", "ssh:target", *self._output(), "--", *WORKLOAD])

    def kill_controller(self) -> bool:
        """Kill the controller and the processes that it started; return whether it was running."""
        controller = self._controller
        if controller is None or controller.poll() is not None:
            return False
        # The session's leader starts the recorder, which drives the boots.
        os.killpg(controller.pid, signal.SIGKILL)
        controller.wait()
        return True

    def end(self) -> None:
        """Wait for the controller to exit; kill it if it does not within 30 s."""
        if self._controller is not None:
            try:
                self._controller.wait(_CONCLUDE_S)
            except subprocess.TimeoutExpired:
                self.kill_controller()

    def go_on(self) -> None:
        """Run ``ab continue`` if no controller is running: it was killed, or it gave up."""
        if self._controller is None or self._controller.poll() is not None:
            self._run(["ab", "continue", *self._output()])

    def fetch(self, name: str) -> Path:
        """Return the path of the controller's copy of a bundle."""
        return self.folder / f"recorded-{name}.tar"

    def _output(self) -> list[str]:
        return ["-o", str(self.folder / "recorded")]

    def _run(self, words: Sequence[str]) -> None:
        with (self.folder / "log").open("ab") as log:
            self._controller = subprocess.Popen(
                [sys.executable, "-m", "schedperf", *words],
                env=self.machine.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


class ByItself(Recording):
    """The machine drives itself: ``ab --resume``, with the recorder as a single file."""

    def state(self) -> Mapping[str, Any] | None:
        """Return the state from the machine; None while it boots."""
        try:
            read: Mapping[str, Any] = json.loads(self.machine.run("cat", f"{_HOME}/state.json"))
        except (subprocess.SubprocessError, ValueError):
            return None
        return read

    def start(self) -> None:
        """Copy the recorder to the machine and start it.

        :raises Wrong: the recorder fails
        """
        self.machine.put(build_zipapp(), "/root/recorder")
        words = ["ab", *self.options(), "--resume", "-o", _PREFIX, "--", *WORKLOAD]
        started = self.machine.call("python3", "-I", "/root/recorder", *words, limit_s=300)
        # The machine may reboot before ssh receives the exit status.
        if started.returncode not in {0, 255}:
            raise Wrong(f"ab --resume: {started.stderr.strip()}")

    def kill_controller(self) -> bool:
        """Kill the main process of the service, which systemd starts again.

        Return False if there is none, or if the machine does not answer.
        """
        kill = "systemctl kill -s KILL --kill-whom=main schedperf-ab"
        try:
            return self.machine.shell(kill, checks=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def go_on(self) -> None:
        """Do nothing: the machine continues by itself."""

    def fetch(self, name: str) -> Path:
        """Copy a bundle to the host; return its path."""
        path = self.folder / f"recorded-{name}.tar"
        path.write_bytes(self.machine.get(f"{_PREFIX}-{name}.tar"))
        return path


class Design(BySsh):
    """Two kernels and two settings: each boot records both settings."""

    _state_before = ""

    def options(self) -> list[str]:
        """Return the options, with the scheduler feature that is the setting."""
        return [*super().options(), "--feature", _FEATURE]

    def planned_bundles(self) -> Sequence[tuple[str, str]]:
        """Return name and release of four bundles: one for each kernel and value of the setting."""
        settings = (f"NO_{_FEATURE}", _FEATURE)
        return [(f"{name}-{setting}", of) for name, of in self.sides() for setting in settings]

    def start(self) -> None:
        """Remember the settings of the machine, then start the controller."""
        self._state_before = self._settings()
        super().start()

    def check(self, kills: int) -> None:
        """Also check that all settings of the machine are restored.

        With an odd number of boots the last one is of the default kernel, which keeps running, so
        its settings are those that the recording left.

        :raises Wrong: a check fails
        """
        super().check(kills)
        before, after = (set(text.splitlines()) for text in (self._state_before, self._settings()))
        if before != after:
            raise Wrong(f"settings are not restored: {sorted(before ^ after)[:5]}")
        self.say(f"{len(after)} settings and cgroups as before")

    def _settings(self) -> str:
        return self.machine.shell(_SETTINGS).stdout


class Added(BySsh):
    """One kernel; a second recording adds boots to its bundle."""

    visits = 2

    def sides(self) -> Sequence[tuple[str, str]]:
        """Return name and release of the kernel, which is not the default one."""
        return [("new", self.kernels.new)]

    def options(self) -> list[str]:
        """Return the options, with the one that adds boots."""
        return [*super().options(), "--append"]

    def start(self) -> None:
        """Start the controller, without the state of a recording that has ended."""
        (self.folder / "recorded.boots" / "state.json").unlink(missing_ok=True)
        super().start()


class Faults(BySsh):
    """Two good kernels, one that panics, and one whose release differs from its name."""

    _BROKEN = (("panics", PANICS), ("lies", LIES))

    def options(self) -> list[str]:
        """Return the options, with the broken kernels first."""
        broken = [f"--kernel={name}={release}" for name, release in self._BROKEN]
        return [*broken, *super().options()]

    def check(self, kills: int) -> None:
        """Also check that the recorder gave up the broken kernels, and print its reasons.

        :raises Wrong: a check fails
        """
        super().check(kills)
        state = self.state()
        reasons = {} if state is None else {k["name"]: k["gave_up"] for k in state["kernels"]}
        for name, _ in self._BROKEN:
            if not reasons.get(name):
                raise Wrong(f"the kernel {name} is not given up: {reasons}")
            self.say(f"{name} is given up: {reasons[name]}")


def read_bundle(path: Path) -> tuple[Sequence[str], set[str]]:
    """Return the ids that the runs of a bundle printed, and the releases of its boots."""
    ids: list[str] = []
    releases = set()
    with tarfile.open(path) as bundle:
        for member in bundle:
            source = bundle.extractfile(member)
            if source is None:
                continue
            if _RUN.search(member.name):
                ids += [found.decode() for found in _ID.findall(source.read())]
            elif member.name.endswith("/host.json"):
                releases.add(str(json.load(source)["kernel"]["release"]))
    return ids, releases


def finish(recording: Recording) -> None:
    """Wait for the end of a recording, then for the machine.

    The recording is continued if its controller gave up.

    :raises Wrong: it does not end within an hour, or the machine does not come up
    """
    end = time.monotonic() + _END_S
    while not recording.is_over:
        if time.monotonic() > end:
            raise Wrong(f"not over within {_END_S:.0f} s: {recording.state()}")
        recording.go_on()
        time.sleep(_POLL_S)
    recording.end()
    # The last act of a machine that drives itself is a reboot into its default kernel.
    time.sleep(5)
    try:
        recording.machine.wait()
    except DidNotBoot as error:
        raise Wrong(str(error)) from error
