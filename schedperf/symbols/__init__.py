# SPDX-License-Identifier: GPL-2.0-or-later
"""Name addresses: from samples and call chains to functions."""
