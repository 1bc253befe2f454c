# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the frequency settings of each type of CPU core: ``cpufreq.governor.cpu_atom``.

host.json has one value for the whole machine and a list of policies. On a machine with several
types of cores the policies of each type are compared, so that a difference names the CPUs.
"""

from collections.abc import Iterable, Iterator, Mapping

from schedperf.model.host import Policy, read_policies, read_types
from schedperf.model.sides import Difference
from schedperf.runs.cpus_of_types import cpus_by_type, cpus_of
from schedperf_collectors.contract import format_cpu_list

POLICIES = "cpufreq.policies"
TYPES = "topology.types"
# The settings of a policy, and whether host.json also has one value for the whole machine.
SETTINGS: Mapping[str, bool] = {
    "governor": True,
    "epp": True,
    "min_khz": True,
    "max_khz": True,
    "hw_min_khz": False,
    "hw_max_khz": False,
}
# The same settings as paths: of the whole machine, and of the types.
WHOLE = {f"cpufreq.{setting}" for setting, is_summed in SETTINGS.items() if is_summed}
PER_TYPE = tuple(f"cpufreq.{setting}." for setting in SETTINGS)


def fields_by_type(host: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield path and value of the frequency settings of each type of core.

    A machine with one type of core, or without valid policies, yields nothing; nor does a setting
    that is unknown. If CPUs of one type differ, the value names the CPUs: ``powersave on 0-2,
    performance on 3``.
    """
    types = cpus_by_type(read_types(host))
    policies = read_policies(host) if types else ()
    for name, cpus in types.items():
        for setting in SETTINGS:
            value = _value(policies, setting, cpus)
            if value is not None:
                yield f"cpufreq.{setting}.{name}", value


def without_repeats(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Yield the differences that no other difference implies.

    If a setting differs on one type of core, the difference names the type, and the value of the
    whole machine is left out. If one side lacks a type, only the CPUs of that type are yielded, not
    its other fields; the values of the whole machine stay.
    """
    listed = list(differences)
    named = {
        (each.side, each.path.rsplit(".", 1)[0])
        for each in listed
        if None not in (each.base, each.new)
    }
    one_sided = {
        (each.side, each.path.removeprefix(f"{TYPES}.").removesuffix(".cpus"))
        for each in listed
        if each.path.startswith(f"{TYPES}.")
        and each.path.endswith(".cpus")
        and None in (each.base, each.new)
    }
    for each in listed:
        is_sum = each.path in WHOLE and (each.side, each.path) in named
        of_type = (each.side, _type_of(each.path)) in one_sided
        if not is_sum and (not of_type or each.path.endswith(".cpus")):
            yield each


def _type_of(path: str) -> str:
    if path.startswith(f"{TYPES}."):
        return path.removeprefix(f"{TYPES}.").rpartition(".")[0]
    return next((path.removeprefix(prefix) for prefix in PER_TYPE if path.startswith(prefix)), "")


def _value(policies: Iterable[Policy], setting: str, cpus: frozenset[int]) -> object:
    by_value: dict[object, set[int]] = {}
    for policy in policies:
        value, mine = getattr(policy, setting), cpus_of(policy) & cpus
        if value is not None and mine:
            by_value.setdefault(value, set()).update(mine)
    if len(by_value) < 2:  # noqa: PLR2004 # all alike
        return next(iter(by_value), None)
    return ", ".join(f"{value} on {format_cpu_list(sorted(of))}" for value, of in by_value.items())
