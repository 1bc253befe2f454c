# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the energy that the machine used during runs: in joules, per run and per operation.

Read ``capture`` (energy.json and perf.csv of a run), ``section`` and ``findings`` in this order.
``record`` defines the record that they fill.
"""
