# SPDX-License-Identifier: GPL-2.0-or-later
"""Hatchling build hook: compress the archive of the sources better than gzip does."""

import gzip
from pathlib import Path
from typing import Any

import deflate
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEVEL = 12


class Smaller(BuildHookInterface[Any]):
    """Compress the finished archive again; its content stays the same."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 # hatchling's signature
        path = Path(artifact_path)
        path.write_bytes(deflate.gzip_compress(gzip.decompress(path.read_bytes()), LEVEL))
