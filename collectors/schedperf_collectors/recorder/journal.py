# SPDX-License-Identifier: GPL-2.0-or-later
"""Store what a recording must restore, so that the next command can list it after a kill.

While `ab` runs, or `record` with a setup or a teardown, a file in /run (XDG_RUNTIME_DIR, unless the
user is root) contains the boot id, the bundles, the tunables and cgroups before the first setup,
the cgroups that setups created and the pending teardown, one JSON object per line. The file is
locked. The kernel drops the lock of a killed process; the next command finds the file and compares
it with the machine. A reboot removes the file and undoes the changes. If the file cannot be written
there, it is beside the output; after a reboot, its boot id shows that nothing is to be restored.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Callable, NamedTuple

from schedperf_collectors.contract import read_boot_id
from schedperf_collectors.machine.errors import explain, printable
from schedperf_collectors.machine.new_files import Folder, write_all
from schedperf_collectors.recorder.control_groups import all_cgroups, is_empty
from schedperf_collectors.recorder.journal_folder import BESIDE, journals_beside, journals_in
from schedperf_collectors.recorder.tunables import Tunables, changed_tunables, undo_command

# Longer files are not journals: 100,000 tunables have about 10 MB.
_LONGEST_BYTES = 64 << 20


class Written(NamedTuple):
    """A bundle that a recording writes.

    :param output: path given with -o, e.g. the prefix of the bundles; None if unknown
    """

    path: Path
    output: Path | None = None


class Journal:
    """The journal of one recording; the end of the ``with`` block removes it.

    :param tunables: tunables before the first setup
    :param folder: directory of journals; None to store nothing
    :param bundles: bundles being written; the journal is beside the first one if ``folder`` is not
        writable
    :param warn: called with one line if the journal is beside the output, or cannot be written
    """

    def __init__(
        self,
        tunables: Tunables,
        folder: Path | None,
        bundles: Sequence[Written] = (),
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._tunables = tunables
        self._bundles = bundles
        name = f"ab-{os.getpid()}.jsonl"
        self._places = [] if folder is None else [folder / name]
        if folder is not None and bundles:
            self._places.append(bundles[0].path.parent / f"{BESIDE}{name}")
        self._warn = warn
        self._lines: list[bytes] = []
        self._path: Path | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> Journal:  # noqa: PYI034 # Self came with Python 3.11
        if self._places:
            with contextlib.suppress(OSError):
                self._places[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write({"boot": read_boot_id()})
            for path, output in self._bundles:
                named = None if output is None else str(output.absolute())
                self._write({"bundle": str(path.absolute()), "output": named})
            self._write({"tunables": {str(name): text for name, text in self._tunables.items()}})
            self._write({"cgroups": sorted(map(str, all_cgroups()))})
            self._move("")
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._remove()

    def note_group(self, folder: Path) -> None:
        """Record a cgroup that a setup created."""
        self._write({"cgroup": str(folder)})

    def begin_setting(self, side: str, teardown: str) -> None:
        """Record that a setup is about to run, and what undoes it.

        :param side: name of its side, for messages
        :param teardown: shell command; "" for none
        """
        self._write({"setting": side, "teardown": teardown})

    def end_setting(self) -> None:
        """Record that the last setting is undone."""
        self._write({"setting": None})

    def _write(self, line: Mapping[str, object]) -> None:
        self._lines.append(json.dumps(line).encode() + b"\n")
        if self._file is not None:
            try:
                write_all(self._file, self._lines[-1])
            except OSError as error:
                self._move(f"{_of(self._path)}: {explain(error)}")

    def _move(self, reason: str) -> None:
        """Write the whole journal to the next directory that accepts it.

        :param reason: why the last directory failed; "" if there was none
        """
        reasons = [reason] if reason else []
        before = self._path, self._file
        self._path = self._file = None
        while self._places and self._file is None:
            path = self._places.pop(0)
            try:
                self._open(path)
            except OSError as error:
                reasons.append(f"{path.parent}: {explain(error)}")
        self._close(*before)
        if reasons and self._path is not None:
            self._warn(
                f"{reasons[0]}; what to restore after a kill is kept in {self._path} instead; then "
                f"run `schedperf ab stop -o {shlex.quote(str(self._bundles[0].path))}`"
            )
        elif reasons:
            self._warn(
                f"{'; '.join(reasons)}; nothing can be restored if this recording is killed; "
                "free space"
            )

    def _open(self, path: Path) -> None:
        # An unlocked journal belongs to a killed process, so the file is named only after it is
        # locked.
        hidden = path.with_suffix(".new").name
        with Folder(path.parent) as folder:
            file = folder.replace_left_over(hidden, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                write_all(file, b"".join(self._lines))
                folder.rename(hidden, path.name)
            except OSError:
                file.close()
                folder.remove(hidden)
                raise
        self._path, self._file = path, file

    def _remove(self) -> None:
        self._close(self._path, self._file)
        self._path = self._file = None

    @staticmethod
    def _close(path: Path | None, file: BinaryIO | None) -> None:
        if path is not None and file is not None:
            with contextlib.suppress(OSError):
                path.unlink()
            file.close()


def _of(path: Path | None) -> Path | None:
    return None if path is None else path.parent


@dataclass(frozen=True)
class Left:
    """The content of a journal.

    Of a recording that is running, or was killed in an earlier boot, only the bundles are known.

    :param bundles: bundles that are or were being written
    :param is_running: whether the recording is running
    :param tunables: tunables before the first setup
    :param groups: existing cgroups that setups created, deepest first; if a setting was active,
        also empty ones that did not exist before
    :param side: side whose setting was active; None between two runs
    :param teardown: teardown of that side; "" for none
    """

    bundles: tuple[Written, ...] = ()
    is_running: bool = False
    tunables: Tunables = field(default_factory=dict)
    groups: tuple[Path, ...] = ()
    side: str | None = None
    teardown: str = ""

    def commands(self, journal: Path) -> Iterator[tuple[str, str]]:
        """Yield each thing that is left on the machine, and the command that undoes it.

        :param journal: path of the journal, which a teardown's command removes
        """
        for path, now in changed_tunables(self.tunables).items():
            yield f"{path} changed", undo_command(path, self.tunables[path], now)
        for group in self.groups:
            yield f"the cgroup {group}", _removal_command(group)
        if self.side and self.teardown:
            # A longer script does not fit on a line. Whether it ran cannot be determined from the
            # machine.
            script = self.teardown
            undo = script if script.isprintable() else f"run the teardown script of {self.side}"
            what = f"the setting of {self.side}, whose teardown did not finish"
            yield what, f"{undo}; rm {shlex.quote(str(journal))}"


def read_left(path: Path) -> Left | None:
    """Return the content of a journal.

    :return: None if it is gone or unreadable, or if another user owns it or can write it
    :raises ValueError: the file is not a journal, or is damaged
    """
    is_running = False
    try:
        with Folder(path.parent) as folder, folder.open(path.name) as file:
            if not _is_own(os.fstat(file.fileno())):
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                is_running = True
            content = file.read(_LONGEST_BYTES)
    except OSError:
        return None
    try:
        return _parse(content, is_running=is_running)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{path}: invalid journal (expected JSON lines written by a recording); remove it"
        ) from error


def _is_own(status: os.stat_result) -> bool:
    """Return whether only this user can write a file, because a journal has commands to run.

    A file with several hard links is rejected, too.
    """
    return (
        status.st_uid == os.geteuid()
        and status.st_nlink == 1
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def describe_left_over(folder: Path | None) -> list[str]:
    """Return one line for each leftover of killed recordings, with the command that undoes it.

    The journals in ``folder`` and beside outputs in the current directory are read. A damaged one
    gets a line, too. A journal whose changes have all been undone is removed.

    :param folder: directory of this user's journals; None if the user has none
    """
    lines: list[str] = []
    for path in (*journals_in(folder), *journals_beside(Path())):
        with contextlib.suppress(OSError):
            lines += _examine(path)
    return [printable(line) for line in lines]


def _examine(path: Path) -> list[str]:
    try:
        left = read_left(path)
    except ValueError as error:
        return [str(error)]
    if left is None or left.is_running:
        return []
    commands = list(left.commands(path))
    if not commands:
        path.unlink()
        return []
    return [
        f"a killed recording left {what}; undo this with: {undo} (or remove {path} to leave "
        "everything as it is)"
        for what, undo in commands
    ]


def _parse(content: bytes, *, is_running: bool) -> Left:
    groups: set[Path] = set()
    before: frozenset[str] | None = None
    tunables: dict[Path, str] = {}
    bundles: list[Written] = []
    side = teardown = None
    # A file without a boot id is not a journal, so nothing is restored from it.
    is_of_this_boot = False
    # The last line of a running recording may be incomplete.
    for line in content[: content.rfind(b"\n") + 1 if is_running else None].splitlines():
        entry = json.loads(line)
        if "boot" in entry:
            is_of_this_boot = entry["boot"] == read_boot_id()
        elif "bundle" in entry:
            output = entry.get("output")
            bundles.append(Written(Path(entry["bundle"]), None if output is None else Path(output)))
        elif "cgroup" in entry:
            groups.add(Path(entry["cgroup"]))
        elif "cgroups" in entry:
            before = frozenset(entry["cgroups"])
        elif "setting" in entry:
            side, teardown = entry["setting"], entry.get("teardown")
        else:
            tunables = {Path(name): str(text) for name, text in entry["tunables"].items()}
    if is_running or not is_of_this_boot:
        # A reboot has restored the machine.
        return Left(tuple(bundles), is_running=is_running)
    if side and before is not None:
        # A killed setup may have created cgroups that the journal does not contain.
        groups |= {path for path in all_cgroups() if str(path) not in before and is_empty(path)}
    deepest_first = sorted(groups, key=lambda group: (-len(group.parts), group))
    return Left(
        bundles=tuple(bundles),
        tunables=tunables,
        groups=tuple(group for group in deepest_first if group.is_dir()),
        side=None if side is None else str(side),
        teardown=str(teardown or ""),
    )


def _removal_command(group: Path) -> str:
    with contextlib.suppress(OSError):
        running = (group / "cgroup.procs").read_text().split()
        if running:
            return f"kill {' '.join(running)}; sleep 1; rmdir {shlex.quote(str(group))}"
    return f"rmdir {shlex.quote(str(group))}"
