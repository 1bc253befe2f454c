# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove by one boot that a one-shot boot entry is consumed, with a file that survives the boot.

The file is written before the entry is set. After the boot: another boot id, no entry set, the
chosen kernel running, and the same kernel by default. GRUB that cannot write its environment, for
example, leaves the entry set, and would boot it every time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from schedperf_collectors.boots.call import Call
from schedperf_collectors.boots.examine import (
    Problem,
    UnreadEntry,
    arm,
    read_armed,
    read_default,
    say_failure,
)
from schedperf_collectors.machine.errors import RecordError, explain

FILE = Path("/var/lib/schedperf/boot-proof.json")
SCHEMA = "schedperf/boot-proof/1"
_LIMIT_BYTES = 64 << 10

ARMED = "armed"
PROVED = "proved"
FAILED = "failed"


@dataclass(frozen=True)
class Machine:
    """The running system.

    :param boot_id: another one after every boot
    :param release: of the running kernel
    """

    boot_id: str
    release: str


@dataclass(frozen=True)
class Proof:
    """The proof, as its file keeps it.

    :param state: ARMED until a boot follows, then PROVED or FAILED
    :param entry: the one-shot entry as the hook prints it
    :param default: release that booted by default before; None if unknown
    :param boot_id: of the boot in which the entry was set
    :param text: for FAILED: what is wrong
    :param remedy: for FAILED: what to do
    """

    state: str
    hook: str
    release: str
    entry: str | None
    default: str | None
    boot_id: str
    text: str = ""
    remedy: str = ""

    def problem(self) -> Problem | None:
        """Return what the boot showed to be wrong."""
        return Problem(self.text, self.remedy) if self.state == FAILED else None


def this_machine() -> Machine:
    """Return the running system."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Machine(boot_id, os.uname().release)


def prepare(call: Call, hook: str, release: str, machine: Machine, file: Path = FILE) -> Proof:
    """Set a kernel's one-shot entry, and note it.

    :raises RecordError: an entry is set already, or that could not be read; the hook failed, or
        the file cannot be written
    """
    entry = read_armed(call, hook)
    if entry is not None:
        raise RecordError(f"--prove: a one-shot boot entry is already set ({entry}); reboot", 1)
    default = read_default(call, hook)
    proof = Proof(ARMED, hook, release, None, default, machine.boot_id)
    _write(proof, file)
    arm(call, hook, release)
    entry = read_armed(call, hook)
    if entry is None:
        raise RecordError(f"--boot {hook}: no one-shot entry is set after arm {release}", 1)
    proof = replace(proof, entry=entry)
    _write(proof, file)
    return proof


def conclude(call: Call, machine: Machine, file: Path = FILE) -> Proof | None:
    """Return the proof of this machine, judged if a boot followed; None if there is none.

    An entry that a boot did not consume is cancelled, so that the default kernel boots again. If it
    cannot be read whether one is set, the proof has failed for now; the next call judges it again.
    """
    proof = _read(file)
    if proof is None or proof.state != ARMED or proof.boot_id == machine.boot_id:
        return proof
    try:
        problem = _judge(call, proof, machine)
    except UnreadEntry as error:
        return replace(proof, state=FAILED, text=error.problem.text, remedy=error.problem.remedy)
    except RecordError as error:
        remedy = "run `schedperf doctor --boot HOOK --prove` with another hook"
        problem = Problem(str(error), remedy)
    if problem is None:
        proof = replace(proof, state=PROVED)
    else:
        proof = replace(proof, state=FAILED, text=problem.text, remedy=problem.remedy)
    # Who may not write may read; the result is then found again.
    with contextlib.suppress(RecordError):
        _write(proof, file)
    return proof


def _judge(call: Call, proof: Proof, machine: Machine) -> Problem | None:
    left = read_armed(call, proof.hook)
    if left is not None and left == proof.entry:
        cancelled = call(proof.hook, ["disarm"])
        done = "it was cancelled now" if cancelled.status == 0 else say_failure(cancelled)
        return Problem(
            f"the boot did not consume the one-shot entry {left} ({done})",
            "use another --boot hook, or store the boot loader's files where it can write",
        )
    if machine.release != proof.release:
        return Problem(
            f"{machine.release} booted, expected {proof.release}",
            "see the console during boot, and the boot loader's menu",
        )
    default = read_default(call, proof.hook)
    if default != proof.default:
        return Problem(
            f"the boot changed the default kernel from {proof.default} to {default}",
            "set the default entry by name, without GRUB_SAVEDEFAULT",
        )
    return None


def _read(file: Path) -> Proof | None:
    """Return the proof of a file; None if there is none, or the file is damaged."""
    try:
        with file.open("rb") as opened:
            record = json.loads(opened.read(_LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.pop("schema", None) != SCHEMA:
        return None
    return _parse(record)


def _parse(record: Mapping[str, Any]) -> Proof | None:
    fields = Proof.__dataclass_fields__
    optional = {"entry", "default"}
    for name in fields:
        value = record.get(name)
        if not isinstance(value, str) and not (value is None and name in optional):
            return None
        if isinstance(value, str) and not all(letter.isprintable() for letter in value):
            return None
    if record["state"] not in {ARMED, PROVED, FAILED}:
        return None
    return Proof(**{name: record[name] for name in fields})


def _write(proof: Proof, file: Path) -> None:
    """Replace the file; a power cut leaves the old or the new one.

    :raises RecordError: it cannot be written
    """
    new = file.with_name(f"{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with new.open("w", encoding="utf-8") as opened:
            json.dump({"schema": SCHEMA, **asdict(proof)}, opened, indent=1)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise RecordError(f"{file}: {explain(error)}; run as root", 1) from error
