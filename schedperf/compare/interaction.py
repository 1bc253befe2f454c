# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the effect of a setting on kernels: the interaction of a 2 x 2 (or K x 2) design.

Bundles are such a design if ``ab`` recorded the same two settings on all kernels. In each boot
(with one boot per kernel: in each round) both settings were recorded, so the ratio of their
geometric means excludes boot-to-boot variance. These ratios are the independent values: the
interaction is the ratio of their geometric means on a kernel and base, tested like any result
(Welch's t on logarithms). This is a difference of differences on the logarithmic scale: G. W.
Snedecor and W. G. Cochran, Statistical Methods, 8th ed., section 16.2.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.side import Side
from schedperf.model.base_new import BaseNew
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.frame import Frame
from schedperf.model.host import has_other_kernel
from schedperf.model.row_groups import Interaction, SettingEffect, TwoByTwo
from schedperf.model.rows import Family, Replication
from schedperf.stats import KEY, JudgedRow, compare_runs

# The minimum: two kernels and two settings.
FEWEST_SIDES = 4
SETTINGS = 2
# With fewer boots the variance between boots is unknown.
FEWEST_BOOTS = 2
# Digits of a build id that distinguish two builds of one release.
BUILD_ID_DIGITS = 12

# From the strongest claim to the weakest.
FAMILY_ORDER: Sequence[Family] = ("primary", "secondary", "informational")

Question = tuple[str, str, str, str, str]
# The geometric mean of each setting by boot or round, for one kernel and result.
Units = Mapping[object, BaseNew[float]]
# The id of each boot, by side and number; None if it is not recorded.
Boots = Mapping[tuple[str, int], str | None]


class Design(Struct, frozen=True, kw_only=True):
    """Which sides form the design.

    :param kernels: names of the kernels, base first; no two are the same
    :param settings: names of the two settings
    :param names: per kernel, the names of its side with the base setting and of that with the new
        one
    """

    kernels: tuple[str, ...]
    settings: BaseNew[str]
    names: tuple[BaseNew[str], ...]

    def sides(self, kernel: str) -> list[str]:
        """Return the names of the two sides of base and the two of a kernel, in this order."""
        mine = self.names[self.kernels.index(kernel)]
        return [*self.names[0], *mine]


class Judged(Struct, frozen=True, kw_only=True):
    """The interaction of one result on one kernel.

    :param row: the ratio of the effects, with its verdict; its side is the name of the kernel
    :param effects: effect of the setting on base and on this kernel
    """

    row: JudgedRow
    effects: BaseNew[SettingEffect]


def find_design(sides: Sequence[Side]) -> Design | None:
    """Return how sides cross kernels with two settings; None if they do not."""
    if len(sides) < FEWEST_SIDES:
        return None
    settings = {side.name: _setting(side) for side in sides}
    kinds = list(dict.fromkeys(settings.values()))
    kernels: list[list[Side]] = []
    for side in sides:
        of_kernel = next((each for each in kernels if _is_same(each[0], side)), None)
        if of_kernel is None:
            kernels.append([side])
        else:
            of_kernel.append(side)
    cells = [{settings[side.name]: side.name for side in each} for each in kernels]
    is_crossed = all(
        len(each) == SETTINGS and set(cell) == set(kinds)
        for each, cell in zip(kernels, cells, strict=True)
    )
    if None in kinds or len(kinds) != SETTINGS or not is_crossed:
        return None
    return Design(
        kernels=tuple(_name_kernels([each[0] for each in kernels])),
        settings=BaseNew(base=str(kinds[0]), new=str(kinds[1])),
        names=tuple(BaseNew(base=cell[kinds[0]], new=cell[kinds[1]]) for cell in cells),
    )


def _is_same(side: Side, other: Side) -> bool:
    return not has_other_kernel(side.bundle.host_fields, other.bundle.host_fields)


def _setting(side: Side) -> str | None:
    runs = [run for run in side.bundle.runs if not run.warmup]
    names = {run.factors.get("setting", run.side) for run in runs}
    return names.pop() if len(names) == 1 else None


def _name_kernels(sides: Sequence[Side]) -> Iterator[str]:
    """Yield a unique name for the kernel of each side: its release, if that is enough."""
    kernels = [side.bundle.boots[0].host.kernel for side in sides]
    releases = [kernel.release or "unknown kernel" for kernel in kernels]
    given: set[str] = set()
    for kernel, release in zip(kernels, releases, strict=True):
        build = (kernel.build_id or kernel.version or "")[:BUILD_ID_DIGITS]
        name = release if releases.count(release) == 1 else f"{release} ({build})"
        # Versions may differ after their first letters.
        numbered = (f"{name} #{number}" for number in count(2))
        name = name if name not in given else next(n for n in numbered if n not in given)
        given.add(name)
        yield name


def judge_interactions(
    design: Design, boots: Boots, runs: Frame, margin: float
) -> tuple[Replication, list[Judged]] | Caveat:
    """Return the unit of replication and the interactions of all results and new kernels.

    Boots are the units if a result has two or more boots with both settings on base and on another
    kernel; else rounds.

    :param boots: result of :func:`boots_of`
    :param runs: clean runs, as for :func:`schedperf.stats.compare_runs`
    :param margin: half-width of the equivalence band, as a fraction
    :return: a caveat if the settings were not recorded in the same boots or rounds
    """
    replication: Replication = "boots"
    chosen = {
        question: units
        for question, units in _units(design, runs, boots)
        if _can_be_compared(units, FEWEST_BOOTS)
    }
    if not chosen:
        replication = "rounds"
        chosen = {
            question: units
            for question, units in _units(design, runs, None)
            if _can_be_compared(units, 1)
        }
    if not chosen:
        return caveat("no-interaction", base=design.settings.base, new=design.settings.new)
    whole = compare_runs(
        _ratios(design, chosen, replication),
        base=design.kernels[0],
        new=design.kernels[1:],
        margin=margin,
    )
    effects = {
        kernel: _effects({key: units[index] for key, units in chosen.items()}, margin)
        for index, kernel in enumerate(design.kernels)
    }
    of_base = effects[design.kernels[0]]
    return replication, [
        Judged(
            row=row,
            effects=BaseNew(base=of_base[row.question], new=effects[row.side][row.question]),
        )
        for row in whole.rows
        # A kernel without units has no effect.
        if row.question in effects[row.side]
    ]


def _can_be_compared(units: Sequence[Units], fewest: int) -> bool:
    """Return whether base and another kernel have ``fewest`` units or more.

    :param units: per kernel, base first
    """
    base, *others = units
    return len(base) >= fewest and any(len(other) >= fewest for other in others)


def overrule(judged: Judged, row: JudgedRow) -> Judged:
    """Return the interaction with another row, whose verdict replaces those of the effects, too.

    :param row: row whose verdict respects emulation and blocking differences; if it is that of
        ``judged``, nothing is replaced
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
        kernel=row.side,
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
    """Return the id of each boot that has runs, by side and number; None if it is not recorded."""
    return {(side.name, run.boot): run.boot_id for side in sides for run in side.bundle.runs}


def _units(
    design: Design, runs: Frame, boots: Boots | None
) -> Iterator[tuple[tuple[Question, str], tuple[Units, ...]]]:
    """Yield each result and its family with its values per kernel, in the order of the design.

    :param boots: id of each boot, by side and number; None if the units are rounds
    """
    logs: dict[Question, dict[str, dict[object, list[float]]]] = {}
    families: dict[Question, Family] = {}
    for run in runs.take(runs["status"] == "ok").records():
        unit = run["round"] if boots is None else boots[run["side"], int(run["boot"])]
        workload, point, metric, unit_name, better = (run[name] for name in KEY)
        question = (workload, point, metric, unit_name, better)
        # Informational if either row is: under emulation, only new sides are informational.
        families[question] = max(
            run["family"], families.get(question, run["family"]), key=FAMILY_ORDER.index
        )
        of_side = logs.setdefault(question, {}).setdefault(run["side"], {})
        if unit is not None:
            # A value that is not positive has no ratio, so its unit has none either.
            value = run["value"]
            of_side.setdefault(unit, []).append(math.log(value) if value > 0.0 else math.nan)
    for question, of_sides in logs.items():
        yield (
            (question, families[question]),
            tuple(_pair(of_sides, names) for names in design.names),
        )


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
    results: Mapping[tuple[Question, str], tuple[Units, ...]],
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
    results: Mapping[tuple[Question, str], Units], margin: float
) -> Mapping[Question, SettingEffect]:
    """Return the effect of the setting on one kernel, by result."""
    rows = [
        {**_describe(question), "side": setting, "value": value, "round": number, "run": number}
        for question, units in results.items()
        for number, values in enumerate(units.values())
        for setting, value in values.items()
    ]
    if not rows:
        return {}
    runs = Frame.of_rows(rows, ["side", *KEY, "family", "status", "value", "round", "run"])
    found = compare_runs(runs, base="base", new=["new"], margin=margin)
    return {
        row.question: SettingEffect(
            ratio=row.ratio, ci_low=row.ci_low, ci_high=row.ci_high, verdict=row.verdict
        )
        for row in found.rows
    }
