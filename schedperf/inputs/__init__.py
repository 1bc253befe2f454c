# SPDX-License-Identifier: GPL-2.0-or-later
"""Read input files: bundles, benchmark output, other tools' results, tables, perf.data, kernels."""
