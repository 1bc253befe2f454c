# SPDX-License-Identifier: GPL-2.0-or-later
"""Render mails about first bad commits, and the weekly digest."""
