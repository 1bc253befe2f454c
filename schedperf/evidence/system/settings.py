"""Settings of the scheduler that differ between two sides.

host.json has those that decide whether sides are comparable at all (``sched.features``,
``sched.base_slice_ns``, ``sched.preempt``); these are the others, of debugfs.
"""

from collections.abc import Iterator, Sequence

from schedperf.evidence.system.record import SettingRow, SystemMissing
from schedperf.kernel.sched_debug import FOLDER, flat_settings, read_sched_debug
from schedperf.model.errors import InputError
from schedperf.runs.side import Side

# Whole values are in the bundle; these are for people to read.
LONGEST_VALUE = 200
# Kernels of which more settings differ have other settings altogether.
MOST_SETTINGS = 100

# By name; of one side. None: nothing is known of them.
Settings = dict[str, str] | None


def compare_settings(sides: Sequence[Side]) -> tuple[list[SettingRow], list[SystemMissing]]:
    """Compare the first boots of base and of each other side.

    :return: what differs, a value None where a kernel has no such setting; and what of a side
        could not be read, with the reason
    """
    found = [(side, *_read(side)) for side in sides]
    (_, base, _), *others = found
    rows = [
        row
        for side, settings, _ in others
        if base is not None and settings is not None
        for row in _differences(side.name, base, settings)
    ]
    missing = [
        SystemMissing(side=side.name, what=FOLDER, reason=reason)
        for side, _, reason in found
        if reason
    ]
    return rows, missing


def _read(side: Side) -> tuple[Settings, str]:
    """Return the settings; without them the reason, "" where nobody asked for them."""
    for boot in side.bundle.boots[:1]:
        try:
            debug = read_sched_debug(side.bundle, boot)
        except InputError as error:
            return None, str(error)
        if debug is not None:
            return flat_settings(debug), ""
    tried = (entry.reason for entry in side.bundle.captures if entry.collector == FOLDER)
    return None, next(filter(None, tried), "")


def _differences(side: str, base: dict[str, str], new: dict[str, str]) -> Iterator[SettingRow]:
    names = [name for name in sorted(base | new) if base.get(name) != new.get(name)]
    for name in names[:MOST_SETTINGS]:
        yield SettingRow(
            side=side,
            name=name,
            base=_shorten(base.get(name)),
            new=_shorten(new.get(name)),
        )


def _shorten(value: str | None) -> str | None:
    if value is None or len(value) <= LONGEST_VALUE:
        return value
    return f"{value[: LONGEST_VALUE - 1]}…"
