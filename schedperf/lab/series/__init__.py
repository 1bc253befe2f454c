# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure a series of commits: fetch patches, build each kernel, locate a change."""
