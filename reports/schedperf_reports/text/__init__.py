# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks as text: for terminals, pipes and Markdown."""
