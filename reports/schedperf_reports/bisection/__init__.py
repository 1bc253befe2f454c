# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the record of ``schedperf bisect``: its page, and its figure for notebooks."""
