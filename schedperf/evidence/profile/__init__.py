# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare profiles: functions of samples, their shares and costs, call stacks, and changes.

Most modules are pure functions on the recordings of :mod:`schedperf.inputs.perf_data`.
"""
