# SPDX-License-Identifier: GPL-2.0-or-later
"""Render profiles and flame graphs as blocks."""
