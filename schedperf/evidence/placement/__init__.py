# SPDX-License-Identifier: GPL-2.0-or-later
"""Task placement, compared: migrations, waits, results of the load balancer, phases of timers.

Read ``capture``, ``measure``, ``comparability``, ``compare``, ``distributions`` and ``findings`` in
this order; the record that they fill is in ``record``.
"""
