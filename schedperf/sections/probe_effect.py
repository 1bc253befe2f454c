"""What the instruments cost: instrumented runs against clean runs of one side.

Verdicts rest on clean runs. Profiles come from instrumented runs, and this
section says how far these were disturbed by what they were measured with.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from schedperf.runs import df_run_values
from schedperf.sections import Absent, Data, section
from schedperf.sections._schema import NUMBER_OR_NULL
from schedperf.sides import Side
from schedperf.stats import KEY, compare_runs, records

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "required": ["rows"],
    "properties": {
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "side", "workload", "point", "metric", "unit", "better",
                    "n_clean", "n_instrumented", "clean", "instrumented",
                    "ratio", "ci_low", "ci_high",
                ],
                "properties": {
                    "side": {"type": "string"},
                    "workload": {"type": "string"},
                    "point": {"type": "string"},
                    "metric": {"type": "string"},
                    "unit": {"type": "string"},
                    "better": {"enum": ["higher", "lower"]},
                    "n_clean": {"type": "integer"},
                    "n_instrumented": {"type": "integer"},
                    "clean": NUMBER_OR_NULL,
                    "instrumented": NUMBER_OR_NULL,
                    "ratio": NUMBER_OR_NULL,
                    "ci_low": NUMBER_OR_NULL,
                    "ci_high": NUMBER_OR_NULL,
                },
            },
        }
    },
}  # fmt: skip

CLEAN, INSTRUMENTED = "clean", "instrumented"


@section("probe_effect", version=1, schema=SCHEMA)
def probe_effect(sides: Sequence[Side]) -> Data:
    """Compare the two kinds of runs, side by side, for the primary metrics.

    ``ratio`` is instrumented / clean with its 95 % interval; values are in ``unit``.
    """
    table = df_run_values(sides).table
    primary = table[(table["family"] == "primary") & (table["status"] == "ok")]
    rows = [
        _row(str(side), found)
        for side, runs in primary.groupby("side", sort=False)
        for found in records(_df_kinds(runs))
    ]
    if not rows:
        raise Absent("no metric has both clean and instrumented runs")
    return {"rows": rows}


def _df_kinds(runs: pd.DataFrame) -> pd.DataFrame:
    # The two kinds of one side's runs, compared as if they were two sides.
    kinds = runs.assign(side=runs["kind"])
    rows = compare_runs(kinds, base=CLEAN, new=[INSTRUMENTED]).rows
    return rows[(rows["n_base"] > 0) & (rows["n_new"] > 0)]


def _row(side: str, found: Mapping[str, object]) -> dict[str, object]:
    return {
        "side": side,
        **{name: found[name] for name in (*KEY, "ratio", "ci_low", "ci_high")},
        "n_clean": found["n_base"],
        "n_instrumented": found["n_new"],
        "clean": found["base"],
        "instrumented": found["new"],
    }
