# SPDX-License-Identifier: GPL-2.0-or-later
"""Render task placement and waiting times as blocks."""
