# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of schedperf.commands._lean, in a Python that has not imported NumPy yet."""

import subprocess
import sys

import pytest

from schedperf.commands._lean import BLAS_THREADS, UNUSED

PROGRAM = f"""
import gc, os, sys, types
from schedperf.commands._lean import lean

with lean():
    assert not gc.isenabled()
    from scipy import special
    assert special.ndtr(0.0) == 0.5
    print({BLAS_THREADS!r}, os.environ.get({BLAS_THREADS!r}))
    for name in {UNUSED!r}:
        # type() does not execute a module that waits for its first use.
        print(name, type(sys.modules[name]) is not types.ModuleType)
assert gc.isenabled()
import numpy
print(numpy.ma.array([1, 2], mask=[0, 1]).sum(), numpy.testing.assert_equal(1, 1))
"""


@pytest.mark.parametrize("threads", [None, "3"])
def test_unused_modules_wait_and_the_environment_stays(
    monkeypatch: pytest.MonkeyPatch, threads: str | None
) -> None:
    if threads is None:
        monkeypatch.delenv(BLAS_THREADS, raising=False)
    else:
        monkeypatch.setenv(BLAS_THREADS, threads)
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    first, *modules, last = printed.stdout.splitlines()
    assert first == f"{BLAS_THREADS} {threads}"
    waiting = {line.split()[0] for line in modules if line.endswith("True")}
    assert waiting >= {"numpy.f2py", "numpy.testing", "numpy.polynomial"}
    assert last == "1 None"
