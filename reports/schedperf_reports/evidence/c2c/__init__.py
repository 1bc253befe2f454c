# SPDX-License-Identifier: GPL-2.0-or-later
"""Contended cache lines, as blocks."""
