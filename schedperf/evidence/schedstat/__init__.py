# SPDX-License-Identifier: GPL-2.0-or-later
"""What the scheduler did, by its own count: /proc/schedstat of runs, compared by name.

A count is named by (domain level, idle type, field), never by its place, so kernels of different
versions of the file can be compared where they count the same, and are not where they do not.

Read ``fields`` (what each version of the file has), ``capture`` (which parses it), ``levels``,
``measure``, ``compare`` and ``findings`` in this order; the record that they fill is in ``record``.
"""
