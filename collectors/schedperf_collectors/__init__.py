"""Programs for the machine under test, and the bundle contract that they share with the analysis.

Standard library only, Python 3.9 or newer: this package travels alone, as a
zipapp, to machines that have nothing else. The analysis imports the names of
this module; collectors import nothing of ours.
"""

from __future__ import annotations

__version__ = "0.1.0"

BUNDLE_FORMAT = "schedperf-bundle"
# Readers refuse a newer major and warn about a newer minor.
BUNDLE_VERSION = (1, 0)

MANIFEST = "manifest.json"


def boot_folder(boot: int) -> str:
    """Return where a boot's captures lie inside the bundle: ``boots/0``."""
    return f"boots/{boot}"


def run_folder(boot: int, run: int) -> str:
    """Return where a run's captures lie inside the bundle: ``boots/0/runs/007``."""
    return f"{boot_folder(boot)}/runs/{run:03d}"


def point_key(point: dict[str, str]) -> str:
    """Return the canonical text of a point, ``fds=20,groups=4``; "" without parameters."""
    return ",".join(f"{name}={point[name]}" for name in sorted(point))
