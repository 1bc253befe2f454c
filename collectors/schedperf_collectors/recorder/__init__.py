# SPDX-License-Identifier: GPL-2.0-or-later
"""Record runs: commands, the plan of the runs, and the bundle."""
