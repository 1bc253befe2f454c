# SPDX-License-Identifier: GPL-2.0-or-later
"""Run an analysis without work that it does not need: garbage collection, unused imports."""

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# scipy.special imports these for its support of other array libraries: half of its time.
UNUSED = ("numpy.f2py", "numpy.testing", "numpy.ma", "numpy.polynomial", "numpy.ctypeslib")
BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def lean() -> Iterator[None]:
    """Import NumPy quickly, and do not look for cycles of garbage meanwhile.

    Records of an input hold no cycles, and looking for them takes a tenth of the time.
    """
    _import_numpy()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _import_numpy() -> None:
    """Import NumPy with one thread of BLAS, and load its unused modules on their first use.

    OpenBLAS starts a thread per CPU, and the matrices of an analysis are too small for them. The
    environment is restored, because workloads inherit it.
    """
    if "numpy" in sys.modules:
        return
    is_set = BLAS_THREADS in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    try:
        import numpy as np  # noqa: F401, PLC0415 # commands import nothing heavy at their top
    finally:
        if not is_set:
            del os.environ[BLAS_THREADS]
    for name in UNUSED:
        _import_on_first_use(name)


def _import_on_first_use(name: str) -> None:
    """Register a module that is executed when an attribute of it is first used."""
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    package, _, attribute = name.rpartition(".")
    setattr(sys.modules[package], attribute, module)
