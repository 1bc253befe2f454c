# SPDX-License-Identifier: GPL-2.0-or-later
"""Writers of recordings whose truth is known, for tests and benchmarks; not part of the release."""
