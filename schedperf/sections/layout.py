"""Layout: which variables and fields lost or found line mates, why, and whether it can matter.

Offsets and addresses in the data count from the start of the per-CPU section, the struct or
the globals that they are in.
"""

from collections.abc import Iterable, Mapping, Sequence

from schedperf.c2c.entries import contended_entries
from schedperf.c2c.merge import see_lines
from schedperf.errors import InputError
from schedperf.layout.analysis import Hitm, analyse_kernels, check_comparable
from schedperf.layout.model import Kernel
from schedperf.layout.sources import load_kernel
from schedperf.sections import Absent, Data, section
from schedperf.sections._c2c_sources import load_memory
from schedperf.sections._layout_schema import ANALYSIS
from schedperf.sections._schema import TEXT, array, record
from schedperf.sides import Side

SCHEMA = record(**ANALYSIS, missing=array(record(side=TEXT, reason=TEXT)))


@section("layout", version=2, schema=SCHEMA)
def layout(sides: Sequence[Side]) -> Data:
    """Compare the layout of each new side with base's."""
    base, *news = sides
    try:
        kernels, missing = _load(base, news)
        if len(kernels) == 1:
            reasons = "; ".join(entry["reason"] for entry in missing)
            raise Absent(reasons or "there is no new side")
        data = analyse_kernels(
            list(kernels.values()),
            sides=list(kernels),
            hitm=_contended(side for side in news if side.name in kernels),
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


def _contended(news: Iterable[Side]) -> Hitm:
    # What was sampled outranks the table of hot variables; a side without samples has no say.
    sampled = {side.name: load_memory(side).runs for side in news}
    return {
        name: contended_entries(see_lines([one.run for one in runs]).values())
        for name, runs in sampled.items()
        if runs
    }
