# SPDX-License-Identifier: GPL-2.0-or-later
"""Publish culprits and comparisons as static pages, without private strings."""
