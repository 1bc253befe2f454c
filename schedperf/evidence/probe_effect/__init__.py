# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instruments cost: instrumented runs against clean runs."""
