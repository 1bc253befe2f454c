# SPDX-License-Identifier: GPL-2.0-or-later
"""Render blocks as text: for terminals, pipes and Markdown."""
