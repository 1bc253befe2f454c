# SPDX-License-Identifier: GPL-2.0-or-later
"""Read symbols and types of kernels, per-CPU base addresses, and symbols of programs.

Kernel functions that were renamed have their newest name.
"""
