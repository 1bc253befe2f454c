# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the statistics that a sched_ext scheduler publishes about its own work.

Read ``capture`` (the samples of a run), ``measure`` (which fields count, and how much a run has of
each), ``section`` and ``findings`` in this order. ``record`` defines the record that they fill.
"""
