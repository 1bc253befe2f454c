# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines of kernels: who shares one, what moved, and whether it matters.

Read ``capture`` (finds the files of a kernel), ``sources`` (``load_kernel`` puts them together),
``cotenancy`` (who shares a line), ``causes`` (which edit moved what), ``ranking`` (which change
matters, by the table of hot variables), ``compare`` and ``findings`` in this order; the record that
they fill is in ``record``.
"""
