# SPDX-License-Identifier: GPL-2.0-or-later
"""Read symbols and types of kernels, per-CPU base addresses, and symbols of programs.

:mod:`~schedperf.inputs.kernel.renames` maps renamed kernel functions to their newest names.
"""
