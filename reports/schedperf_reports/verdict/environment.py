# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the environment: every field of host.json on all sides, and how differences count."""

from collections.abc import Iterator, Sequence

from schedperf.model.comparison import Comparison
from schedperf.model.host import read_host
from schedperf.model.sides import Difference, OptionDifference, Severity, SideSummary
from schedperf.model.text import join_names
from schedperf_collectors.contract import fields_of
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.graphics.panels import Fold
from schedperf_reports.sections import report_section
from schedperf_reports.verdict.comparable import options_of
from schedperf_reports.verdict.host_fields import explain_taint, format_value, missing_reason
from schedperf_reports.words.rows import SEVERITY_TONES, count_of, name_side, side_prefixes

# Options that a caption names; the table has all.
MOST_OPTIONS_NAMED = 10
# The most severe first.
SEVERITIES: Sequence[Severity] = ("blocking", "treatment", "noted", "ignored")


@report_section("environment", title="Environment", chapter="environment", order=10)
def environment(comparison: Comparison) -> Iterator[Block]:
    """Yield a table of all fields in the order of the bundles, then taints and kernel options.

    If no side describes its machine, yield only a warning about that.
    """
    values = [dict(fields_of(side.host)) for side in comparison.sides]
    paths = list(dict.fromkeys(path for fields in values for path in fields))
    if not paths:
        yield Text(text="no bundle describes its machine", tone="warning")
        return
    by_path = _worst_by_field(comparison.comparability.differences, paths)
    yield Table(
        caption=f"{count_of(len(paths), 'field')} of host.json (machine, kernel and settings); "
        f"{count_of(len(by_path), 'difference')}",
        columns=(
            Column(title="field", code=True),
            *(Column(title=side.name, code=True) for side in comparison.sides),
            Column(title="difference"),
        ),
        rows=tuple(
            (
                Cell(text=path),
                *(
                    _value_cell(fields.get(path), missing_reason(side.host, path))
                    for fields, side in zip(values, comparison.sides, strict=True)
                ),
                _mark_cell(by_path.get(path)),
            )
            for path in paths
        ),
        limit=0,
    )
    yield from _taints(comparison)
    yield from _options(comparison)


def _worst_by_field(
    differences: Sequence[Difference], paths: Sequence[str]
) -> dict[str, Difference]:
    """Return the difference of each field that differs; of several in one field, the most severe.

    A difference may concern a part of a field, such as ``kernel.cmdline.quiet``. Differences that
    belong to no field, such as that of the workload, are left out.

    :param paths: the fields
    """
    fields = set(paths)
    worst: dict[str, Difference] = {}
    for each in sorted(differences, key=lambda each: SEVERITIES.index(each.severity)):
        path = each.path
        while path and path not in fields:
            path = path.rpartition(".")[0]
        if path:
            worst.setdefault(path, each)
    return worst


def _taints(comparison: Comparison) -> Iterator[Text]:
    reasons: dict[int, list[str]] = {}
    for side in comparison.sides:
        taint = read_host(side.host).kernel.taint
        if taint is not None and taint > 0:
            reasons.setdefault(taint, []).append(name_side(side))
    for taint, names in reasons.items():
        text = f"kernel.taint {taint} in {join_names(names)}: {explain_taint(taint)}"
        yield Text(text=text, tone="warning")


def _options(comparison: Comparison) -> Iterator[Fold]:
    for side in comparison.sides[1:]:
        mine = [option for option in comparison.comparability.options if option.side == side.name]
        tools = [option for option in mine if option.toolchain]
        kinds = {
            "kernel config option": options_of(comparison, side.name),
            "kernel config option of the toolchain and the build": tools,
        }
        for kind, options in kinds.items():
            if options:
                yield _options_fold(comparison, side, options, kind)


def _options_fold(
    comparison: Comparison, side: SideSummary, options: Sequence[OptionDifference], kind: str
) -> Fold:
    first = ", ".join(option.name for option in options[:MOST_OPTIONS_NAMED])
    more = ", …" if len(options) > MOST_OPTIONS_NAMED else ""
    noun, _, rest = kind.partition(" of ")
    count = f"{count_of(len(options), noun)}{f' of {rest}' if rest else ''}"
    prefix = side_prefixes(comparison)[side.name]
    return Fold(
        caption=f"{prefix}{count} {'differs' if len(options) == 1 else 'differ'}: {first}{more}",
        blocks=(_options_table(comparison, side, options, count),),
    )


def _options_table(
    comparison: Comparison, side: SideSummary, differences: Sequence[OptionDifference], count: str
) -> Table:
    return Table(
        caption=f"{count} with different values in base and {name_side(side)} (n: not set)",
        columns=(
            Column(title="option", code=True),
            Column(title=name_side(comparison.sides[0]), code=True),
            Column(title=name_side(side), code=True),
        ),
        rows=tuple(
            (
                Cell(text=difference.name),
                Cell(text=difference.base or "n"),
                Cell(text=difference.new or "n"),
            )
            for difference in differences
        ),
        limit=MOST_OPTIONS_NAMED,
    )


def _value_cell(value: object, reason: str | None) -> Cell:
    if value is None and reason is not None:
        return Cell(text=reason, tone="muted")
    return Cell(text=format_value(value))


def _mark_cell(difference: Difference | None) -> Cell:
    if difference is None:
        return Cell(text="")
    mark = "change" if difference.is_part_of_change else difference.severity
    return Cell(text=mark, tone=SEVERITY_TONES[difference.severity])
