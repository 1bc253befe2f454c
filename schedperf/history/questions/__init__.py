# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions that a history answers; each module answers one."""
