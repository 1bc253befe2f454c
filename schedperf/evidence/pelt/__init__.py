# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare PELT updates: how often, from which contexts, and how long they took.

Read ``capture``, ``measure``, ``comparability``, ``compare`` and ``findings`` in this order.
``record`` defines the record that they fill; ``section`` applies them to bundles.
"""
