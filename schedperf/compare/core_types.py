# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the frequency settings of each type of CPU core: ``cpufreq.governor.cpu_atom``.

host.json has one value for the whole machine and a list of policies. On a machine with several
types of cores the policies of each type are compared, so that a difference names the CPUs.
"""

from collections.abc import Iterable, Iterator, Mapping

from schedperf.model.comparison import Difference
from schedperf.model.host import Policy, read_policies, read_types
from schedperf_collectors.contract import format_cpu_list

POLICIES = "cpufreq.policies"
TYPES = "topology.types"
# Of a policy, and whether host.json also has one value for the whole machine.
SETTINGS: Mapping[str, bool] = {
    "governor": True,
    "epp": True,
    "min_khz": True,
    "max_khz": True,
    "hw_min_khz": False,
    "hw_max_khz": False,
}


def fields_by_type(host: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield path and value of the frequency settings of each type of core.

    Nothing on a machine with one type, or without policies. If CPUs of one type differ, the value
    names the CPUs: ``powersave on 0-2, performance on 3``.
    """
    types = read_types(host)
    policies = read_policies(host) if len(types) > 1 else ()
    for name, core in types.items():
        cpus = frozenset(core.numbers())
        for setting in SETTINGS:
            value = _value(policies, setting, cpus)
            if value is not None:
                yield f"cpufreq.{setting}.{name}", value


def without_sums(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yield differences without those of the whole machine that are named by type of core."""
    listed = list(differences)
    named = {
        (each.side, each.path.rsplit(".", 1)[0])
        for each in listed
        if None not in (each.base, each.new)
    }
    whole = {f"cpufreq.{setting}" for setting, is_summed in SETTINGS.items() if is_summed}
    for each in listed:
        if each.path not in whole or (each.side, each.path) not in named:
            yield each


def _value(policies: Iterable[Policy], setting: str, cpus: frozenset[int]) -> object:
    cpus_of: dict[object, set[int]] = {}
    for policy in policies:
        value, mine = getattr(policy, setting), policy.numbers() & cpus
        if value is not None and mine:
            cpus_of.setdefault(value, set()).update(mine)
    if len(cpus_of) < 2:  # noqa: PLR2004 # all alike
        return next(iter(cpus_of), None)
    return ", ".join(f"{value} on {format_cpu_list(sorted(of))}" for value, of in cpus_of.items())
