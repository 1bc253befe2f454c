# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse sched_debug.json: scheduler settings that are not in host.json.

::

    {"source": "/sys/kernel/debug/sched",
     "settings": {"nr_migrate": "32", "numa_balancing/scan_size_mb": "256"},
     "per_cpu": {"domains": [{"cpus": "0-3", "settings": {"domain0/name": "MC", …}}]},
     "missing": {}}
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import decode
from schedperf.inputs.bundle.open import Boot
from schedperf.inputs.side import Side

FOLDER = "sched_debug"
# The largest file: 256 kinds of CPUs, each with nine settings per domain.
LARGEST_BYTES = 16 << 20
MOST_SETTINGS = 1024
MOST_KINDS = 256
LONGEST_VALUE = 4096

Texts = Annotated[
    Mapping[str, Annotated[str, Meta(max_length=LONGEST_VALUE)]], Meta(max_length=MOST_SETTINGS)
]


class CpuKind(Struct, frozen=True, kw_only=True):
    """CPUs that have the same settings.

    :param cpus: CPU list as the kernel prints it: "0-3"
    :param settings: values by name, e.g. "domain0/flags"
    """

    cpus: str
    settings: Texts


class SchedDebug(Struct, frozen=True, kw_only=True):
    """The settings of one boot.

    :param source: directory that they were read from
    :param settings: values by name, as the kernel prints them
    :param per_cpu: per-CPU settings by folder: "domains", "fair_server"
    :param missing: reasons for missing settings, by name
    """

    source: str
    settings: Texts
    per_cpu: Mapping[str, Annotated[tuple[CpuKind, ...], Meta(max_length=MOST_KINDS)]]
    missing: Texts


def parse_sched_debug(content: bytes, label: str) -> SchedDebug:
    """Parse sched_debug.json.

    :raises InputError: the file is damaged
    """
    return decode(content, SchedDebug, label)


def read_sched_debug(side: Side, boot: Boot) -> SchedDebug | None:
    """Return the settings of a boot; None if they were not captured.

    :raises InputError: the capture is damaged
    """
    name = f"{boot.folder}/{FOLDER}/sched_debug.json"
    if side.bundle.size(name) is None:
        return None
    return side.parsed(name, LARGEST_BYTES, parse_sched_debug)


def flat_settings(debug: SchedDebug) -> dict[str, str]:
    """Return all settings by name, to compare two boots.

    A per-CPU setting has a name like ``domains/domain0/flags``. If CPUs differ, the value lists
    the CPUs of each value: ``SMT (0-3), MC (4-7)``.
    """
    flat = dict(debug.settings)
    for name, kinds in debug.per_cpu.items():
        values: dict[str, dict[str, list[str]]] = {}
        for kind in kinds:
            for setting, value in kind.settings.items():
                values.setdefault(setting, {}).setdefault(value, []).append(kind.cpus)
        flat |= {f"{name}/{setting}": _one_value(cpus) for setting, cpus in values.items()}
    return flat


def _one_value(cpus: Mapping[str, Sequence[str]]) -> str:
    if len(cpus) == 1:
        return next(iter(cpus))
    return ", ".join(f"{value} ({','.join(lists)})" for value, lists in cpus.items())
