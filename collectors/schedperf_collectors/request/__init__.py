# SPDX-License-Identifier: GPL-2.0-or-later
"""Record what a maintainer asks a reporter for: ``schedperf pack --ask``."""
