# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare cache-line layouts of kernels: shared lines, moved entries, and their relevance.

Read ``capture`` (finds the files of a kernel), ``sources`` (``load_kernel`` combines them),
``cotenancy`` (which entries share a line), ``causes`` (which edit moved which entries), ``ranking``
(which changes matter, by the table of hot variables), ``compare`` and ``findings`` in this order;
``record`` defines their record.
"""
