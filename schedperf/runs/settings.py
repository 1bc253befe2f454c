# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the scheduler settings after each run; host.json contains those at the start."""

from collections.abc import Iterator, Mapping

from schedperf.inputs.bundle.json import decode
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError

MEMBER = "system_counters/facts.json"
LIMIT_BYTES = 16 << 20


def facts_member(run: Run) -> str:
    """Return the name of the bundle member facts.json of a run's system counters."""
    return f"{run.folder}/{MEMBER}"


def read_facts(side: Side, run: Run) -> Mapping[str, object]:
    """Return the content of facts.json of a run.

    :raises InputError: the file is missing or damaged
    """
    return side.parsed(facts_member(run), LIMIT_BYTES, _parse)


def _parse(content: bytes, name: str) -> Mapping[str, object]:
    return decode(content, dict[str, object], name)


def settings_of_runs(side: Side) -> Iterator[Mapping[str, object]]:
    """Yield the groups of host.json as they were after each run.

    Runs whose facts.json is missing, damaged or without them are skipped.
    """
    for run in side.bundle.runs:
        if side.bundle.size(facts_member(run)) is None:
            continue
        try:
            settings = read_facts(side, run).get("settings")
        except InputError:
            # The section on system counters reports the damage.
            continue
        if isinstance(settings, Mapping):
            yield settings
