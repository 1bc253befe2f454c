"""Task placement, compared: counts of moves, waits, answers of the balancer, phases of timers.

Read ``capture``, ``measure``, ``comparability``, ``compare``, ``distributions`` and ``findings`` in
this order; the record that they fill is in ``record``.
"""
