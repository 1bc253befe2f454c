# SPDX-License-Identifier: GPL-2.0-or-later
"""Record what ``ab`` has to restore, so that the next command can list it after a kill.

While ``ab`` runs, a file in /run has the tunables and cgroups before the first setup, the
cgroups that setups created and the teardown that is due, one JSON object per line. The file
is locked. The kernel drops the lock of a killed process; the next command finds the file and
compares it with the machine. A reboot removes the file together with what it describes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from schedperf_collectors.recorder.control_groups import all_cgroups, is_empty
from schedperf_collectors.recorder.journal_folder import JOURNALS
from schedperf_collectors.recorder.tunables import Tunables, changed_tunables, say_undo

# Longer files are not ours: 100,000 tunables have some 10 MB.
_LONGEST_BYTES = 64 << 20


class Journal:
    """The journal of one recording; the end of the ``with`` removes it.

    :param folder: where journals are; None: nothing is remembered, as where it is not writable
    """

    def __init__(self, tunables: Tunables, folder: Path | None) -> None:
        self._tunables = tunables
        self._path = None if folder is None else folder / f"ab-{os.getpid()}.jsonl"
        self._file: IO[str] | None = None

    def __enter__(self) -> Journal:  # noqa: PYI034 # Self came with Python 3.11
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._open(self._path)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._path is not None and self._file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._file.close()

    def note_group(self, folder: Path) -> None:
        """Remember a cgroup that a setup created."""
        self._write({"cgroup": str(folder)})

    def note_bundle(self, path: Path) -> None:
        """Remember a bundle that is being written."""
        self._write({"bundle": str(path.absolute())})

    def begin_setting(self, side: str, teardown: str) -> None:
        """Remember that a setup is about to run, and what undoes it."""
        self._write({"setting": side, "teardown": teardown})

    def end_setting(self) -> None:
        """Remember that the last setting is undone."""
        self._write({"setting": None})

    def _open(self, path: Path) -> None:
        # An unlocked journal is one of a killed process, so it gets its name when it is locked.
        hidden = path.with_suffix(".new")
        self._file = hidden.open("w", encoding="utf-8")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._write({"tunables": {str(name): text for name, text in self._tunables.items()}})
        self._write({"cgroups": sorted(map(str, all_cgroups()))})
        hidden.rename(path)

    def _write(self, line: Mapping[str, object]) -> None:
        if self._file is not None:
            # With a full /run the rest is not remembered; the recording is worth more.
            with contextlib.suppress(OSError):
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()


@dataclass(frozen=True)
class Left:
    """What a journal holds.

    :param tunables: before the first setup
    :param groups: cgroups that setups created and that exist, the deepest first
    :param side: whose setting was in force; None between two runs
    :param teardown: of that side; "" for none
    :param bundles: that were being written
    """

    tunables: Tunables
    groups: tuple[Path, ...]
    side: str | None
    teardown: str
    bundles: tuple[Path, ...] = ()

    def commands(self, journal: Path) -> Iterator[tuple[str, str]]:
        """Yield what is left on the machine, and the command that undoes it."""
        for path, now in changed_tunables(self.tunables).items():
            yield f"{path} changed", say_undo(path, self.tunables[path], now)
        for group in self.groups:
            yield f"the cgroup {group}", _say_removal(group)
        if self.side and self.teardown:
            # A longer script does not fit into a line. No look at the machine tells whether it ran.
            script = self.teardown
            undo = script if script.isprintable() else f"run the teardown script of {self.side}"
            what = f"the setting of {self.side}, whose teardown did not finish"
            yield what, f"{undo}; rm {shlex.quote(str(journal))}"


def journals(folder: Path | None) -> list[Path]:
    """Return this user's journals."""
    if folder is None or not folder.is_dir() or folder.stat().st_uid != os.geteuid():
        return []
    return sorted(folder.glob(JOURNALS))


def read_left(path: Path) -> Left | None:
    """Return what a killed recording left; None if the recording is running.

    :raises ValueError: the file is not a journal
    """
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        content = file.read(_LONGEST_BYTES)
    try:
        return _parse(content)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{path}: invalid journal (expected JSON lines written by a recording); remove it"
        ) from error


def say_left_over(folder: Path | None) -> list[str]:
    """Return one line for each thing that a killed ``ab`` left, with the command that undoes it.

    A journal of which nothing is left is removed.
    """
    lines: list[str] = []
    for path in journals(folder):
        with contextlib.suppress(OSError):
            lines += _examine(path)
    return lines


def _examine(path: Path) -> list[str]:
    try:
        left = read_left(path)
    except ValueError as error:
        return [str(error)]
    if left is None:
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


def _parse(content: bytes) -> Left:
    groups: set[Path] = set()
    before: frozenset[str] | None = None
    tunables: dict[Path, str] = {}
    bundles: list[Path] = []
    side = teardown = None
    for line in content.splitlines():
        entry = json.loads(line)
        if "bundle" in entry:
            bundles.append(Path(entry["bundle"]))
        elif "cgroup" in entry:
            groups.add(Path(entry["cgroup"]))
        elif "cgroups" in entry:
            before = frozenset(entry["cgroups"])
        elif "setting" in entry:
            side, teardown = entry["setting"], entry.get("teardown")
        else:
            tunables = {Path(name): str(text) for name, text in entry["tunables"].items()}
    if side and before is not None:
        # A setup that was killed may have created more than is known of it.
        groups |= {path for path in all_cgroups() if str(path) not in before and is_empty(path)}
    deepest_first = sorted(groups, key=lambda group: (-len(group.parts), group))
    return Left(
        tunables=tunables,
        groups=tuple(group for group in deepest_first if group.is_dir()),
        side=None if side is None else str(side),
        teardown=str(teardown or ""),
        bundles=tuple(bundles),
    )


def _say_removal(group: Path) -> str:
    with contextlib.suppress(OSError):
        running = (group / "cgroup.procs").read_text().split()
        if running:
            return f"kill {' '.join(running)}; sleep 1; rmdir {shlex.quote(str(group))}"
    return f"rmdir {shlex.quote(str(group))}"
