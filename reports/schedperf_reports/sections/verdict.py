"""The verdict: one sentence, who was compared, and whether that is fair."""

from collections.abc import Iterator, Sequence

from schedperf.model import Comparability, Comparison, Difference, SideSummary
from schedperf_reports._host import format_pair, text_at
from schedperf_reports._words import (
    SEVERITY_TONES,
    VERDICT_TONES,
    count_of,
    count_verdicts,
    describe_verdict,
    has_same_data,
    is_of_this_boot,
    side_letter,
)
from schedperf_reports.blocks import Block, Cell, Column, Headline, Table, Text
from schedperf_reports.sections import report_section

# What a reader acts on comes first.
SEVERITY_ORDER = ("blocking", "treatment", "noted")
# Differences that a terminal lists before the results.
MOST_DIFFERENCES = 12


@report_section("verdict", title="Verdict", order=10)
def verdict(comparison: Comparison) -> Iterator[Block]:
    """Yield the sentence, the sides and the differences between them."""
    overall = comparison.overall
    yield Headline(
        word=f"{overall.verdict}{_condition(comparison)}",
        text=describe_verdict(comparison),
        tone=VERDICT_TONES[overall.verdict],
    )
    # One result is the headline already.
    if sum(row.family == "primary" for row in comparison.rows) > 1:
        yield Text(text=count_verdicts(comparison.rows, "primary"))
    yield _sides_table(comparison)
    yield from _describe_comparability(comparison.comparability, len(comparison.sides))


def _condition(comparison: Comparison) -> str:
    # What a reader who reads one word only must not miss.
    if has_same_data(comparison):
        return " (same data)"
    return " (this boot only)" if is_of_this_boot(comparison) else ""


def _sides_table(comparison: Comparison) -> Table:
    sides = comparison.sides
    labels = [side.label for side in sides]
    facts = {
        "bundle": [side.path for side in sides],
        **({} if labels == [side.name for side in sides] else {"label": labels}),
        "kernel": [text_at(side.host, "kernel.release") or "not known" for side in sides],
        "machine": [_machine(side) for side in sides],
        "runs": [_runs(side) for side in sides],
    }
    return Table(
        caption="what was compared",
        columns=(
            Column(title=""),
            *(Column(title=f"{side_letter(side.name)} {side.name}", code=True) for side in sides),
        ),
        rows=tuple(
            (Cell(text=name, tone="muted"), Cell(text=texts[0]), *_against(texts[0], texts[1:]))
            for name, texts in facts.items()
        ),
    )


def _against(base: str, others: Sequence[str]) -> Iterator[Cell]:
    # What is not said twice is seen to be equal at a glance.
    for text in others:
        yield Cell(text="same", tone="muted") if text == base else Cell(text=text)


def _machine(side: SideSummary) -> str:
    model = text_at(side.host, "cpu.model") or "CPU not known"
    cpus = text_at(side.host, "cpu.count_online")
    nodes = side.host.get("topology")
    count = len(nodes.get("nodes") or ()) if isinstance(nodes, dict) else 0
    parts = [model]
    parts += [f"{cpus} CPUs"] if cpus else []
    parts += [count_of(count, "node")] if count else []
    return ", ".join(parts)


def _runs(side: SideSummary) -> str:
    parts = ["number not given" if side.runs_clean is None else f"{side.runs_clean} clean"]
    parts += [f"{side.runs_instrumented} instrumented"] if side.runs_instrumented else []
    parts += [f"{side.runs_failed} failed"] if side.runs_failed else []
    unfinished = "" if side.complete else "; recording did not finish"
    boots = "" if side.boots is None else f", {count_of(side.boots, 'boot')}"
    return f"{' + '.join(parts)}{boots}{unfinished}"


def _describe_comparability(found: Comparability, sides: int) -> Iterator[Block]:
    shown = [one for one in found.differences if one.severity in SEVERITY_ORDER]
    shown.sort(key=lambda one: SEVERITY_ORDER.index(one.severity))
    counts = ", ".join(
        f"{number} {severity}"
        for severity in SEVERITY_ORDER
        if (number := sum(one.severity == severity for one in shown))
    )
    answer = "yes" if found.comparable else "NO"
    yield Text(
        text=f"comparable: {answer} ({count_of(found.compared, 'field')} compared; "
        f"differences: {counts or 'none'})",
        tone="plain" if found.comparable else "bad",
    )
    if shown:
        yield _differences_table(shown, sides)


def _differences_table(differences: list[Difference], sides: int) -> Table:
    new = [Column(title="side")] if sides > 2 else []  # noqa: PLR2004 # base and one new
    # Why a treatment differs is said by the caption.
    has_why = any(one.severity != "treatment" for one in differences)
    why = [Column(title="why", priority=4)] if has_why else []
    return Table(
        caption="what differs between the sides; treatment is what was meant to differ",
        columns=(
            Column(title="counts as"),
            *new,
            Column(title="field", code=True),
            Column(title="base", code=True),
            Column(title="new", code=True),
            *why,
        ),
        rows=tuple(
            _difference_row(one, with_side=bool(new), with_why=has_why) for one in differences
        ),
        limit=MOST_DIFFERENCES,
    )


def _difference_row(one: Difference, *, with_side: bool, with_why: bool) -> tuple[Cell, ...]:
    base, new = format_pair(one.base, one.new)
    return (
        Cell(text=one.severity, tone=SEVERITY_TONES[one.severity]),
        *((Cell(text=one.side),) if with_side else ()),
        Cell(text=one.path),
        Cell(text=base),
        Cell(text=new),
        *((Cell(text=one.reason, tone="muted"),) if with_why else ()),
    )
