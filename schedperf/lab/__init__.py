# SPDX-License-Identifier: GPL-2.0-or-later
"""Drive machines: guests, the kernels of a series, and nights."""
