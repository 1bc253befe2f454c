# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``hardware``: the result was measured on a real machine."""

from schedperf.model.host import read_host
from schedperf.model.sides import SideSummary
from schedperf.model.worse import is_emulated
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import Check


def check(evidence: Evidence) -> Check:
    """Fail for timings from an emulator or a guest, and if the machine is not recorded.

    :raises InputError: the record has no regression, or its comparison is missing
    """
    row = evidence.headline()
    emulated = "emulated: repeat on real hardware" if is_emulated(row) else None
    return Check.of("hardware", emulated, *map(_problem, evidence.main_sides))


def _problem(side: SideSummary) -> str | None:
    machine = read_host(side.host).virtualisation
    if machine.emulated:
        return f"emulated ({machine.machine}): repeat on real hardware"
    if machine.kind is None:
        return f"{side.name}: not recorded whether it is a real machine: record it with schedperf"
    if machine.kind != "none":
        return f"measured in a guest ({machine.machine}): repeat on real hardware"
    return None
