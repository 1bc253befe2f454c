# SPDX-License-Identifier: GPL-2.0-or-later
"""Overhead of instrumentation: instrumented runs against clean runs."""
