# SPDX-License-Identifier: GPL-2.0-or-later
"""Analyse the sections of a comparison in parallel."""

import json
from collections.abc import Sequence
from functools import partial

from schedperf.compare.workers import do_all
from schedperf.evidence import Absent, SectionPlugin, all_sections
from schedperf.inputs.side import Side
from schedperf.model.errors import describe
from schedperf.model.schema import to_plain
from schedperf.model.sections import Section


def analyse_all(sides: Sequence[Side], workers: int, *, drawings: bool) -> dict[str, Section]:
    """Return all sections by name.

    Sections that read the same captures are one task. The tasks with the most bytes to read start
    first, so that no worker begins a long one when the others are done.

    :param workers: as in :func:`schedperf.compare.bundles.compare_bundles`
    :param drawings: false to leave out the sections that only drawings use
    """
    # Loaded before workers are forked, since most of them need it.
    import scipy.special  # noqa: F401, PLC0415

    plugins = {
        name: plugin for name, plugin in all_sections().items() if drawings or not plugin.is_drawing
    }
    tasks: dict[str, list[SectionPlugin]] = {}
    for plugin in plugins.values():
        tasks.setdefault(plugin.reads(), []).append(plugin)

    def analyse(plugins: Sequence[SectionPlugin]) -> dict[str, Section]:
        return {plugin.record.section: analyse_sides(plugin, sides) for plugin in plugins}

    def captured_bytes(plugins: Sequence[SectionPlugin]) -> int:
        names = {plugin.record.collector or plugin.record.section for plugin in plugins}
        entries = (entry for side in sides for entry in side.bundle.captures)
        return sum(entry.bytes or 0 for entry in entries if entry.collector in names)

    longest_first = sorted(tasks.values(), key=captured_bytes, reverse=True)
    done = do_all([partial(analyse, task) for task in longest_first], workers)
    sections = {name: section for part in done for name, section in part.items()}
    return {name: sections[name] for name in plugins}


def analyse_sides(plugin: SectionPlugin, sides: Sequence[Side]) -> Section:
    """Run one analysis and return its section; an error in it becomes the status "failed".

    If the sides lack the data, or the analysis does not concern any of them, the status is "absent"
    or "not-applicable".
    """
    try:
        if plugin.applies is not None and not any(map(plugin.applies, sides)):
            return plugin.without("not-applicable", "no side has what it is about")
        data = plugin.analyse(sides)
        json.dumps(to_plain(data), allow_nan=False)
    except Absent as absent:
        return plugin.without("absent", str(absent))
    except Exception as error:  # noqa: BLE001 # one analysis must not cost the others
        return plugin.without("failed", describe(error))
    return Section.of(data)
