# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the effect of a setting on two kernels: the interaction of a 2 x 2 design.

Four bundles are such a design if ``ab`` recorded the same two settings on two kernels. In each
boot (with one boot per kernel: in each round) both settings were recorded, so the ratio of their
geometric means is free of what differs between boots. These ratios are the independent values:
the interaction is the ratio of their geometric means on the two kernels, tested as any result
(Welch's t on logarithms). A difference of differences on the logarithmic scale: G. W. Snedecor and
W. G. Cochran, Statistical Methods, 8th ed., section 16.2.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import (
    BaseNew,
    Family,
    Interaction,
    Replication,
    SettingEffect,
    TwoByTwo,
)
from schedperf.model.frame import Frame
from schedperf.model.host import has_other_kernel
from schedperf.runs.side import Side
from schedperf.stats import KEY, JudgedRow, compare_runs

SIDES = 4
# With fewer boots the variance between boots is unknown.
FEWEST_BOOTS = 2
# Digits of a build id that tell two builds of one release apart.
BUILD_ID_DIGITS = 12

# From the strongest claim to the weakest.
FAMILY_ORDER: Sequence[Family] = ("primary", "secondary", "informational")

Question = tuple[str, str, str, str, str]
# Of one kernel and result: the geometric mean of each setting, by boot or round.
Units = Mapping[object, BaseNew[float]]
# The id of each boot, by side and number; None where it is not recorded.
Boots = Mapping[tuple[str, int], str | None]


class Design(Struct, frozen=True, kw_only=True):
    """Which side is which.

    :param names: of the sides, by kernel, then by setting
    """

    kernels: BaseNew[str]
    settings: BaseNew[str]
    names: BaseNew[BaseNew[str]]


class Judged(Struct, frozen=True, kw_only=True):
    """The interaction of one result.

    :param units: values per kernel
    :param effects: the setting on each kernel; None without an interval
    """

    row: JudgedRow
    effects: BaseNew[SettingEffect]


def find_design(sides: Sequence[Side]) -> Design | None:
    """Return how four sides cross two kernels with two settings; None if they do not."""
    if len(sides) != SIDES:
        return None
    settings = [_setting(side) for side in sides]
    first = sides[0].bundle.host_fields
    is_other = [has_other_kernel(first, side.bundle.host_fields) for side in sides]
    cells = dict(zip(zip(is_other, settings, strict=True), sides, strict=True))
    kinds = list(dict.fromkeys(settings))
    if None in kinds or set(cells) != set(product((False, True), kinds)):
        return None
    off, on = (str(kind) for kind in kinds)
    new = cells[True, off]
    if has_other_kernel(new.bundle.host_fields, cells[True, on].bundle.host_fields):
        return None
    names = {key: side.name for key, side in cells.items()}
    return Design(
        kernels=_name_kernels(sides[0], new),
        settings=BaseNew(base=off, new=on),
        names=BaseNew(
            base=BaseNew(base=names[False, off], new=names[False, on]),
            new=BaseNew(base=names[True, off], new=names[True, on]),
        ),
    )


def _setting(side: Side) -> str | None:
    runs = [run for run in side.bundle.runs if not run.warmup]
    names = {run.factors.get("setting", run.side) for run in runs}
    return names.pop() if len(names) == 1 else None


def _name_kernels(base: Side, new: Side) -> BaseNew[str]:
    kernels = BaseNew(base=base, new=new).map(lambda side: side.bundle.boots[0].host.kernel)
    releases = kernels.map(lambda kernel: kernel.release or "unknown kernel")
    if releases.base != releases.new:
        return releases
    builds = kernels.map(lambda kernel: (kernel.build_id or kernel.version or "")[:BUILD_ID_DIGITS])
    return BaseNew(base=f"{releases.base} ({builds.base})", new=f"{releases.new} ({builds.new})")


def judge_interactions(
    design: Design, boots: Boots, runs: Frame, margin: float
) -> tuple[Replication, list[Judged]] | Caveat:
    """Return the unit of replication and each result, or why there is none.

    :param runs: clean runs, as for :func:`schedperf.stats.compare_runs`
    """
    replication: Replication = "boots"
    chosen = {
        question: units
        for question, units in _units(design, runs, boots)
        if min(map(len, units)) >= FEWEST_BOOTS
    }
    if not chosen:
        replication = "rounds"
        chosen = {
            question: units
            for question, units in _units(design, runs, None)
            if min(map(len, units)) > 0
        }
    if not chosen:
        return caveat("no-interaction", base=design.settings.base, new=design.settings.new)
    whole = compare_runs(
        _ratios(design, chosen, replication),
        base=design.kernels.base,
        new=[design.kernels.new],
        margin=margin,
    )
    effects = BaseNew(base="base", new="new").map(lambda kernel: _effects(kernel, chosen, margin))
    return replication, [
        Judged(
            row=row,
            effects=BaseNew(base=effects.base[row.question], new=effects.new[row.question]),
        )
        for row in whole.rows
    ]


def overrule(judged: Judged, row: JudgedRow) -> Judged:
    """Return the interaction with another row; what overrules its verdict overrules the effects'.

    :param row: with the verdict that facts beside the numbers allow
    """
    if row is judged.row:
        return judged
    effects = judged.effects.map(lambda effect: replace(effect, verdict=row.verdict))
    return Judged(row=row, effects=effects)


def to_two_by_two(design: Design, replication: Replication, judged: Sequence[Judged]) -> TwoByTwo:
    """Return the record of the interactions."""
    return TwoByTwo(
        kernels=design.kernels,
        settings=design.settings,
        replication=replication,
        results=tuple(map(_to_record, judged)),
    )


def _to_record(judged: Judged) -> Interaction:
    row = judged.row
    return Interaction(
        workload=row.workload,
        point=row.point,
        metric=row.metric,
        unit=row.unit,
        better=row.better,
        family=row.family,
        n=BaseNew(base=row.n_base, new=row.n_new),
        effects=judged.effects,
        ratio=row.ratio,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        p=row.p,
        q=row.q,
        verdict=row.verdict,
        reason=row.reason.text,
        method=row.method,
        caveats=row.caveats,
    )


def boots_of(sides: Sequence[Side]) -> Boots:
    """Return the id of each boot."""
    return {(side.name, run.boot): run.boot_id for side in sides for run in side.bundle.runs}


def _units(
    design: Design, runs: Frame, boots: Boots | None
) -> Iterator[tuple[tuple[Question, str], BaseNew[Units]]]:
    """Yield each result and family with its values.

    :param boots: id of each boot, by side and number; None: the units are rounds
    """
    logs: dict[Question, dict[str, dict[object, list[float]]]] = {}
    families: dict[Question, Family] = {}
    for run in runs.take(runs["status"] == "ok").records():
        unit = run["round"] if boots is None else boots[run["side"], int(run["boot"])]
        workload, point, metric, unit_name, better = (run[name] for name in KEY)
        question = (workload, point, metric, unit_name, better)
        # The weaker of two claims, as of rows: under emulation only new sides are informational.
        families[question] = max(
            run["family"], families.get(question, run["family"]), key=FAMILY_ORDER.index
        )
        of_side = logs.setdefault(question, {}).setdefault(run["side"], {})
        if unit is not None:
            # What is not positive has no ratio, and its unit none either.
            value = run["value"]
            of_side.setdefault(unit, []).append(math.log(value) if value > 0.0 else math.nan)
    for question, of_sides in logs.items():
        yield (question, families[question]), design.names.map(partial(_pair, of_sides))


def _pair(
    logs: Mapping[str, Mapping[object, Sequence[float]]], names: BaseNew[str]
) -> dict[object, BaseNew[float]]:
    means = names.map(
        lambda name: {unit: fmean(values) for unit, values in logs.get(name, {}).items()}
    )
    return {
        unit: BaseNew(base=math.exp(mean), new=math.exp(means.new[unit]))
        for unit, mean in means.base.items()
        if unit in means.new and not math.isnan(mean + means.new[unit])
    }


def _describe(question: tuple[Question, str]) -> dict[str, object]:
    (key, family) = question
    return {**dict(zip(KEY, key, strict=True)), "family": family, "status": "ok"}


def _ratios(
    design: Design,
    results: Mapping[tuple[Question, str], BaseNew[Units]],
    replication: Replication,
) -> Frame:
    rows: list[dict[str, object]] = []
    for question, of_kernels in results.items():
        for kernel, units in zip(design.kernels, of_kernels, strict=True):
            for number, values in enumerate(units.values()):
                boot = number if replication == "boots" else 0
                ratio = values.new / values.base
                rows.append(
                    {**_describe(question), "side": kernel, "value": ratio, "boot": boot,
                     "run": number}
                )  # fmt: skip
    return Frame.of_rows(rows, ["side", *KEY, "family", "status", "value", "boot", "run"])


def _effects(
    kernel: str, results: Mapping[tuple[Question, str], BaseNew[Units]], margin: float
) -> Mapping[Question, SettingEffect]:
    rows = [
        {**_describe(question), "side": setting, "value": value, "round": number, "run": number}
        for question, of_kernels in results.items()
        for number, values in enumerate(of_kernels.of(kernel).values())
        for setting, value in values.items()
    ]
    runs = Frame.of_rows(rows, ["side", *KEY, "family", "status", "value", "round", "run"])
    found = compare_runs(runs, base="base", new=["new"], margin=margin)
    return {
        row.question: SettingEffect(
            ratio=row.ratio, ci_low=row.ci_low, ci_high=row.ci_high, verdict=row.verdict
        )
        for row in found.rows
    }
