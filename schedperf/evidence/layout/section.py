# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare cache-line layouts of kernels: what moved onto or off a shared line, and why.

Offsets and addresses in the data are relative to the start of the per-CPU section, the struct or
the globals.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence import Absent, section
from schedperf.evidence.layout.compare import analyse_kernels, check_comparable
from schedperf.evidence.layout.model import Kernel
from schedperf.evidence.layout.record import Layout
from schedperf.evidence.layout.shorten import shorten
from schedperf.evidence.layout.sources import load_kernel
from schedperf.evidence.needs import HEAT, MeasureHeat
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.function_names import FunctionNames, function_names
from schedperf.model.errors import InputError
from schedperf.model.sections import MissingSide


@section(Layout, needs=HEAT)
def layout(sides: Sequence[Side], measure_heat: MeasureHeat) -> Layout:
    """Compare the layout of each new side with base's.

    :param measure_heat: counts the contended memory samples of new sides; they take precedence over
        the table of hot variables
    :raises Absent: base or every new side has no layout, or the layouts are not comparable
    """
    base, *news = sides
    try:
        kernels, missing = _load(base, news)
        if len(kernels) == 1:
            reasons = "; ".join(absent.reason for absent in missing)
            raise Absent(reasons or "no new side")
        complete = analyse_kernels(
            list(kernels.values()),
            sides=list(kernels),
            hitm=measure_heat([side for side in news if side.name in kernels]),
            missing=missing,
        )
    except InputError as error:
        raise Absent(str(error)) from None
    return _spell_functions(shorten(complete), function_names(sides))


def _spell_functions(data: Layout, names: Mapping[str, FunctionNames]) -> Layout:
    # The table of hot variables has names of several kernels. Drawings show all sides.
    *_, of_last = names.values()
    return replace(
        data,
        comparisons=tuple(
            replace(
                compared,
                alarms=tuple(
                    replace(alarm, functions=_spell(alarm.functions, names[compared.side]))
                    for alarm in compared.alarms
                ),
            )
            for compared in data.comparisons
        ),
        windows=tuple(
            replace(
                window,
                uses=tuple(
                    replace(use, functions=_spell(use.functions, of_last)) for use in window.uses
                ),
            )
            for window in data.windows
        ),
    )


def _spell(functions: Iterable[str], names: FunctionNames) -> tuple[str, ...]:
    # A function may be preceded by its file: "fair.c:load_balance".
    parts = (function.rpartition(":") for function in functions)
    return tuple(
        dict.fromkeys(f"{file}{separator}{names.of(name)}" for file, separator, name in parts)
    )


def _load(base: Side, news: Sequence[Side]) -> tuple[Mapping[str, Kernel], list[MissingSide]]:
    kernels = {base.name: load_kernel(base, label=base.name)}
    missing: list[MissingSide] = []
    for side in news:
        try:
            kernel = load_kernel(side, label=side.name)
            check_comparable(kernels[base.name], kernel)
        except InputError as error:
            missing.append(MissingSide(side=side.name, reason=str(error)))
        else:
            kernels[side.name] = kernel
    return kernels, missing
