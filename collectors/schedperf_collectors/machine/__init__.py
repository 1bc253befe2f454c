# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the machine under test: files, symbols, types, counters."""
