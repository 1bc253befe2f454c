# SPDX-License-Identifier: GPL-2.0-or-later
"""Map names on a cache line to units and entries of the layout.

>>> entries_of("percpu+0x2ba40", "runqueues.cfs.avg.load_avg")
(('percpu', 'runqueues'), ('struct rq', 'cfs.avg.load_avg'))
>>> entries_of("task_group+0x100", "task_group.load_avg")
(('struct task_group', 'load_avg'),)
"""

import re
from collections import Counter
from collections.abc import Iterable

from schedperf.evidence.c2c.merge import SeenLine
from schedperf.evidence.layout.heat import heat_table

# Units of variables; all other lines belong to objects of structs.
_VARIABLES = frozenset({"percpu", "globals"})
_KEY = re.compile(r"(\w+)[+:]")
_INDEX = re.compile(r"\[\d*\]|#\d+")


def entries_of(key: str, name: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of unit and entry for a name, outermost first.

    :param key: key of the cache line
    :param name: variable and field, or struct and field
    :return: a pair for the variable, and one for the field if the variable's struct is known; of a
        struct, only the pair of the field; empty for a struct without a field
    """
    head, _, path = name.partition(".")
    match = _KEY.match(key)
    unit = match[1] if match else ""
    if unit not in _VARIABLES:
        return ((f"struct {head}", path),) if path else ()
    variable = _INDEX.sub("", head)
    struct = heat_table().embedded.get(unit, {}).get(variable)
    outer = (unit, variable)
    return (outer, (struct, path)) if struct and path else (outer,)


def contended_entries(lines: Iterable[SeenLine]) -> dict[str, dict[str, int]]:
    """Count the contended samples of each entry, by unit and entry.

    Unnamed accesses are not counted. Entries without contended samples are left out.
    """
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        for access in line.accesses:
            if access.name is None:
                continue
            for unit, entry in entries_of(line.key, access.name):
                counts.setdefault(unit, Counter())[entry] += access.local + access.remote
    return {unit: dict(+entries) for unit, entries in counts.items()}
