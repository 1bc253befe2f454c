# SPDX-License-Identifier: GPL-2.0-or-later
"""Write bundles of many nights: those of an example, each with other times and identities."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

FIRST = date(2024, 6, 1)
# Members of an example that are larger are left out: nights capture no profiles.
LARGEST_BYTES = 64 << 10
MANIFEST = "manifest.json"
_TIME = re.compile(rb"^Time: .*$", re.MULTILINE)
_SIDES = ("base", "new")


def night_name(number: int) -> str:
    """Return the date of a night, counted from 0."""
    return f"{FIRST + timedelta(days=number):%Y-%m-%d}"


def read_members(example: Path) -> Mapping[str, bytes]:
    """Return the small members of a bundle."""
    with tarfile.open(example) as archive:
        return {
            member.name: file.read()
            for member in archive
            if (member.size <= LARGEST_BYTES or member.name == MANIFEST)
            and (file := archive.extractfile(member)) is not None
        }


def write_nights(folder: Path, members: Mapping[str, bytes], bundles: int) -> int:
    """Write the folders of nights, two bundles each; return the bytes of all bundles."""
    size = 0
    for number in range(bundles // len(_SIDES)):
        night = folder / night_name(number)
        night.mkdir(parents=True)
        for side in _SIDES:
            path = night / f"night-{side}.tar"
            _write(path, dict(_variant(members, number, side)))
            size += path.stat().st_size
        state = {
            "schema": "schedperf/night/1",
            "id": night.name,
            "machine": "bench",
            "job": "hackbench",
            "outcome": "no regression",
        }
        (night / "state.json").write_text(json.dumps(state))
    return size


def _write(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _variant(members: Mapping[str, bytes], number: int, side: str) -> Iterator[tuple[str, bytes]]:
    """Yield the members of a bundle, the manifest last."""
    changed = dict(members)
    for index, name in enumerate(sorted(members)):
        if name.endswith("/stdout"):
            time_s = 0.5 + (number * 31 + index * 7) % 100 / 5_000.0
            changed[name] = _TIME.sub(b"Time: %.3f" % time_s, members[name])
    for name in members:
        if name.endswith("/run.json"):
            changed[name] = _run(json.loads(members[name]), name, changed, f"{number}-{side}")
    manifest = json.loads(members[MANIFEST])
    manifest["created"] = f"{night_name(number)}T22:00:00Z"
    manifest["captures"] = [*_captures(manifest["captures"], "", changed)]
    del changed[MANIFEST]
    yield from changed.items()
    yield MANIFEST, json.dumps(manifest).encode()


def _run(run: dict[str, Any], name: str, members: Mapping[str, bytes], session: str) -> bytes:
    run["session"] = session
    run["captures"] = [*_captures(run["captures"], f"{name.rpartition('/')[0]}/", members)]
    return json.dumps(run).encode()


def _captures(
    captures: list[dict[str, Any]], folder: str, members: Mapping[str, bytes]
) -> Iterator[dict[str, Any]]:
    """Yield the entries of members that are not left out, with their checksums."""
    for entry in captures:
        content = members.get(folder + entry["path"])
        if content is not None:
            sha256 = hashlib.sha256(content).hexdigest()
            yield {**entry, "sha256": sha256, "bytes": len(content)}
        elif entry["status"] != "ok":
            yield entry
