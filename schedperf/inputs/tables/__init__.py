# SPDX-License-Identifier: GPL-2.0-or-later
"""Read tables of runs or published means, and check their consistency."""
