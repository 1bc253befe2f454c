# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the pages of a lab from its history: tonight, machines, series, nights, decisions."""
