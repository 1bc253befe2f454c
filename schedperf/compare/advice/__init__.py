# SPDX-License-Identifier: GPL-2.0-or-later
"""Suggest commands that record a side again, or that make two sides comparable."""
