# SPDX-License-Identifier: GPL-2.0-or-later
"""Render evidence: each public module, or ``section.py`` of a package, registers a section."""
