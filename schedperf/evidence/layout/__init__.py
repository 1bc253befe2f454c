# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache-line layouts of kernels: which entries share a line, what moved, and whether it matters.

Read ``capture`` (finds the files of a kernel), ``sources`` (``load_kernel`` puts them together),
``cotenancy`` (which entries share a line), ``causes`` (which edit moved what), ``ranking`` (which
change matters, by the table of hot variables), ``compare`` and ``findings`` in this order;
``record`` defines their record.
"""
