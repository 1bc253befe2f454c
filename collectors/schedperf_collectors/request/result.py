# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the file that a reporter sends: redacted bundles of all kernels, and a text."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedperf_collectors.contract import MANIFEST
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.new_files import write_durably
from schedperf_collectors.recorder.plan import CLEAN
from schedperf_collectors.redaction.bundle import (
    OUTPUTS,
    Member,
    archive,
    host_member,
    run_member,
    to_tar,
)
from schedperf_collectors.redaction.host import private_values
from schedperf_collectors.redaction.private import REPLACEMENT, PrivateStrings, name_users
from schedperf_collectors.redaction.rules import Rules
from schedperf_collectors.request.steps import HOST, read_records

# Readable by all, before the umask.
_MODE = 0o644
# Captures of clean runs that contain numbers and names of the kernel, by collector.
NUMBERS = {
    "account": ("account.json",),
    "schedstat": ("schedstat.json", "before", "after"),
    "sched_ext": ("sched_ext.json",),
}
# Their largest file; /proc/schedstat of 256 CPUs has 2 MB.
MOST_BYTES = 4 << 20
# Variables with the names of accounts.
_ACCOUNTS = ("SUDO_USER", "USER", "LOGNAME")


@dataclass(frozen=True)
class Redacted:
    """One bundle without private strings.

    :param host: host.json of its first boot
    :param clean: number of clean runs without warm-up
    :param failed: how many of them failed
    :param left_out: number of omitted and replaced strings by kind
    """

    name: str
    content: bytes
    host: Mapping[str, Any]
    clean: int
    failed: int
    left_out: Counter[str]


def find_private(paths: Sequence[Path], rules: Rules) -> PrivateStrings:
    """Return the private strings of bundles, and the names of this machine and of its user.

    :raises RecordError: a bundle cannot be read
    """
    name, _, domain = socket.gethostname().partition(".")
    names = {name, domain, *(os.environ.get(each, "") for each in _ACCOUNTS)}
    for path in paths:
        for file, record in read_records(path).items():
            if file.endswith(HOST):
                names |= {*private_values(record, rules)}
            names |= name_users(str(record))
    return PrivateStrings(names, rules)


def redact_file(path: Path, private: PrivateStrings) -> Redacted:
    """Return a bundle without private strings: host.json, and the clean runs.

    Of the runs, it has the output and the captures of :data:`NUMBERS`.

    :raises RecordError: the bundle cannot be read
    """
    records = read_records(path)
    left_out: Counter[str] = Counter()
    try:
        with tarfile.open(path) as tar:
            members = list(_members(tar, records, private, left_out))
    except (OSError, tarfile.TarError, EOFError, KeyError) as error:
        reason = explain(error) if isinstance(error, OSError) else str(error)
        raise RecordError(
            f"{path}: {reason} (expected a bundle of this request); move it away and record again"
        ) from error
    clean = [run for run in _clean_runs(records).values() if not run.get("warmup")]
    return Redacted(
        name=path.name,
        content=archive(members, records.get(MANIFEST, {}), private),
        host=next((record for name, record in records.items() if name.endswith(HOST)), {}),
        clean=len(clean),
        failed=sum(run.get("exit_status") != 0 for run in clean),
        left_out=left_out,
    )


def _clean_runs(records: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record for name, record in records.items() if record.get("kind") == CLEAN}


def _members(
    tar: tarfile.TarFile,
    records: Mapping[str, Any],
    private: PrivateStrings,
    left_out: Counter[str],
) -> Iterator[Member]:
    runs = _clean_runs(records)
    present = {member.name: member for member in tar.getmembers() if member.isreg()}
    for name, record in records.items():
        folder, _, file = name.rpartition("/")
        if file == "host.json":
            yield host_member(folder, record, private, left_out)
        elif name in runs:
            outputs = [_output(tar, f"{folder}/{output}", private, left_out) for output in OUTPUTS]
            captures = list(_captures(tar, present, folder, private, left_out))
            yield from (*outputs, *captures)
            yield run_member(name, record, (*outputs, *captures), private)


def _captures(
    tar: tarfile.TarFile,
    present: Mapping[str, tarfile.TarInfo],
    folder: str,
    private: PrivateStrings,
    left_out: Counter[str],
) -> Iterator[Member]:
    for collector, files in NUMBERS.items():
        names = [f"{folder}/{collector}/{file}" for file in files]
        if not all(name in present for name in names):
            continue
        members = [
            Member(name, collector, content)
            for name in names
            if present[name].size <= MOST_BYTES
            and (content := _numbers_only(tar, present[name], private)) is not None
        ]
        if len(members) == len(names):
            yield from members
        else:
            left_out[f"captures of {collector}"] += 1


def _numbers_only(
    tar: tarfile.TarFile, member: tarfile.TarInfo, private: PrivateStrings
) -> bytes | None:
    """Return a file without the commands of other tasks; None if it has private strings."""
    file = tar.extractfile(member)
    content = b"" if file is None else file.read()
    if member.name.endswith("/account.json"):
        try:
            record = json.loads(content)
        except ValueError:
            return None
        if not isinstance(record, dict):
            return None
        content = json.dumps({**record, "others": []}).encode() + b"\n"
    text = content.decode(errors="replace")
    return content if private.remove(text) == text else None


def _output(
    tar: tarfile.TarFile, name: str, private: PrivateStrings, left_out: Counter[str]
) -> Member:
    file = tar.extractfile(name)
    content = b"" if file is None else file.read()
    text = content.decode(errors="replace")
    redacted = private.remove(text)
    if redacted == text:
        return Member(name, "workload", content)
    left_out["output of the workload"] += max(1, redacted.count(REPLACEMENT))
    return Member(name, "workload", redacted.encode())


def write_result(path: Path, bundles: Sequence[Redacted], text: str) -> int:
    """Write the file with all bundles and the text; return its size in bytes.

    An older file is replaced, and stays as it was if the new one cannot be written. The user who
    called sudo owns it.

    :raises RecordError: it cannot be written
    """
    folder = path.name[: -len(".tar")]
    members = [Member(f"{folder}/README", "request", text.encode())]
    members += [Member(f"{folder}/{each.name}", "request", each.content) for each in bundles]
    content = to_tar(members)
    try:
        write_durably(path, content, _MODE)
        user, group = (os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID"))
        if os.geteuid() == 0 and user.isdecimal() and group.isdecimal():
            with contextlib.suppress(OSError):
                os.chown(path, int(user), int(group))
    except OSError as error:
        raise RecordError(
            f"{path}: {explain(error)}; free space or give -o in another directory, and run this "
            "again: all recordings are kept"
        ) from error
    return len(content)
