"""Programs for the machine under test.

Standard library only, Python 3.9 or newer: this package travels alone, as a
zipapp, to machines that have nothing else. The analysis imports :mod:`contract` and
:mod:`perf_header`; collectors import nothing of ours.
"""

from __future__ import annotations

__version__ = "0.1.0"
