# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot kernels alternately in virtual machines and record one bundle each.

:mod:`~schedperf.vm.images` reads what is booted, :mod:`~schedperf.vm.machine` says what it is
booted on, :mod:`~schedperf.vm.script` what it does then, :mod:`~schedperf.vm.guest` boots once,
:mod:`~schedperf.vm.session` as often as asked and in which order, and keeps what came out.
docs/vm.md is for users.
"""
