# SPDX-License-Identifier: GPL-2.0-or-later
"""Handle mails about first bad commits: render, check, hold for approval, and send once."""
