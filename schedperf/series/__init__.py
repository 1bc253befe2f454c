# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of commits: read it from a repository, build each kernel, locate a change."""
