# SPDX-License-Identifier: GPL-2.0-or-later
"""Read bundles: untrusted archives, checked member by member and never unpacked."""
