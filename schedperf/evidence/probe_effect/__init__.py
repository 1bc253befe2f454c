# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the overhead of instrumentation: instrumented runs against clean runs."""
