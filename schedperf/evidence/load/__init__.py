# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the results of the background load: a second workload that ran beside the first."""
