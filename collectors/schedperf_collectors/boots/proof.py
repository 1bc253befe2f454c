# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove by one boot that a one-shot boot entry is used only once.

A file that survives the boot is written before the entry is set. After the boot, the boot id must
have changed, no entry may be set, the chosen kernel must be running, and the default kernel must be
the same. For example, a GRUB that cannot write its environment leaves the entry set, and would boot
it every time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from schedperf_collectors.boots.call import Call, is_hook
from schedperf_collectors.boots.examine import (
    Problem,
    UnreadEntry,
    arm,
    describe_failure,
    read_armed,
    read_default,
)
from schedperf_collectors.contract import read_boot_id
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.new_files import write_durably

FILE = Path("/var/lib/schedperf/boot-proof.json")
SCHEMA = "schedperf/boot-proof/1"
_LIMIT_BYTES = 64 << 10

ARMED = "armed"
PROVED = "proved"
FAILED = "failed"


@dataclass(frozen=True)
class Machine:
    """The running system.

    :param boot_id: boot id, which differs after every boot
    :param release: of the running kernel
    """

    boot_id: str
    release: str


@dataclass(frozen=True)
class Proof:
    """The proof, as stored in its file.

    :param state: ARMED until a boot follows, then PROVED or FAILED
    :param hook: name of the boot hook that set the entry
    :param release: release of the kernel that the entry boots
    :param entry: the one-shot entry as the hook prints it; None until the hook has set it
    :param default: release that booted by default before; None if unknown
    :param boot_id: id of the boot in which the entry was set
    :param text: for FAILED: what is wrong; else ""
    :param remedy: for FAILED: what to do; else ""
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
        """Return the problem that the boot revealed; None unless the proof has failed."""
        return Problem(self.text, self.remedy) if self.state == FAILED else None


def this_machine() -> Machine:
    """Return the running system."""
    return Machine(read_boot_id(), os.uname().release)


def prepare(call: Call, hook: str, release: str, machine: Machine, file: Path = FILE) -> Proof:
    """Set a kernel's one-shot entry, and write the file; return the proof in state ARMED.

    :param release: release of the kernel
    :param machine: the running system
    :param file: file of the proof
    :raises RecordError: an entry is set already or could not be read, the hook failed or set no
        entry, or the file cannot be written
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
    """Return the proof of this machine, evaluated after a boot; None if there is none.

    Before that boot, the proof is returned in state ARMED. A result is written to the file if this
    user may write it. An entry that a boot did not use up is cancelled, so that the default kernel
    boots again. If the entry cannot be read, FAILED is returned but not written, so the next call
    evaluates the proof again.

    :param machine: the running system
    :param file: file of the proof
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
    # A user without write permission can still read; the result is then not stored.
    with contextlib.suppress(RecordError):
        _write(proof, file)
    return proof


def _judge(call: Call, proof: Proof, machine: Machine) -> Problem | None:
    left = read_armed(call, proof.hook)
    if left is not None and left == proof.entry:
        cancelled = call(proof.hook, ["disarm"])
        done = "it was cancelled now" if cancelled.status == 0 else describe_failure(cancelled)
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
    if record["state"] not in {ARMED, PROVED, FAILED} or not is_hook(record["hook"]):
        return None
    return Proof(**{name: record[name] for name in fields})


def _write(proof: Proof, file: Path) -> None:
    """Replace the file; a power cut leaves the old or the new one.

    :raises RecordError: it cannot be written
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_durably(file, json.dumps({"schema": SCHEMA, **asdict(proof)}, indent=1).encode())
    except OSError as error:
        raise RecordError(f"{file}: {explain(error)}; run as root", 1) from error
