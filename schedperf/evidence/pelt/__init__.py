# SPDX-License-Identifier: GPL-2.0-or-later
"""PELT: how often load averages were updated, by whom, and how long that took.

Read ``capture``, ``measure``, ``comparability``, ``compare`` and ``findings`` in this order; the
record that they fill is in ``record``, and ``section`` does it for the bundles.
"""
