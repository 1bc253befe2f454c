# SPDX-License-Identifier: GPL-2.0-or-later
"""The record that every report is drawn from, and the words, units and errors it shares with the
analysis."""
