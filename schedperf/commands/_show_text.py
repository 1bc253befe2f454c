# SPDX-License-Identifier: GPL-2.0-or-later
"""Format the summary of a bundle as text."""

from collections.abc import Iterator, Mapping, Sequence

from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from schedperf.commands._summary import BundleSummary, Machine, PointSummary, RunSummary
from schedperf.inputs.bundle.manifest import SourceEntry
from schedperf.model.text import clean_beginnings, clean_line, make_console

# Wall times above this many seconds get one decimal, others three.
_LONG_S = 100.0
_BELOW_HEADING = (0, 0, 0, 2)


def format_summary(summary: BundleSummary, *, list_runs: bool) -> str:
    """Format a summary to the terminal's width; 78 columns without a terminal.

    :param list_runs: whether to list each run
    """
    console = make_console()
    with console.capture() as capture:
        for heading, table in _parts(summary, list_runs=list_runs):
            console.print(Text(heading, style="bold"))
            console.print(Padding(table, _BELOW_HEADING))
            console.print()
    # Tables pad their last column, too.
    lines = "\n".join(line.rstrip() for line in capture.get().rstrip().split("\n"))
    return clean_beginnings(f"{lines}\n")


def _parts(summary: BundleSummary, *, list_runs: bool) -> Iterator[tuple[str, Table]]:
    """Yield each part as a heading and its lines."""
    state = "complete" if summary.complete else "incomplete"
    size = f"{summary.members} files, {decimal(summary.bytes)}"
    yield clean_line(f"{summary.label}: {summary.path}, {size}, {state}"), _facts(summary)
    if summary.points:
        yield _runs_heading(summary), _point_table(summary.points)
    if list_runs and summary.runs:
        yield "runs in the order of recording", _run_table(summary.runs)
    if summary.boots:
        yield "boots", _boot_table(summary)
    if summary.captures:
        yield "captures", _capture_table(summary)
    gaps = [(item.collector, reason) for item in summary.captures for reason in item.reasons]
    if gaps:
        yield (
            "not captured",
            _pairs(
                [(name, f"{gap.status} {_times(gap.count)}: {gap.reason}") for name, gap in gaps],
                style="yellow",
            ),
        )
    weaknesses = list(_weaknesses(summary))
    if weaknesses:
        yield "caveats", _pairs(weaknesses, style="yellow")


def _table(*columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in columns:
        is_number = title in right
        table.add_column(
            title,
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    return table


def _add_row(table: Table, *cells: object) -> None:
    table.add_row(*(Text("" if cell is None else clean_line(str(cell))) for cell in cells))


def _pairs(rows: Sequence[tuple[str, str]], *, style: str = "dim") -> Table:
    """Draw names, in a style, beside texts that may wrap."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style=style)
    grid.add_column(overflow="fold")
    for name, text in rows:
        _add_row(grid, name, text)
    return grid


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.{1 if value >= _LONG_S else 3}f} s"


def _facts(summary: BundleSummary) -> Table:
    recorded = (summary.created or "at an unknown time").replace("T", " ").partition(".")[0]
    version = f" by schedperf {summary.tool_version}" if summary.tool_version else ""
    verified = summary.verification
    rows = [
        # An imported bundle has the version of the importer.
        (
            "recorded",
            f"{recorded}{' UTC' if summary.created else ''}{'' if summary.imported else version}",
        ),
        *([("imported", f"from {summary.imported}{version}")] if summary.imported else []),
        ("machine", _machine_line(summary.machine)),
        *([("machine kind", summary.machine_name)] if summary.machine_name else []),
        *([("facts", _facts_line(summary.facts))] if summary.facts else []),
        ("kernel", _kernel_line(summary.machine)),
        *([("commit", _commit_line(summary.source))] if summary.source else []),
        *(("workload", workload) for workload in summary.workload),
        *([("factors", _levels(summary))] if summary.factors else []),
        *([("setup", summary.setup)] if summary.setup else []),
        *([("service", summary.service)] if summary.service else []),
        *([("load", summary.load)] if summary.load else []),
        *([("server", summary.server)] if summary.server else []),
        ("treatment", ", ".join([*_usual_treatment(summary), *summary.treatment])),
        *(
            ("metric", f"{rule.name} [{rule.unit}, {rule.better} is better] {rule.regex}")
            for rule in summary.metric
        ),
        *([("sha256", verified.digest)] if verified and verified.digest else []),
    ]
    return _pairs(rows)


def _commit_line(source: SourceEntry) -> str:
    parts = (
        source.commit,
        f'"{source.subject}"' if source.subject else "",
        source.tree,
        source.ref,
        f"{len(source.patches)} patches applied" if source.patches else "",
        "uncommitted changes" if source.dirty else "",
    )
    return ", ".join(filter(None, parts))


def _levels(summary: BundleSummary) -> str:
    return ", ".join(f"{factor} {level}" for factor, level in summary.factors.items())


def _usual_treatment(summary: BundleSummary) -> Iterator[str]:
    """Yield treatments that need no ``--vary``.

    These are the kernel, unless the runs were interleaved; and the setup, if there is one or if the
    runs were interleaved.
    """
    if not summary.is_side_of_ab:
        yield "the kernel"
    if summary.is_side_of_ab or summary.setup:
        yield "the setup"


def _facts_line(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(facts.items()))


def _machine_line(machine: Machine) -> str:
    kinds = {"none": "not virtual", None: "unknown whether virtual"}
    virtual = kinds.get(machine.virtualisation, f"{machine.virtualisation} guest")
    cpus = "1 CPU" if machine.cpus == 1 else f"{machine.cpus} CPUs"
    count = cpus if machine.cpus else "unknown number of CPUs"
    parts = [
        machine.cpu or "unknown CPU",
        f"{count} in {machine.nodes} nodes" if machine.nodes and machine.nodes > 1 else count,
        decimal(machine.memory_bytes) if machine.memory_bytes else None,
        "emulated" if machine.emulated else virtual,
        machine.hostname,
        machine.distro,
    ]
    return ", ".join(part for part in parts if part)


def _kernel_line(machine: Machine) -> str:
    parts = [
        " ".join(part for part in (machine.kernel, machine.architecture) if part) or "unknown",
        f"build id {machine.build_id}" if machine.build_id else None,
        machine.kernel_version,
    ]
    return ", ".join(part for part in parts if part)


def _runs_heading(summary: BundleSummary) -> str:
    if summary.planned_runs is None:
        return f"runs: {summary.finished_runs}"
    return f"runs: {summary.finished_runs} of {summary.planned_runs}"


def _point_table(points: Sequence[PointSummary]) -> Table:
    """Draw one row per point.

    A single workload is not shown, nor are warm-up and discarded runs if there are none.
    """
    several = len({point.workload for point in points}) > 1
    warmed = any(point.warmup for point in points)
    discarded = any(point.discarded for point in points)
    counts = (
        "clean",
        "instrumented",
        *(["warm-up"] if warmed else []),
        "failed",
        *(["discarded"] if discarded else []),
        "clean wall time",
    )
    names = ("workload", "point") if several else ("point",)
    table = _table(*names, *counts, right=counts)
    for point in points:
        _add_row(
            table,
            *([point.workload] if several else []),
            point.point or "(none)",
            point.clean,
            point.instrumented,
            *([point.warmup] if warmed else []),
            point.failed,
            *([point.discarded] if discarded else []),
            _range(point.wall_min_s, point.wall_max_s),
        )
    return table


def _range(low: float | None, high: float | None) -> str:
    if low == high:
        return _seconds(low)
    return f"{_seconds(low).removesuffix(' s')} .. {_seconds(high)}"


def _run_table(runs: Sequence[RunSummary]) -> Table:
    table = _table(
        "order", "run", "point", "kind", "wall time", "outcome", right=("order", "wall time")
    )
    for run in sorted(runs, key=lambda run: run.order):
        kind = f"{run.kind} warm-up" if run.warmup else run.kind
        folder = run.folder.removeprefix("boots/").replace("/runs/", "/")
        _add_row(table, run.order, folder, run.point, kind, _seconds(run.wall_s), run.outcome)
    return table


def _boot_table(summary: BundleSummary) -> Table:
    table = _table("boot", "runs", "kernel", "boot id", right=("boot", "runs"))
    for boot in summary.boots:
        _add_row(table, boot.number, boot.runs, boot.kernel, boot.boot_id)
    return table


def _capture_table(summary: BundleSummary) -> Table:
    numbers = ("captured", "files", "size", "cost")
    table = _table("collector", *numbers, right=numbers)
    for item in summary.captures:
        _add_row(
            table,
            item.collector,
            f"{item.captured} x" if item.captured else "-",
            item.files or None,
            decimal(item.bytes) if item.files else None,
            _seconds(item.seconds),
        )
    return table


def _weaknesses(summary: BundleSummary) -> Iterator[tuple[str, str]]:
    """Yield kind and text of what weakens the bundle: incomplete, caveats, and damaged members."""
    if not summary.complete:
        yield "incomplete", summary.incomplete_reason or "no reason recorded"
    for caveat in summary.caveats:
        yield "caveat", caveat
    if summary.verification:
        for name in summary.verification.broken:
            yield "broken", f"{name} does not match its checksum"
