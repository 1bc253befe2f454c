# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot kernels alternately in virtual machines and record one bundle each.

:mod:`~schedperf.vm.images` reads kernel images, :mod:`~schedperf.vm.machine` defines the guest's
hardware, :mod:`~schedperf.vm.script` writes its script, :mod:`~schedperf.vm.guest` boots once, and
:mod:`~schedperf.vm.session` makes all boots in order and keeps their bundles. docs/vm.md is the
user documentation.
"""
