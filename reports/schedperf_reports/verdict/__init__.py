# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the verdict, its reasons and its basis: the first and last sections of a report."""
