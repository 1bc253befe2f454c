# SPDX-License-Identifier: GPL-2.0-or-later
"""Leave private strings out of host.json, texts and bundles, by an allow-list."""
