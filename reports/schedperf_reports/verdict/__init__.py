# SPDX-License-Identifier: GPL-2.0-or-later
"""The verdict, its reasons and what it is based on: the first and last sections of a report."""
