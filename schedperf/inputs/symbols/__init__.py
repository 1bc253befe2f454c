# SPDX-License-Identifier: GPL-2.0-or-later
"""Resolve addresses of samples and call chains to functions."""
