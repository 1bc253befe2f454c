# SPDX-License-Identifier: GPL-2.0-or-later
"""Hatchling build hook: add the man pages to the wheel, in share/man/man1."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Write the man pages before a wheel is built, and remove them afterwards.

    Editable installs get none.
    """

    _folder = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable install would not update the pages.
        if version == "editable":
            return
        self._folder = tempfile.mkdtemp()
        program = Path(self.root, "scripts", "man_pages.py")
        subprocess.run([sys.executable, program, self._folder], check=True)
        for page in sorted(Path(self._folder).iterdir()):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 # hatchling's signature
        shutil.rmtree(self._folder, ignore_errors=True)
