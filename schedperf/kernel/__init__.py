# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a kernel's own files: symbols, types, configuration, and renamed functions."""
