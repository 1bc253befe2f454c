# SPDX-License-Identifier: GPL-2.0-or-later
"""Determine whether a Linux scheduler change made a benchmark slower, and show the reasons.

What a script or a notebook needs is here: ``schedperf.open_bundle``, ``schedperf.compare_bundles``,
``schedperf.compare_runs``, ``schedperf.read_table``, and the records of the sections.
docs/python.md shows them at work.
"""

import importlib
from typing import TYPE_CHECKING

from schedperf_collectors import __version__

if TYPE_CHECKING:
    from schedperf.bundle.open import open_bundle
    from schedperf.compare.bundles import CompareOptions, compare_bundles
    from schedperf.evidence.c2c.record import C2c
    from schedperf.evidence.layout.record import Layout
    from schedperf.evidence.pelt.record import Pelt
    from schedperf.evidence.perf_stat.record import Counters
    from schedperf.evidence.placement.record import Placement
    from schedperf.evidence.probe_effect.record import ProbeEffect
    from schedperf.evidence.profile.record import FlameTrees, Profile
    from schedperf.evidence.schedstat.record import Schedstat
    from schedperf.evidence.system.record import SystemCounters
    from schedperf.model.comparison import Comparison
    from schedperf.stats import compare_runs
    from schedperf.tables.read import read_table

__all__ = [
    "C2c",
    "CompareOptions",
    "Comparison",
    "Counters",
    "FlameTrees",
    "Layout",
    "Pelt",
    "Placement",
    "ProbeEffect",
    "Profile",
    "Schedstat",
    "SystemCounters",
    "__version__",
    "compare_bundles",
    "compare_runs",
    "open_bundle",
    "read_table",
]

# Imported when they are asked for: the command imports this package, and must start fast.
_MODULES = {
    "C2c": "evidence.c2c.record",
    "CompareOptions": "compare.bundles",
    "Comparison": "model.comparison",
    "Counters": "evidence.perf_stat.record",
    "FlameTrees": "evidence.profile.record",
    "Layout": "evidence.layout.record",
    "Pelt": "evidence.pelt.record",
    "Placement": "evidence.placement.record",
    "ProbeEffect": "evidence.probe_effect.record",
    "Profile": "evidence.profile.record",
    "Schedstat": "evidence.schedstat.record",
    "SystemCounters": "evidence.system.record",
    "compare_bundles": "compare.bundles",
    "compare_runs": "stats",
    "open_bundle": "bundle.open",
    "read_table": "tables.read",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__]
