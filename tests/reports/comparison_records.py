# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparison records built by hand, so that each number is known."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from schedperf.compare.rows import to_families, to_rows
from schedperf.compare.side_by_side import FEWEST_SIDES, put_side_by_side
from schedperf.model.caveats import caveat
from schedperf.model.comparison import SCHEMA, Comparison, Overall
from schedperf.model.row_groups import Sweep
from schedperf.model.rows import Row, RunValue, Verdict
from schedperf.model.sections import Finding, Section
from schedperf.model.sides import Comparability, Difference, SideSummary
from schedperf.model.verdict import MARGIN, Reason, decide_overall, reason_of
from schedperf.stats import compare_runs
from schedperf.stats._rows import complete
from schedperf.stats.side_statistics import describe_runs

UNSETTLED = "not significant, and equivalence within +-3% is not shown"
# A command that compares the other way round.
NO_RESULT: tuple[Verdict, Reason] = ("inconclusive", reason_of("no result"))
OTHER_BASE = "schedperf compare 'new one.tar' base.tar"

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


def overall_of(verdict: Verdict, reason: str, exit_status: int) -> Overall:
    """Return the verdict of a comparison."""
    return Overall(verdict=verdict, reason=reason, reason_short=reason, exit_status=exit_status)


def make_host(**groups: Mapping[str, object]) -> Mapping[str, object]:
    """Return a host.json with some fields of some groups changed."""
    return {
        name: {**value, **groups.get(name, {})} if isinstance(value, dict) else value
        for name, value in HOST.items()
    }


def make_side(name: str = "base", **changes: Any) -> SideSummary:
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
    return SideSummary(**{"recorded_by": "schedperf 0.1.0"} | values | changes)


def make_runs(mean: float) -> tuple[RunValue, ...]:
    """Return five runs that scatter around a mean."""
    return tuple(
        RunValue(boot=0, run=run, order=run, round=run, value=mean * (1.0 + 0.004 * (run - 2)))
        for run in range(5)
    )


def make_row(**changes: Any) -> Row:
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
        "reason": "+37.2% [+35%, +39.5%] (q = 3.6e-07, n = 5+5 runs)",
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
    described = describe_runs(
        values["values_base"],
        values["values_new"],
        means=(base, values["new"]),
        replication=values["replication"],
        is_maximum=False,
    )
    reason = values["reason"]
    forms = {"reason_plain": reason, "reason_short": reason.partition("; ")[0]}
    return Row(**{**forms, **described, **values})


def _make_rows() -> tuple[Row, ...]:
    pipe = {"workload": "perf bench sched pipe -l 100000", "point": ""}
    return (
        make_row(
            point="groups=1", base=0.1532, ratio=1.004, verdict="no-change", q=0.63,
            ci_low=0.991, ci_high=1.017, reason="+0.4%; 90% interval -0.7% to +1.5% inside",
        ),
        make_row(ci_low=1.35, ci_high=1.395),
        make_row(
            point="groups=16", base=2.417, ratio=1.046, verdict="inconclusive", q=0.084,
            ci_low=0.990, ci_high=1.105,
            reason="+4.6% [-1%, +10.5%] (q = 0.084, n = 5+5 runs): "
            "not significant, and equivalence within +-3% is not shown; smallest detectable change "
            "7.2% (80% power); about 6 more runs per side would give a verdict",
            reason_plain=UNSETTLED, reason_short=UNSETTLED, mde=0.072, more_runs=6,
            caveats=(caveat("spread", side="new", word="noisier", factor=3.4, p=0.008),),
        ),
        make_row(
            **pipe, metric="sched/pipe time per operation", base=7.21e-6, ratio=0.962,
            verdict="improvement", q=0.0021, ci_low=0.951, ci_high=0.973,
        ),
        make_row(
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
            clause="root_cpuacct_cpuusage and sd_llc_id were on one 64-byte line in base and are "
            "separated by a cacheline boundary in new",
            metric="shared cache line",
            value=None,
            ci=None,
            unit="",
            better=None,
            n=(1, 1),
            evidence=(f"layout#{pair}",),
            replication="1 build per side",
            attribution="correlated; causation not shown",
        ),
        Finding(
            id="slow_groups",
            side="new",
            clause="hackbench slows down only where its tasks outnumber the CPUs",
            metric="hackbench time",
            value=0.372,
            ci=(0.35, 0.395),
            unit="",
            better="lower",
            n=(5, 5),
            evidence=("benchmarks", "layout#no_such_row"),
            replication="5+5 runs",
            attribution="correlated",
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
                severity="treatment", reason="the kernel under test",
            ),
            Difference(
                path="kernel.cmdline", side="new",
                base="BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=/dev/vda1 ro quiet console=ttyS0",
                new="BOOT_IMAGE=/boot/vmlinuz-6.12.0 root=/dev/vda1 ro quiet nokaslr console=ttyS0",
                severity="noted", reason="no word of it changes how tasks are scheduled",
            ),
        ),
    )  # fmt: skip


def make_comparison(**changes: Any) -> Comparison:
    rows = changes.get("rows", _make_rows())
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "id": "0" * 64,
        "tool_version": "0.1.0",
        "sides": (
            make_side("base"),
            make_side(
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
        "families": tuple(to_families(rows)),
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
        "overall": overall_of("regression", "1 regression", 1),
    }
    made = values | changes
    sides = [side.name for side in made["sides"]]
    beside = put_side_by_side(rows, sides, {}) if len(sides) >= FEWEST_SIDES else ()
    return Comparison(**{"side_by_side": tuple(beside)} | made)


def compare_frame(runs: pd.DataFrame, **changes: Any) -> Comparison:
    result = compare_runs(runs, base="base")
    table = complete(runs)
    single = table.take(~table["is_summary"])
    clean = single.assign(run=list(range(len(single))))
    rows = tuple(to_rows(result.rows, clean, MARGIN))
    values: dict[str, Any] = {
        "rows": rows,
        "sweeps": tuple(sweep for _, sweep in result.sweeps),
        "families": tuple(to_families(rows)),
        "overall": decide_overall(
            rows, blocking=(), absence=("inconclusive", reason_of("no result"))
        ),
        "caveats": (),
    }
    return make_comparison(**values | changes)
