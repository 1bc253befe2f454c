# SPDX-License-Identifier: GPL-2.0-or-later
"""Read tables of published numbers, and check their consistency."""
