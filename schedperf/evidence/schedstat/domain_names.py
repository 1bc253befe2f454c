"""Names of scheduling domains that /proc/schedstat of versions 15 and 16 only numbers.

debugfs has a folder for each domain, counted as show_schedstat() counts them, with a file
``name``. A boot's copy of it names the levels exactly; what host.json knows of the CPUs, only where
the CPUs of a domain are those of a cache or a node.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedperf.bundle.open import Boot, Bundle
from schedperf.evidence.schedstat.capture import Domain
from schedperf.evidence.schedstat.levels import FORMER_NAMES
from schedperf.kernel.sched_debug import read_sched_debug
from schedperf_collectors.contract import Unavailable, parse_cpu_list

# By CPU, the smallest domain first.
Names = Mapping[int, Sequence[str]]
# By level.
Flags = Mapping[str, tuple[str, ...]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)


def read_domain_names(bundle: Bundle, boot: Boot) -> Names:
    """Return the names of each CPU's domains; {} where the boot has no copy of debugfs.

    :raises InputError: the copy is damaged
    """
    debug = read_sched_debug(bundle, boot)
    if debug is None:
        return {}
    found: dict[int, Sequence[str]] = {}
    for kind in debug.per_cpu.get("domains", ()):
        names = _names_of(kind.settings)
        found |= dict.fromkeys(_cpus_of(kind.cpus), names)
    return found


def read_domain_flags(bundle: Bundle, boot: Boot) -> Flags:
    """Return the flags of each level's domains, all that any of them has: ``SD_SHARE_LLC``.

    :return: {} where the boot has no copy of debugfs
    :raises InputError: the copy is damaged
    """
    debug = read_sched_debug(bundle, boot)
    found: dict[str, dict[str, None]] = {}
    for kind in () if debug is None else debug.per_cpu.get("domains", ()):
        for number, name in enumerate(_names_of(kind.settings)):
            flags = kind.settings.get(f"domain{number}/flags", "").split()
            found.setdefault(FORMER_NAMES.get(name, name), {}).update(dict.fromkeys(flags))
    return {level: tuple(flags) for level, flags in found.items() if flags}


def _cpus_of(text: str) -> Sequence[int]:
    try:
        return parse_cpu_list(text)
    except Unavailable:
        return ()


def _names_of(settings: Mapping[str, str]) -> Sequence[str]:
    names: list[str] = []
    while _NAME.fullmatch(name := settings.get(f"domain{len(names)}/name", "")):
        names.append(name)
    return names


def name_domains(domains: Sequence[Domain], names: Names) -> tuple[Domain, ...]:
    """Return the domains with the names that they lack.

    A CPU with another number of domains than at the start of the boot has other domains now:
    a CPU came or went, or a cpuset changed. Its domains are left without names.
    """
    counts = Counter(domain.cpu for domain in domains)
    known = {cpu: found for cpu, found in names.items() if len(found) == counts[cpu]}
    return tuple(
        replace(domain, name=known[domain.cpu][domain.number])
        if domain.name is None and domain.number < len(known.get(domain.cpu, ()))
        else domain
        for domain in domains
    )
