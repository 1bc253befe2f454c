# SPDX-License-Identifier: GPL-2.0-or-later
"""Find contended cache lines, and the code that reads and writes them."""
