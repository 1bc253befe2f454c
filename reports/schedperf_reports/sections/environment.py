"""Environment: every field of host.json on all sides, and how each difference counts."""

from collections.abc import Iterator

from schedperf.model import Comparison, Severity
from schedperf_reports._host import for_each_field, format_value, missing_reason
from schedperf_reports._words import SEVERITY_TONES, count_of, side_letter
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section


@report_section("environment", title="Environment", order=90)
def environment(comparison: Comparison) -> Iterator[Block]:
    """Yield one table of all fields, in the order of the bundle."""
    values = [dict(for_each_field(side.host)) for side in comparison.sides]
    paths = list(dict.fromkeys(path for fields in values for path in fields))
    if not paths:
        yield Text(text="no side says on what machine it was recorded", tone="warning")
        return
    severities = {one.path: one.severity for one in comparison.comparability.differences}
    differing = sum(path in severities for path in paths)
    yield Table(
        caption=f"{count_of(len(paths), 'field')} of the machine, the kernel and their state; "
        f"{count_of(differing, 'difference')}",
        columns=(
            Column(title="field", code=True),
            *(
                Column(title=f"{side_letter(side.name)} {side.name}", code=True)
                for side in comparison.sides
            ),
            Column(title="difference"),
        ),
        rows=tuple(
            (
                Cell(text=path),
                *(
                    _value_cell(fields.get(path), missing_reason(side.host, path))
                    for fields, side in zip(values, comparison.sides, strict=True)
                ),
                _mark_cell(severities.get(path)),
            )
            for path in paths
        ),
        limit=0,
    )


def _value_cell(value: object, reason: str | None) -> Cell:
    if value is None and reason is not None:
        return Cell(text=reason, tone="muted")
    return Cell(text=format_value(value))


def _mark_cell(severity: Severity | None) -> Cell:
    if severity is None:
        return Cell(text="")
    return Cell(text=severity, tone=SEVERITY_TONES[severity])
