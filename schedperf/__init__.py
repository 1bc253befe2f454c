# SPDX-License-Identifier: GPL-2.0-or-later
"""Determine whether a Linux scheduler change made a benchmark slower, and show the reasons.

What a script or a notebook needs is in ``__init__.pyi``, and is imported on first use: the command
imports this package, too, and must start fast. docs/python.md shows how to use it.
"""

import lazy_loader

from schedperf_collectors import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
