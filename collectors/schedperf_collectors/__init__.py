# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder and its collectors, which run on the machine under test.

Needs only Python 3.9 and its standard library, so that it runs as a zipapp on machines without
other packages. The analysis imports modules of this package, e.g. :mod:`contract` and
:mod:`perf_header`; this package imports nothing from the analysis.
"""

from __future__ import annotations

__version__ = "0.2.0"
