# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what the scheduler was set to after each run: values that host.json has of the start."""

from collections.abc import Iterator, Mapping

from schedperf.bundle.json import decode
from schedperf.model.errors import InputError
from schedperf.runs.side import Side

MEMBER = "system_counters/facts.json"
LIMIT_BYTES = 1 << 20


def settings_of_runs(side: Side) -> Iterator[Mapping[str, object]]:
    """Yield groups of host.json as they were after each run; nothing of runs without them."""
    bundle = side.bundle
    for run in bundle.runs:
        name = f"{run.folder}/{MEMBER}"
        if bundle.size(name) is None:
            continue
        try:
            facts = decode(bundle.read(name, LIMIT_BYTES), dict[str, object], name)
        except InputError:
            # The section of the counters reads it too, and says what is wrong with it.
            continue
        settings = facts.get("settings")
        if isinstance(settings, Mapping):
            yield settings
