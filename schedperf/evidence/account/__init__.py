# SPDX-License-Identifier: GPL-2.0-or-later
"""Account for the time of the workload's own tasks: on a CPU, waiting for one, or blocked.

Read ``capture`` (account.json and the resource usage of a run), ``section`` and ``findings`` in
this order. ``record`` defines the record that they fill.
"""
