# SPDX-License-Identifier: GPL-2.0-or-later
"""The night of one machine: two kernels recorded, compared, retested, published and drafted."""
