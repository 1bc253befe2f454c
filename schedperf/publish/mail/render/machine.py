# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the line about the machine: its CPU, and the settings that change how it schedules."""

import re
from collections.abc import Mapping

from schedperf.publish.culprit.figures import Evidence, name_machine, side_of
from schedperf.publish.mail.plain import INDENT, cut, spell, wrap
from schedperf_collectors.contract import fields_of

_LONGEST_LINE = 440
_LONGEST_NAME = 60
_SWITCHES = ("sched.numa_balancing", "sched.autogroup")
_DISTRIBUTION = re.compile(r" \([^)]*\)")


def describe_machine(evidence: Evidence) -> list[str]:
    """Return the lines about the machine of the base side.

    :raises InputError: a text is not ASCII
    """
    side = side_of(evidence.main, evidence.culprit.main.before)
    if not side.host:
        return ["Machine: not recorded."]
    host = dict(fields_of(side.host))
    cpu = ", ".join(
        filter(
            None,
            (
                _fact(host, "cpu.family_model_stepping", "{}"),
                _fact(host, "cpu.microcode", "ucode {}"),
            ),
        )
    )
    name = f"{name_machine(side)}{f' ({cpu})' if cpu else ''}"
    facts = [
        name,
        _smt(host),
        _fact(host, "cpufreq.governor", "governor {}"),
        _fact(host, "cpufreq.boost", "boost {}"),
        _fact(host, "sched.hz", "HZ={}"),
        _fact(host, "sched.preempt", "preempt {}"),
        _fact(host, "sched.numa_balancing", "NUMA balancing {}"),
        _fact(host, "sched.autogroup", "autogroup {}"),
        _fact(host, "sched.base_slice_ns", "base_slice {} ns"),
        _fact(host, "cgroup.depth", "cgroup depth {}"),
        _compiler(host),
    ]
    text = spell(", ".join(filter(None, facts)), where="machine")
    return wrap(cut(f"Machine: {text}", _LONGEST_LINE), rest=INDENT)


def _compiler(host: Mapping[str, object]) -> str:
    """Return the compiler without what its distribution adds: ``gcc 15.3.0``."""
    text = _fact(host, "kernel.compiler", "{}").partition(", ")[0]
    return _DISTRIBUTION.sub("", text)


def _smt(host: Mapping[str, object]) -> str:
    is_absent = str(host.get("cpu.smt")) in ("notsupported", "notimplemented")
    return "no SMT" if is_absent else _fact(host, "cpu.smt", "SMT {}")


def _fact(host: Mapping[str, object], path: str, text: str) -> str:
    value = host.get(path)
    if isinstance(value, bool) or path in _SWITCHES:
        value = {0: "off", 1: "on"}.get(value, value) if isinstance(value, int) else value
    return (
        text.format(cut(str(value), _LONGEST_NAME)) if isinstance(value, str | int | float) else ""
    )
