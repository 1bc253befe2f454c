# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot kernels alternately in virtual machines and record one bundle each.

:mod:`~schedperf.lab.vm.images` reads kernel images, :mod:`~schedperf.lab.vm.machine` defines the
guest's hardware, :mod:`~schedperf.lab.vm.script` writes its script, :mod:`~schedperf.lab.vm.guest`
boots once, and :mod:`~schedperf.lab.vm.session` makes all boots in order and keeps their bundles.
docs/vm.md is the user documentation.
"""
