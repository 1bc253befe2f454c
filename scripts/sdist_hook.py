# SPDX-License-Identifier: GPL-2.0-or-later
"""Hatchling build hook: compress the archive of the sources better than gzip does."""

import gzip
import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import zopfli.gzip
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# More of them take longer for little: 5 make it 0.3% smaller than 2 do.
ITERATIONS = 5


class Smaller(BuildHookInterface[Any]):
    """Compress the finished archive again; its files stay the same."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 # hatchling's signature
        path = Path(artifact_path)
        archive = sort_by_kind(gzip.decompress(path.read_bytes()))
        path.write_bytes(zopfli.gzip.compress(archive, numiterations=ITERATIONS))


def sort_by_kind(archive: bytes) -> bytes:
    """Return a tar archive with the files of one suffix side by side, which compress better.

    PKG-INFO contains the text of README.md.
    """

    def kind_of(member: tarfile.TarInfo) -> tuple[str, str]:
        path = PurePosixPath(member.name)
        return ".md" if path.name == "PKG-INFO" else path.suffix, member.name

    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        tarfile.open(fileobj=made, mode="w") as target,
    ):
        for member in sorted(source, key=kind_of):
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return made.getvalue()
