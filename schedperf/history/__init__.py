# SPDX-License-Identifier: GPL-2.0-or-later
"""The history of a laboratory: its results over months, and what was decided about them."""
