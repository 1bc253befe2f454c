"""Comparison records built by hand, so that each number is known; blocks read; a browser."""

import dataclasses
import math
import os
import shutil
import time
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from schedperf.caveats import caveat
from schedperf.compare import to_families, to_rows, to_sweeps
from schedperf.model import (
    SCHEMA,
    Comparability,
    Comparison,
    Difference,
    FamilySummary,
    Finding,
    Overall,
    Replication,
    Row,
    RunValue,
    Section,
    SideSummary,
    Sweep,
)
from schedperf.stats import compare_runs, records
from schedperf.stats._table import complete
from schedperf.verdicts import MARGIN, decide_overall
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.formats import Options
from schedperf_reports.formats.html import html

UNITS = typing.get_args(Replication)

# What the tests of a page wait for; a chart takes about a second on two busy cores.
LONGEST_WAIT_SECONDS = 60.0

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

HOST: Mapping[str, object] = {
    "kernel": {
        "release": "6.12.0-base",
        "cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=/dev/vda1 ro quiet console=ttyS0",
        "build_id": "3f1c5a9d0b",
    },
    "cpu": {"model": "Example CPU 9000", "count_online": 4, "microcode": "0x5003801"},
    "topology": {"nodes": {"0": "0-1", "1": "2-3"}, "distances": [[10, 20], [20, 10]]},
    "cpufreq": {"driver": None, "governor": None},
    "sched": {"autogroup": 0, "base_slice_ns": 3000000},
    "system": {"hostname": "bench01"},
    "missing": {
        "cpufreq.driver": "no cpufreq on this machine",
        "cpufreq.governor": "no cpufreq on this machine",
    },
}


def make_host(**groups: Mapping[str, object]) -> Mapping[str, object]:
    """Return a host.json with some fields of some groups changed."""
    return {
        name: {**value, **groups.get(name, {})} if isinstance(value, dict) else value
        for name, value in HOST.items()
    }


def _make_side(name: str = "base", **changes: Any) -> SideSummary:
    values: dict[str, Any] = {
        "name": name,
        "label": name,
        "path": f"{name}.tar",
        "digest": ("b" if name == "base" else "e") * 64,
        "created": "2026-11-21T01:00:00.000000Z",
        "complete": True,
        "boots": 1,
        "runs_clean": 5,
        "runs_instrumented": 5,
        "runs_failed": 0,
        "host": HOST,
    }
    return SideSummary(**values | changes)


def make_runs(mean: float) -> tuple[RunValue, ...]:
    """Return five runs that scatter around a mean."""
    return tuple(
        RunValue(boot=0, run=run, order=run, round=run, value=mean * (1.0 + 0.004 * (run - 2)))
        for run in range(5)
    )


def _make_row(**changes: Any) -> Row:
    values: dict[str, Any] = {
        "side": "new",
        "workload": "hackbench -l 1000 -g {groups}",
        "point": "groups=4",
        "metric": "hackbench time",
        "unit": "s",
        "better": "lower",
        "family": "primary",
        "n_base": 5,
        "n_new": 5,
        "base": 0.612,
        "ratio": 1.372,
        "p": 1.2e-7,
        "q": 3.6e-7,
        "margin": 0.03,
        "verdict": "regression",
        "reason": "worse: +37.2 % (95 % interval +35 % to +39.5 %, q = 3.6e-07, 5+5 runs)",
        "method": "Welch t on logs",
        "mde": 0.024,
        "more_runs": None,
        "replication": "runs",
        "icc": None,
        "design_effect": None,
        "p_rank": 0.0079,
        "rank_ratio": 1.371,
        "rank_low": 1.346,
        "rank_high": 1.397,
        "caveats": (),
    } | changes
    base, ratio = values["base"], values["ratio"]
    known = base is not None and ratio is not None
    values = {
        "new": base * ratio if known else None,
        "ci_low": ratio / math.exp(0.0164) if known else None,
        "ci_high": ratio * math.exp(0.0164) if known else None,
        "values_base": make_runs(base) if base is not None else (),
        "values_new": make_runs(base * ratio) if known else (),
    } | values
    return Row(**values)


def _make_rows() -> tuple[Row, ...]:
    pipe = {"workload": "perf bench sched pipe -l 100000", "point": ""}
    return (
        _make_row(
            point="groups=1", base=0.1532, ratio=1.004, verdict="no-change", q=0.63,
            ci_low=0.991, ci_high=1.017, reason="+0.4 %; 90 % interval -0.7 % to +1.5 % inside",
        ),
        _make_row(ci_low=1.35, ci_high=1.395),
        _make_row(
            point="groups=16", base=2.417, ratio=1.046, verdict="inconclusive", q=0.084,
            ci_low=0.990, ci_high=1.105,
            reason="+4.6 % (95 % interval -1 % to +10.5 %, q = 0.084, 5+5 runs): "
            "no significant change, and not shown equal within ±3 %; these runs find changes "
            "from 7.2 %; about 6 more runs a side would settle it",
            mde=0.072, more_runs=6,
            caveats=(caveat("spread", side="new", word="noisier", factor=3.4, p=0.008),),
        ),
        _make_row(
            **pipe, metric="sched/pipe time per operation", base=7.21e-6, ratio=0.962,
            verdict="improvement", q=0.0021, ci_low=0.951, ci_high=0.973,
        ),
        _make_row(
            **pipe, metric="sched/pipe operations", unit="1/s", better="higher",
            family="secondary", base=138700.0, ratio=1.0395, verdict="improvement", q=None,
            ci_low=1.028, ci_high=1.051,
        ),
    )  # fmt: skip


def _make_findings() -> tuple[Finding, ...]:
    pair = "root_cpuacct_cpuusage+sd_llc_id"
    return (
        Finding(
            id=f"separated_pairs#{pair}",
            side="new",
            claim="root_cpuacct_cpuusage and sd_llc_id were on one 64-byte line in base and are "
            "separated by a cacheline boundary in new",
            metric="shared cache line",
            value=None,
            ci=None,
            unit="",
            better=None,
            n=(1, 1),
            evidence=(f"layout#{pair}",),
            replication="1 build a side",
            attribution="co-occurs; not shown to cause the change",
        ),
        Finding(
            id="slow_groups",
            side="new",
            claim="hackbench slows down only where its tasks outnumber the CPUs",
            metric="hackbench time",
            value=0.372,
            ci=(0.35, 0.395),
            unit="",
            better="lower",
            n=(5, 5),
            evidence=("benchmarks", "layout#no_such_row"),
            replication="5+5 runs",
            attribution="co-occurs",
        ),
    )


def make_comparability() -> Comparability:
    return Comparability(
        comparable=True,
        compared=58,
        differences=(
            Difference(
                path="system.hostname", side="new", base="bench01", new="bench02",
                severity="noted", reason="another machine of the same kind",
            ),
            Difference(
                path="kernel.release", side="new", base="6.12.0-base", new="6.12.0-new",
                severity="treatment", reason="the kernel is what is compared",
            ),
            Difference(
                path="kernel.cmdline", side="new",
                base="BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=/dev/vda1 ro quiet console=ttyS0",
                new="BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=/dev/vda1 ro quiet nokaslr console=ttyS0",
                severity="noted", reason="no word of it changes how tasks are scheduled",
            ),
        ),
    )  # fmt: skip


def _make_comparison(**changes: Any) -> Comparison:
    rows = changes.get("rows", _make_rows())
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "tool_version": "0.1.0",
        "sides": (
            _make_side("base"),
            _make_side(
                "new",
                host=make_host(kernel={"release": "6.12.0-new"}, system={"hostname": "bench02"}),
            ),
        ),
        "comparability": make_comparability(),
        "rows": rows,
        "sweeps": (
            Sweep(
                side="new",
                workload="hackbench -l 1000 -g {groups}",
                metric="hackbench time",
                points=("groups=1", "groups=4", "groups=16"),
                geomean_ratio=1.129,
                ci_low=1.09,
                ci_high=1.17,
                p=2.3e-6,
                shape="grows with groups",
                first_point="groups=4",
                method="Stouffer's z, weights 1/se",
            ),
        ),
        "families": (
            FamilySummary(
                family="primary",
                side="new",
                rows=4,
                tested=4,
                expected_false=0.1,
                verdicts={"regression": 1, "improvement": 1, "no-change": 1, "inconclusive": 1},
            ),
        ),
        "findings": _make_findings(),
        "sections": {
            "layout": Section(
                schema="schedperf/section/layout/1",
                status="absent",
                reason="no System.map, kallsyms or BTF in base.tar",
                data=None,
            )
        },
        "caveats": (
            caveat("blocks"),
            caveat("one-boot", side="base"),
            caveat("one-boot", side="new"),
            caveat("failed-runs", failed=1, total=6, side="new"),
        ),
        "overall": Overall(verdict="regression", reason="1 regression", exit_status=1),
    }
    return Comparison(**values | changes)


@pytest.fixture(scope="session")
def make_comparison() -> Callable[..., Comparison]:
    """Build a record with five results, one of them a regression; fields can be replaced."""
    return _make_comparison


def _compare_frame(runs: pd.DataFrame, **changes: Any) -> Comparison:
    result = compare_runs(runs, base="base")
    single = complete(runs)[lambda table: ~table["is_summary"]]
    clean = single.assign(run=range(len(single)))
    rows = tuple(to_rows(records(result.rows), clean, MARGIN))
    values: dict[str, Any] = {
        "rows": rows,
        "sweeps": tuple(to_sweeps(result)),
        "families": tuple(to_families(rows)),
        "overall": decide_overall(rows, blocking=(), absence=("inconclusive", "no result")),
        "caveats": (),
    }
    return _make_comparison(**values | changes)


@pytest.fixture(scope="session")
def compare_frame() -> Callable[..., Comparison]:
    """Build the record of a table of runs, judged by the real engine; fields can be replaced.

    The table is as :func:`schedperf.stats.compare_runs` takes it, with the sides base and new.
    """
    return _compare_frame


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    """Build one row, a regression; what follows from a changed base or ratio follows."""
    return _make_row


@pytest.fixture(scope="session")
def make_side() -> Callable[..., SideSummary]:
    """Build one side: ``make_side("new", runs_clean=3)``."""
    return _make_side


def _replace_texts(value: Any, text: str, key: str = "") -> Any:
    # Words of a closed set and a caveat's code choose what is said; everything else is said.
    if isinstance(value, str):
        closed = {
            "severity",
            "verdict",
            "family",
            "better",
            "bearing",
            "status",
            "schema",
            "code",
            "unit",
        }
        is_unit = key == "replication" and value in UNITS
        return value if key in closed or is_unit else text
    if isinstance(value, Mapping):
        return {name: _replace_texts(item, text) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_replace_texts(item, text, key) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return type(value)(
            **{name: _replace_texts(item, text, name) for name, item in fields.items()}
        )
    return value


@pytest.fixture(scope="session")
def replace_texts() -> Callable[[Comparison, str], Comparison]:
    """Put one text into every text field of a record that is not a word of a closed set."""

    def replace(comparison: Comparison, text: str) -> Comparison:
        replaced: Comparison = _replace_texts(comparison, text)
        return replaced

    return replace


class Blocks(list[Block]):
    """What a section describes."""

    def texts(self) -> list[str]:
        return [block.text for block in self if isinstance(block, Text)]

    def tables(self) -> list[Table]:
        return [block for block in self if isinstance(block, Table)]


@pytest.fixture(scope="session")
def to_blocks() -> type[Blocks]:
    """Gather what a section describes: ``to_blocks(c2c(comparison)).texts()``."""
    return Blocks


@pytest.fixture(scope="session")
def cells() -> Callable[[Table], list[list[str]]]:
    """Return the texts of a table's cells."""
    return lambda table: [[cell.text for cell in row] for row in table.rows]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium, or skip where it cannot be driven."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here; apt-get install chromium")
    arguments = ["--disable-gpu", "--disable-background-networking"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=arguments)
        yield started
        started.close()


@dataclass(kw_only=True)
class Visit:
    """One opened page, and what it complained of and asked for."""

    page: Any
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)

    def wait_for(self, script: str) -> None:
        # The policy forbids what the browser driver's own waiting would evaluate.
        end = time.monotonic() + LONGEST_WAIT_SECONDS
        while not self.ask(script):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.05)

    def draw_all(self) -> int:
        """Scroll to each chart that is not folded away until it is drawn; return how many."""
        charts = "[...document.querySelectorAll('figure.chart > .plot')]"
        shown = f"{charts}.filter((one) => one.checkVisibility())"
        count = int(self.ask(f"{shown}.length"))
        for number in range(count):
            plot = f"{shown}[{number}]"
            self.ask(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
            self.wait_for(f"['done', 'failed'].includes({plot}.dataset.drawn)")
            assert self.ask(f"{plot}.dataset.drawn") == "done"
        return count


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Open a record's page: ``visit(comparison, width=400, color_scheme="dark") -> Visit``.

    ``anchor`` is what the address ends in, ``options`` are those of the format.
    """
    contexts = []

    def open_page(
        comparison: Comparison,
        *,
        width: int = 1400,
        anchor: str = "",
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Visit:
        path = tmp_path / "report.html"
        chosen = Options(width=78, colour=False, **options or {})
        path.write_text(html(comparison, chosen), encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        opened = Visit(page=context.new_page())
        opened.page.on("console", lambda message: opened.console.append(message.text))
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(f"{path.as_uri()}{anchor}")
        if settings.get("java_script_enabled", True):
            opened.wait_for("document.documentElement.dataset.ready === 'true'")
        return opened

    yield open_page
    for context in contexts:
        context.close()
