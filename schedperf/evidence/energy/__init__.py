# SPDX-License-Identifier: GPL-2.0-or-later
"""Energy that the machine used during each run, per package, in joules and per operation.

Read ``capture`` (energy.json and perf.csv of a run), ``section`` and ``findings`` in this order.
``record`` defines the record that they fill.
"""
