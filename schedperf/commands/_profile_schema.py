"""JSON Schema of ``schedperf profile --json``.

``python -m schedperf.commands._profile_schema`` prints what is published in
``docs/schema/profile-1.schema.json``.
"""

import json
import sys

from schedperf.model.schema import (
    COUNT,
    FLAG,
    FLAG_OR_NULL,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    array,
    document,
    or_null,
    record,
)

_SIDE_NAME: Schema = {"enum": ["base", "new", None], "description": "null of one side alone"}
_SUM: Schema = {"type": "integer", "description": "over the runs, in the unit of the event"}
_SHARE: Schema = {
    **NUMBER_OR_NULL,
    "description": "mean of the runs, in per cent of what the event counted (periods); null: none",
}
_INTERVAL: Schema = {
    "anyOf": [
        {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        {"type": "null"},
    ],
    "description": "of 95 %, of the change; null with fewer than two runs on a side",
}
_Q: Schema = {
    **NUMBER_OR_NULL,
    "description": "p after Benjamini and Hochberg's correction; null where nothing was tested",
}

# One of each is in a row if it was asked for; null where the recording does not say.
_SORT_KEYS: dict[str, Schema] = {
    "event": TEXT,
    "cpu": {"type": ["integer", "null"]},
    "node": {"type": ["integer", "null"]},
    "comm": TEXT_OR_NULL,
    "dso": TEXT,
    "symbol": TEXT,
}
_COUNTED: dict[str, Schema] = {"samples": COUNT, "period": _SUM, "share": _SHARE}


def _row(**counted: Schema) -> Schema:
    return {**record(**counted), "properties": {**_SORT_KEYS, **counted}}


def _by_side(value: Schema, what: str) -> Schema:
    return {
        "type": "object",
        "required": ["base"],
        "properties": {"base": value, "new": value},
        "description": f"{what}; one side alone is base",
    }


_COST = record(
    base={**NUMBER_OR_NULL, "description": "in the unit of the event"},
    new=NUMBER_OR_NULL,
    change=NUMBER_OR_NULL,
    interval=_INTERVAL,
    q=_Q,
    changed={**FLAG, "description": "q below 0.05"},
)
_SIGHT = record(
    side={**_SIDE_NAME, "description": "null: of all sides"},
    clock={"enum": ["hrtimer", "pmu", None], "description": "null: it is no time"},
    unit={**TEXT, "description": "what periods count"},
    nmi={**FLAG_OR_NULL, "description": "does it interrupt where interrupts are off?"},
    blind={**FLAG_OR_NULL, "description": "is code that runs with interrupts off invisible?"},
    reason=TEXT,
    precise={**COUNT, "description": "0: the address may be late, to 3: it is exact"},
    emulated={**FLAG_OR_NULL, "description": "is it a counter of an emulator?"},
    remedy={**TEXT_OR_NULL, "description": "what to record instead"},
    caveats=TEXTS,
)
_SIDE = record(
    side=_SIDE_NAME,
    label=TEXT,
    path=TEXT,
    point={**TEXT, "description": "workload and point; empty for perf.data by itself"},
    runs=COUNT,
    lost=record(
        records={**COUNT, "description": "of any kind, that the kernel could not deliver"},
        samples={**COUNT, "description": "known to be among them"},
        throttled={**COUNT, "description": "how often the kernel paused an event"},
        unknown_ids={**COUNT, "description": "samples that belong to no event of the file"},
    ),
    loss={**TEXT_OR_NULL, "description": "the same as a sentence; null: nothing was lost"},
    notes={**TEXTS, "description": "what could not be read, one sentence each"},
)
_EVENT = record(
    event=TEXT,
    independent={"enum": ["runs", "boots"]},
    n=_by_side(COUNT, "independent ones that have samples of the event"),
    samples=_by_side(COUNT, "over the runs"),
    period=_by_side(_SUM, "over the runs"),
    sight=array(_SIGHT),
)

SCHEMA: Schema = document(
    "schedperf/profile/1",
    tool_version=TEXT,
    sort=array({"enum": list(_SORT_KEYS)}),
    operation={
        **TEXT_OR_NULL,
        "description": "what `cost` is for; null: not known, or runs count different things",
    },
    took_turns={**FLAG, "description": "false: a drift of the machine looks like a change"},
    cautions={**TEXTS, "description": "what to know before a number is read"},
    sides={**array(_SIDE), "minItems": 1, "maxItems": 2},
    events=array(_EVENT),
    rows={
        "anyOf": [
            array(_row(**_COUNTED)),
            array(
                _row(
                    base=record(**_COUNTED),
                    new=record(**_COUNTED),
                    change={**NUMBER_OR_NULL, "description": "new - base, percentage points"},
                    interval=_INTERVAL,
                    q=_Q,
                    changed={
                        **FLAG,
                        "description": "q below 0.05, and by 0.1 percentage points at least",
                    },
                    cost={
                        **or_null(_COST),
                        "description": "per operation; null where these are not known",
                    },
                )
            ),
        ],
        "description": "of one side, or of two; each has the keys of `sort`",
    },
)

if __name__ == "__main__":
    sys.stdout.write(json.dumps(SCHEMA, indent=1) + "\n")
