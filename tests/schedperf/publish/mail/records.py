# SPDX-License-Identifier: GPL-2.0-or-later
"""Records about a first bad commit, and a site, for the tests of mails."""

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from schedperf.model.comparison import SCHEMA, Comparison, Overall
from schedperf.model.rows import Row, RunValue, digest_of
from schedperf.model.sections import Finding
from schedperf.model.sides import Comparability, SideSummary
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.culprit.record import (
    Bisection,
    BisectionStep,
    Commit,
    Culprit,
    Elsewhere,
    Links,
    Measured,
    Retest,
    Revert,
    Trailer,
    Tree,
)
from schedperf.publish.mail.site import MailSite, Site

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
GOOD = "0a2b65c03e9b" + "1" * 28
BAD = "0123456789ab" + "2" * 28
AUTHOR = "Ada Author <ada@kernel.example>"
LIST = "sched-perf@lab.example"

HOST: dict[str, object] = {
    "kernel": {"release": "6.19.0", "compiler": "gcc 15.3.0"},
    "cpu": {
        "model": "AMD EPYC",
        "family_model_stepping": "25-17-1",
        "microcode": "0x1000065",
        "smt": "on",
        "count_online": 96,
    },
    "topology": {
        "cpus": [
            {"cpu": cpu, "core": cpu, "socket": cpu // 48, "node": cpu // 48} for cpu in range(96)
        ],
        "nodes": {"0": "0-47", "1": "48-95"},
    },
    "cpufreq": {"governor": "performance", "boost": False},
    "sched": {"hz": 250, "preempt": "lazy", "numa_balancing": 1, "autogroup": 0},
    "cgroup": {"depth": 0},
    "virtualisation": {"kind": "none", "emulated": False},
    "system": {
        "hostname": "epyc-7.lab.internal",
        "boot_id": "bdcf3983-3bba-42e4-a3b5-636ab0bccadf",
    },
}


def make_row(**fields: Any) -> Row:
    """Return a result that regressed by 21.8%."""
    default: dict[str, Any] = {
        "side": "new",
        "workload": "hackbench -p -l 4000 -g 16",
        "point": "",
        "metric": "hackbench time",
        "unit": "s",
        "better": "lower",
        "family": "primary",
        "n_base": 8,
        "n_new": 8,
        "base": 1.737,
        "new": 2.117,
        "ratio": 1.218,
        "ci_low": 1.161,
        "ci_high": 1.279,
        "p": 0.0004,
        "q": 0.0008,
        "verdict": "regression",
        "mde": 0.03,
        "more_runs": None,
        "method": "Welch t on logs",
        "replication": "boots",
        "icc": None,
        "design_effect": None,
        "p_rank": None,
        "rank_ratio": None,
        "rank_low": None,
        "rank_high": None,
        "caveats": (),
        "margin": 0.03,
        "reason": "worse",
        "reason_plain": "worse",
        "reason_short": "worse",
        "values_base": (RunValue(boot=0, run=0, order=0, round=0, value=1.737),),
        "values_new": (RunValue(boot=0, run=0, order=1, round=0, value=2.117),),
        "definition": "Time from the start signal until all senders and receivers have exited.",
    }
    return Row(**{**default, **fields})


def no_change(**fields: Any) -> Row:
    """Return a result that did not change."""
    default = {
        "new": 1.741,
        "ratio": 1.002,
        "ci_low": 0.985,
        "ci_high": 1.02,
        "verdict": "no-change",
    }
    return make_row(**{**default, "q": 0.8, **fields})


SWEEP = (
    no_change(
        workload="hackbench -p -l 4000 -g 1",
        base=0.412,
        new=0.415,
        ratio=1.007,
        ci_low=0.991,
        ci_high=1.023,
    ),
    make_row(
        workload="hackbench -p -l 4000 -g 4",
        base=0.873,
        new=0.951,
        ratio=1.089,
        ci_low=1.06,
        ci_high=1.119,
    ),
    make_row(),
)


def make_side(name: str, **fields: Any) -> SideSummary:
    """Return a recorded side."""
    default: dict[str, Any] = {
        "name": name,
        "label": name,
        "path": f"/home/ada/private/{name}.tar",
        "digest": digest_of([name]),
        "created": "2026-11-20T10:00:00Z",
        "complete": True,
        "boots": 8,
        "runs_clean": 32,
        "runs_instrumented": 0,
        "runs_failed": 0,
        "host": HOST,
        "recorded_by": "schedperf 0.1.0",
    }
    return SideSummary(**{**default, **fields})


def make_comparison(*rows: Row, name: str = "main", **fields: Any) -> Comparison:
    """Return a comparison of two sides; equal names have equal ids and digests."""
    default: dict[str, Any] = {
        "schema": SCHEMA,
        "id": digest_of([name]),
        "tool_version": "0.1.0",
        "sides": tuple(make_side(side, digest=digest_of([name, side])) for side in ("base", "new")),
        "comparability": Comparability(
            comparable=True, compared=90, differences=(), equal=("kernel.config_sha256",)
        ),
        "rows": rows or (make_row(),),
        "sweeps": (),
        "families": (),
        "findings": (),
        "sections": {},
        "caveats": (),
        "overall": Overall(
            verdict="regression", reason="worse", reason_short="worse", exit_status=1
        ),
    }
    return Comparison(**{**default, **fields})


def make_finding(**fields: Any) -> Finding:
    """Return a finding that may explain a regression."""
    default: dict[str, Any] = {
        "id": "system_changes#new-58",
        "side": "new",
        "clause": "system time per message 0.9524 us → 1.183 us",
        "metric": "system time",
        "value": 24.2,
        "ci": (19.0, 30.0),
        "unit": "%",
        "better": "lower",
        "n": (8, 8),
        "evidence": ("system_counters#new-58",),
        "replication": "8+8 boots",
        "attribution": "correlated; causation not shown",
        "change": ", +24.2% (95% CI [+19%, +30%])",
    }
    return Finding(**{**default, **fields})


def measured(name: str) -> Measured:
    """Return the new side of a comparison of this name."""
    return Measured(comparison=digest_of([name]))


def make_culprit(**fields: Any) -> Culprit:
    """Return a record that passes all checks that need no network."""
    trailers = (
        Trailer(name="Signed-off-by", value=AUTHOR),
        Trailer(name="Reviewed-by", value="Rita Reviewer <rita@kernel.example>"),
        Trailer(name="Signed-off-by", value="Max Maintainer <max@kernel.example>"),
    )
    default: dict[str, Any] = {
        "good": Commit(commit=GOOD, subject="sched/fair: Do the thing before"),
        "bad": Commit(
            commit=BAD,
            subject="sched/fair: Wake the previous CPU first",
            author=AUTHOR,
            committer="Max Maintainer <max@kernel.example>",
            committed="2026-11-10T10:00:00+00:00",
            trailers=trailers,
        ),
        "is_range": False,
        "benchmark": "hackbench",
        "tree": Tree(
            name="tip/sched/core", commit="fedcba987654" + "3" * 28, date="2026-11-21T00:00:00Z"
        ),
        "merged": True,
        "main": measured("main"),
        "comparisons": tuple(
            digest_of([name]) for name in ("main", "found", "tip", "revert", "small")
        ),
        "retest": Retest(result=measured("main"), found=digest_of(["found"])),
        "bisection": Bisection(
            good=GOOD,
            bad=BAD,
            steps=(BisectionStep(commit=BAD, boots=8, probability=0.996),),
            builds=10,
            boots=40,
            probability=0.996,
            neighbours_tested=True,
        ),
        "tip": measured("tip"),
        "revert": Revert(result=measured("revert")),
        "no_change_on": (Elsewhere(result=measured("small"), machine="1-socket, 64-CPU EPYC"),),
        "links": Links(),
    }
    return Culprit(**{**default, **fields})


def make_comparisons(*rows: Row, **fields: Any) -> dict[str, Comparison]:
    """Return the comparisons of :func:`make_culprit` by their ids, the main one of these rows."""
    shown = rows or SWEEP
    tips = [replace(row, new=(row.new or 0.0) * 0.996) for row in shown]
    reverts = [
        replace(row, new=row.base, ratio=1.0, ci_low=0.985, ci_high=1.015, verdict="no-change")
        for row in shown
    ]
    made = [
        make_comparison(*shown, name="main", **fields),
        make_comparison(*shown, name="found"),
        make_comparison(*tips, name="tip"),
        make_comparison(*reverts, name="revert"),
        make_comparison(*map(no_change_of, shown), name="small"),
    ]
    return {each.id: each for each in made}


def no_change_of(row: Row) -> Row:
    """Return the same result without a change."""
    return replace(row, new=row.base, ratio=1.0, ci_low=0.99, ci_high=1.01, verdict="no-change")


def make_evidence(*rows: Row, culprit: Culprit | None = None, **fields: Any) -> Evidence:
    """Return a record and its comparisons."""
    return Evidence(
        culprit=culprit or make_culprit(), comparisons=make_comparisons(*rows, **fields)
    )


def make_site(**fields: Any) -> MailSite:
    """Return a site that may write to the people of :func:`make_culprit`."""
    site = Site(
        name="Example lab",
        domain="lab.example",
        sender="schedperf <schedperf@lab.example>",
        contact="perf-team@lab.example",
        list=LIST,
        base_url="https://lab.example/schedperf",
    )
    return MailSite(**{"site": site, "allow": ("@kernel.example",), **fields})
