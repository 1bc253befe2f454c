# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe and draw what ``schedperf history`` answers."""
