"""Layout: which variables and fields lost or found line mates, why, and whether it can matter.

Offsets and addresses in the data count from the start of the per-CPU section, the struct or
the globals that they are in.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from schedperf.evidence import Absent, Dicts, dict_section
from schedperf.evidence.layout.analysis import Hitm, analyse_kernels, check_comparable
from schedperf.evidence.layout.model import Kernel
from schedperf.evidence.layout.schema import ANALYSIS
from schedperf.evidence.layout.sources import load_kernel
from schedperf.model.errors import InputError
from schedperf.model.schema import TEXT, array, record
from schedperf.runs.side import Side

SCHEMA = record(**ANALYSIS, missing=array(record(side=TEXT, reason=TEXT)))

# Measures the heat of the entries on the lines of these sides.
MeasureHeat = Callable[[Iterable[Side]], Hitm]


@dict_section("layout", version=2, schema=SCHEMA)
def layout(sides: Sequence[Side], measure_heat: MeasureHeat | None = None) -> Dicts:
    """Compare the layout of each new side with base's.

    :param measure_heat: outranks the table of hot variables; None where nothing was sampled
    """
    base, *news = sides
    try:
        kernels, missing = _load(base, news)
        if len(kernels) == 1:
            reasons = "; ".join(entry["reason"] for entry in missing)
            raise Absent(reasons or "there is no new side")
        data = analyse_kernels(
            list(kernels.values()),
            sides=list(kernels),
            hitm=measure_heat([side for side in news if side.name in kernels])
            if measure_heat
            else {},
        )
    except InputError as error:
        raise Absent(str(error)) from None
    return {**data, "missing": missing}


def _load(base: Side, news: Sequence[Side]) -> tuple[Mapping[str, Kernel], list[dict[str, str]]]:
    kernels = {base.name: load_kernel(base.bundle, label=base.name)}
    missing: list[dict[str, str]] = []
    for side in news:
        try:
            kernel = load_kernel(side.bundle, label=side.name)
            check_comparable(kernels[base.name], kernel)
        except InputError as error:
            missing.append({"side": side.name, "reason": str(error)})
        else:
            kernels[side.name] = kernel
    return kernels, missing
