# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the members of a redacted bundle: host.json, and the clean runs with their output.

The redacted bundle has the results of the original, but no profile, symbols, counters or logs.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedperf_collectors.contract import BUNDLE_FORMAT, BUNDLE_VERSION, MANIFEST
from schedperf_collectors.redaction.host import Clean, redact_host
from schedperf_collectors.redaction.private import PrivateStrings

OUTPUTS = ("stdout", "stderr")
# Fields of run.json and of the manifest. Texts in them are redacted; other fields are left out.
RUN_FIELDS = (
    "boot", "run", "workload", "command", "label", "setup", "treatment", "tool_version", "point",
    "point_key", "kind", "warmup", "block", "round", "side", "factors", "order", "session", "seed",
    "sequential", "start", "exit_status", "signal", "wall_s", "period_s", "rusage", "metric",
    "output_left_out", "service", "discarded", "load", "server", "retest",
)  # fmt: skip
MANIFEST_FIELDS = (
    "tool_version", "label", "created", "workload", "points", "treatment", "setup", "metric",
    "service", "load", "server", "sequential", "factors", "complete", "planned_runs", "better",
    "retest",
)  # fmt: skip


@dataclass(frozen=True)
class Member:
    """One file of a redacted bundle."""

    name: str
    collector: str
    content: bytes

    @property
    def capture(self) -> dict[str, object]:
        """Return the member's entry in the lists of captures of run.json and the manifest."""
        return {
            "collector": self.collector,
            "path": self.name,
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "bytes": len(self.content),
            "seconds": None,
            "status": "ok",
            "reason": None,
        }


def cleaner(private: PrivateStrings) -> Clean:
    """Return a function that removes private strings from a JSON value."""

    def clean(value: object) -> object:
        if isinstance(value, str):
            return private.remove(value)
        if isinstance(value, Mapping):
            return {private.remove(str(key)): clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list) else value

    return clean


def host_member(
    folder: str, fields: Mapping[str, object], private: PrivateStrings, left_out: Counter[str]
) -> Member:
    """Return host.json with its allowed fields.

    :param folder: directory of the boot
    :param left_out: number of omitted strings by kind, which is updated
    """
    host = redact_host(fields, private.rules, cleaner(private), left_out)
    return json_member(f"{folder}/host.json", "host", host)


def run_member(
    name: str, run: Mapping[str, object], outputs: Sequence[Member], private: PrivateStrings
) -> Member:
    """Return run.json with its allowed fields, and ``outputs`` as its captures."""
    kept = _kept(run, RUN_FIELDS, private)
    return json_member(name, "record", {**kept, "captures": [each.capture for each in outputs]})


def archive(
    members: Sequence[Member], manifest: Mapping[str, object], private: PrivateStrings
) -> bytes:
    """Return a bundle with a redacted manifest as a tar archive; the output is deterministic."""
    record = {
        "format": BUNDLE_FORMAT,
        "version": dict(zip(("major", "minor"), BUNDLE_VERSION)),
        **_kept(manifest, MANIFEST_FIELDS, private),
        "captures": [member.capture for member in members],
    }
    return to_tar([*members, json_member(MANIFEST, "record", record)])


def to_tar(members: Sequence[Member]) -> bytes:
    """Return files as a tar archive; the output is deterministic."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for member in members:
            header = tarfile.TarInfo(member.name)
            header.size = len(member.content)
            tar.addfile(header, io.BytesIO(member.content))
    return buffer.getvalue()


def json_member(name: str, collector: str, value: object) -> Member:
    """Return a JSON file."""
    return Member(name, collector, json.dumps(value, indent=1).encode() + b"\n")


def _kept(
    record: Mapping[str, object], fields: Sequence[str], private: PrivateStrings
) -> dict[str, object]:
    clean = cleaner(private)
    return {field: clean(record[field]) for field in fields if field in record}
