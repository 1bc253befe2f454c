# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of ``../shared``, which is not part of this repository; tests that need them skip."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
# One directory per kernel; examples/cluster-percpu/README.md says how to build them.
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", SHARED / "kernels")).absolute()


def shared(name: str) -> Path:
    """Return a file or directory of ``../shared``; skip the test if it does not exist."""
    return _existing(SHARED / name, f"../shared/{name}")


def shared_kernel(name: str, file: str = "System.map") -> Path:
    """Return the directory of a kernel that has this file; skip the test if it does not exist."""
    return _existing(KERNELS / name / file, f"../shared/kernels/{name}/{file}").parent


def _existing(path: Path, name: str) -> Path:
    if not path.exists():
        pytest.skip(f"needs {name}, which is not part of this repository")
    return path
