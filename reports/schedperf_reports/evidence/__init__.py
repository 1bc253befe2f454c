# SPDX-License-Identifier: GPL-2.0-or-later
"""One file or directory per kind of evidence; the public module of each registers its report
section."""
