# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare task placement: migrations, waits, load-balancer decisions, phases of timers.

Read ``capture``, ``measure``, ``comparability``, ``compare``, ``distributions`` and ``findings`` in
this order. ``record`` defines the record that they fill.
"""
