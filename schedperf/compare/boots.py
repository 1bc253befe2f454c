# SPDX-License-Identifier: GPL-2.0-or-later
"""Identify boots on all sides, and warn about comparisons with one boot per side."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.compare.interaction import boots_of
from schedperf.inputs.bundle.open import Boot
from schedperf.inputs.side import Side
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.frame import Frame
from schedperf.model.rows import Row
from schedperf.model.units import percent
from schedperf.model.verdict import BOOT_SD_SOURCES


def add_boot_ids(runs: Frame, sides: Sequence[Side]) -> Frame:
    """Return the runs with the column ``boot_id`` of :func:`schedperf.stats.compare_runs`.

    If a boot has no id, the builds of the kernels stand for the ids of all boots, because two
    kernels never share a boot. The value is None if a build is unknown as well, and for imported
    bundles.
    """
    ids = _boot_ids([side for side in sides if side.bundle.imported is None])
    return runs.assign(boot_id=[ids.get(boot) for boot in runs.rows(["side", "boot"])])


def add_kernels(runs: Frame, side: Side) -> Frame:
    """Return earlier runs with the columns ``boot_id`` and ``kernel``, both None if unknown.

    Boots with an equal ``kernel`` (build and setting) are one sample of boots.
    """
    kernels = {
        (run.boot, run.run): _name_kernel(boot, run.factors.get("setting", run.side))
        for boot in side.bundle.boots
        for run in boot.runs
    }
    # Boots without an id keep None: the column `boot` distinguishes them, so the build of the
    # kernel need not stand for the id.
    ids = boots_of([side])
    return runs.assign(
        kernel=[kernels.get(run) for run in runs.rows(["boot", "run"])],
        boot_id=[ids.get(boot) for boot in runs.rows(["side", "boot"])],
    )


def warn_of_one_boot(rows: Sequence[Row]) -> Iterator[Caveat]:
    """Yield a caveat about rows with one boot per side, once for all rows."""
    sds = {row.boot_sd for row in rows if row.boot_sd is not None}
    if not sds:
        return
    how = []
    for source, name in BOOT_SD_SOURCES.items():
        sizes = sorted(sd.sd for sd in sds if sd.source == source)
        if sizes:
            low, high = percent(sizes[0]), percent(sizes[-1])
            how.append(f"{low if low == high else f'{low} to {high}'} ({name})")
    yield caveat("boot-sd", how=" and ".join(how))


def has_one_boot_each(rows: Sequence[Row], side: str) -> bool:
    """Return whether a side and base have one boot each, known to be different boots."""
    return any(row.side == side and row.boot_sd is not None for row in rows)


def _boot_ids(sides: Sequence[Side]) -> Mapping[tuple[str, int], str]:
    ids = boots_of(sides)
    known = {boot: name for boot, name in ids.items() if name is not None}
    if len(known) == len(ids):
        return known
    # A published bundle has no boot ids, but two different kernels never share a boot.
    boots = {(side.name, boot.number): boot for side in sides for boot in side.bundle.boots}
    for field in ("build_id", "version", "release"):
        kernels = {key: getattr(boot.host.kernel, field) for key, boot in boots.items()}
        if None not in kernels.values():
            return kernels
    return {}


def _name_kernel(boot: Boot, setting: str | None) -> str | None:
    kernel = boot.host.kernel
    name = kernel.build_id or kernel.version or kernel.release
    return None if name is None else f"{name} {setting or ''}"
