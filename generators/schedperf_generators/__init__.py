# SPDX-License-Identifier: GPL-2.0-or-later
"""Generate recordings with known contents, for tests and benchmarks; not part of the release."""
