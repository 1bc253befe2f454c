# SPDX-License-Identifier: GPL-2.0-or-later
"""Render contended cache lines as blocks."""
