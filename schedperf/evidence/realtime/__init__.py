# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare real-time latencies: samples above thresholds, and maxima."""
