# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of the scheduler: compare /proc/schedstat of runs by field name.

A counter is identified by (domain level, idle type, field), never by its position, so kernels with
different versions of the file are compared in the counters that both have.

Read ``fields`` (the fields of each version), ``capture`` (the parser), ``levels``, ``measure``,
``compare`` and ``findings`` in this order. ``record`` defines the record that they fill.
"""
