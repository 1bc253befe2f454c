"""JSON Schema of ``schedperf c2c --json``.

``python -m schedperf.commands._c2c_schema`` prints what is published in
``docs/schema/c2c-1.schema.json``.
"""

import json
import sys

from schedperf.evidence.c2c.schema import ACCESS, POINT, SEEN
from schedperf.model.schema import (
    COUNT,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    array,
    document,
    fields_of,
    or_null,
    record,
)

_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}


_LINE = record(
    **{
        **fields_of(SEEN),
        "name": {**TEXT_OR_NULL, "description": "of what lies on it; null: not known"},
        "remote": {**COUNT, "description": "contended loads that another node answered, samples"},
        "local": {**COUNT, "description": "contended loads of the same node"},
        "accesses": array(
            record(
                **fields_of(ACCESS),
                mean_weight={
                    **NUMBER_OR_NULL,
                    "description": "latency of a contended load, in cycles; null: not recorded",
                },
            )
        ),
    }
)
_SIDE = record(
    side={"enum": ["base", "new", None], "description": "null of one side alone"},
    kind={"enum": ["a bundle", "perf.data", "text of perf c2c report"]},
    label=TEXT,
    path=TEXT,
    point={**TEXT, "description": "workload and point; empty where there is no bundle"},
    runs={**COUNT, "minimum": 1},
    observable={"enum": ["hitm", "ibs", "peer"]},
    events=TEXTS,
    period={**_COUNT_OR_NULL, "description": "loads from one sampled one to the next"},
    ldlat={**_COUNT_OR_NULL, "description": "least latency of a sampled load, cycles"},
    line_bytes=COUNT,
    totals={
        "type": "object",
        "additionalProperties": COUNT,
        "description": "samples of all runs under the words of perf c2c report, in snake case",
    },
    lines={**array(_LINE), "description": "in the order of `sort`"},
    notes={**TEXTS, "description": "what could not be seen, one sentence each"},
)

SCHEMA: Schema = document(
    "schedperf/c2c/1",
    tool_version=TEXT,
    sort={"enum": ["rmt", "lcl", "tot", "peer", "records"]},
    sides={**array(_SIDE), "minItems": 1, "maxItems": 2},
    comparison={**or_null(POINT), "description": "null of one side alone"},
)

if __name__ == "__main__":
    sys.stdout.write(json.dumps(SCHEMA, indent=1) + "\n")
