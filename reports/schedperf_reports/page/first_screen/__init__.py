# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the first screen of a page: verdict, size and certainty, reasons, machine, next step."""
