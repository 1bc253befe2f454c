# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the scheduler's counters in /proc/schedstat by field name.

A counter is identified by (domain level, idle type, field), never by its position, so kernels with
different versions of the file are compared by their common counters.

Read ``fields`` (the fields of each version), ``capture`` (the parser), ``levels``, ``measure``,
``compare`` and ``findings`` in this order. ``record`` defines the record that they fill.
"""
