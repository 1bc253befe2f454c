# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory samples to analyse: made by the generator, or out of numbers."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from schedperf.evidence.c2c.analysis import analyse_memory
from schedperf.evidence.c2c.model import MemoryProfile
from schedperf.evidence.c2c.namer import Namer
from schedperf.evidence.c2c.naming import Variables
from schedperf.inputs.kernel.kallsyms import parse_kernel_symbols
from schedperf.inputs.kernel.percpu_units import PercpuUnits
from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.inputs.symbols.places import Symbols
from schedperf_generators.memory import MemoryRun
from schedperf_generators.perf_data import write_perf_data


def _units_of(run: MemoryRun) -> PercpuUnits:
    return PercpuUnits(
        method="kcore",
        units=run.numa.unit_bases(),
        unit_bytes=run.numa.unit_bytes,
        first_chunk_bytes=None,
        cpus=None,
    )


def _analyse(
    run: MemoryRun,
    *,
    units: PercpuUnits | None = None,
    variables: Variables | None = None,
    changes: Mapping[str, Any] | None = None,
) -> MemoryProfile:
    raw = write_perf_data(run.perf_data())
    recording = read_perf_data(raw, "generated", keep=frozenset({Keep.MEMORY}))
    kernel = parse_kernel_symbols(run.kernel.kallsyms(), "kallsyms")
    symbols = Symbols(kernel, lambda _: None)
    namer = Namer(units=units, variables=variables, symbols=symbols)
    nodes = {cpu: run.numa.node(cpu) for cpu in range(run.numa.cpus)}
    options = {"node_of_cpu": nodes, "line_bytes": 64, **(changes or {})}
    return analyse_memory(recording, namer=namer, **options)


@pytest.fixture(scope="session")
def units_of() -> Callable[[MemoryRun], PercpuUnits]:
    """Return the units of a run's CPUs, as the best collector learns them."""
    return _units_of


@pytest.fixture(scope="session")
def analyse() -> Callable[..., MemoryProfile]:
    """Write a run as perf.data, read it and analyse it: ``analyse(run, units=, variables=)``."""
    return _analyse
