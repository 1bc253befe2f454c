# SPDX-License-Identifier: GPL-2.0-or-later
"""The first screen of a page: what changed, how much, how sure, why, on what machine, what next."""
