# SPDX-License-Identifier: GPL-2.0-or-later
"""Mails about first bad commits: rendered once, checked, held for a person, and sent once."""
