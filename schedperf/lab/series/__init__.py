# SPDX-License-Identifier: GPL-2.0-or-later
"""Fetch the patches of a series."""
