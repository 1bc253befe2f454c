# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot kernels alternately on a real machine, and record in each boot."""
