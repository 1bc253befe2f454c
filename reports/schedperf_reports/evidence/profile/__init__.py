# SPDX-License-Identifier: GPL-2.0-or-later
"""Profiles and flame graphs, as blocks."""
