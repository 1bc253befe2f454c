# SPDX-License-Identifier: GPL-2.0-or-later
"""Format the results as tables, and write them as CSV."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from bench.verdicts.cells import Cell
from bench.verdicts.gates import Check, Scores, by_gate
from bench.verdicts.measure import OURS, Rate, Score
from bench.verdicts.real import RealScore
from bench.verdicts.rivals import RIVALS

NAME_WIDTH = 34
RATES = (
    ("row_alarms", "rows"),
    ("family_alarms", "families"),
    ("fdr", "FDR"),
    ("power", "power"),
    ("sign_errors", "sign"),
    ("coverage", "cover"),
    ("false_no_change", "same!"),
    ("inconclusive", "open"),
)


def _percent(found: Rate | None, width: int = 6) -> str:
    return f"{'·':>{width}}" if found is None else f"{100 * found.value:{width}.2f}"


def _with_error(found: Rate | None) -> str:
    return f"{'·':>11}" if found is None else f"{100 * found.value:6.2f}±{200 * found.error:<4.2f}"


def _rival(score: Score) -> str:
    # One number a kind of cell: power where rows moved, else false alarms of rows and families.
    if score.power is not None:
        return f"{_percent(score.power):>13}"
    return f"{_percent(score.row_alarms)}/{_percent(score.family_alarms)}"


def cell_lines(cells: Sequence[Cell], scores: Scores) -> Iterator[str]:
    """Yield a header, then one line per cell: all our rates, then the main rates of other tools.

    Those are the power if the cell has a true change, else the false positives per row and per
    family.
    """
    ours = "  ".join(f"{title:^11}" for _, title in RATES[:2])
    rest = " ".join(f"{title:>6}" for _, title in RATES[2:])
    rivals = " ".join(f"{name:>13}" for name in RIVALS)
    yield f"{'%, ±2 standard errors':<{NAME_WIDTH}} {ours} {rest} {'ms/1000':>7} | {rivals}"
    for cell in cells:
        score, *others = scores[cell.name]
        alarms = "  ".join(_with_error(getattr(score, name)) for name, _ in RATES[:2])
        others_text = " ".join(_rival(other) for other in others)
        rates = " ".join(_percent(getattr(score, name)) for name, _ in RATES[2:])
        yield (
            f"{cell.name:<{NAME_WIDTH}} {alarms} {rates} {score.ms_per_1000_rows:7.0f} "
            f"| {others_text}"
        )


def _mean(found: Iterable[Rate | None]) -> str:
    values = [rate.value for rate in found if rate is not None]
    return f"{100 * sum(values) / len(values):9.2f}" if values else f"{'·':>9}"


def tool_lines(scores: Scores) -> Iterator[str]:
    """Yield a header, then one line per tool: the mean of each rate over the cells that have it."""
    yield f"{'mean over cells, %':<18}" + "".join(f"{title:>9}" for _, title in RATES) + "  ms/1000"
    by_tool: dict[str, list[Score]] = {}
    for found in scores.values():
        for score in found:
            by_tool.setdefault(score.tool, []).append(score)
    for tool, found in by_tool.items():
        rates = "".join(_mean(getattr(score, name) for score in found) for name, _ in RATES)
        ms = sum(score.ms_per_1000_rows for score in found) / len(found)
        yield f"{tool:<18}{rates}{ms:9.1f}"


def real_lines(scores: Iterable[RealScore]) -> Iterator[str]:
    """Yield a header, then one line per recording and case.

    It has the shares of rows and of windows that are reported as changed, by tool, and for
    schedperf also those with sign errors and with warnings.
    """
    groups: dict[tuple[str, str], list[RealScore]] = {}
    for score in scores:
        groups.setdefault((score.recording, score.case), []).append(score)
    tools = " ".join(f"{name:>13}" for name in (OURS, *RIVALS))
    yield f"{'rows/windows called changed, %':<{NAME_WIDTH}} {tools}    sign  modes spread"
    for (recording, case), found in groups.items():
        rates = " ".join(f"{_percent(score.rows)}/{_percent(score.families)}" for score in found)
        ours = found[0]
        flags = " ".join(f"{100 * flag:6.2f}" for flag in ours.flags or ())
        yield (
            f"{f'{recording}: {case}':<{NAME_WIDTH}} {rates}  {_percent(ours.sign_errors)} {flags}"
        )


def _shown(check: Check) -> str:
    if check.error is None and check.limit > 1:
        return f"{check.value:8.1f} {'<=' if check.is_upper else '>='} {check.limit:g}"
    error = "" if check.error is None else f" ±{200 * check.error:.2f}"
    sign = "<=" if check.is_upper else ">="
    return f"{100 * check.value:8.2f}{error} % {sign} {100 * check.limit:g} %"


def gate_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a header, then for each limit its worst cell and all other cells that fail."""
    yield "gates, each with its worst cell"
    for gate, group in by_gate(checks).items():
        worst, *others = group
        kept = sum(check.is_kept for check in group)
        word = "pass" if worst.is_kept else "FAIL"
        count = f"{kept}/{len(group)} cells"
        yield f"{word}  {gate:<34} {count:<13}  {_shown(worst):<30}  {worst.cell}"
        for check in others:
            if not check.is_kept:
                yield f"FAIL  {'':<34} {'':<13}  {_shown(check):<30}  {check.cell}"


def write_csv(path: Path, cells: Sequence[Cell], scores: Scores) -> None:
    """Write one line per cell and tool: rates as fractions, each with its standard error.

    The two fields of a rate that a cell or a tool does not have are empty.
    """
    names = [
        field.name for field in fields(Score) if field.name not in {"tool", "ms_per_1000_rows"}
    ]
    columns = [column for name in names for column in (name, f"{name}_error")]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["cell", "trials", "tool", *columns, "ms_per_1000_rows"])
        for cell in cells:
            for score in scores[cell.name]:
                rates: list[Rate | None] = [getattr(score, name) for name in names]
                numbers = [
                    text
                    for found in rates
                    for text in (("", "") if found is None else (found.value, found.error))
                ]
                row = [cell.name, cell.trials, score.tool, *numbers, score.ms_per_1000_rows]
                writer.writerow(row)
