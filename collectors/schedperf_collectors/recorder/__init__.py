# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder: its commands, the plan of its runs, and the bundle it writes."""
