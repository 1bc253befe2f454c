"""JSON Schema of what the flames section says."""

from collections.abc import Mapping

from schedperf.model.schema import (
    COUNT,
    FLAG,
    NUMBER_OR_NULL,
    TEXT,
    TEXTS,
    Schema,
    array,
    record,
)

_FRAMES: Schema = {"type": "integer", "minimum": 0}
_NUMBERS: Schema = array(NUMBER_OR_NULL)
_VALUES = {
    "base": {**_NUMBERS, "description": "mean of the runs: % of all time, or unit per operation"},
    "new": {**_NUMBERS, "description": "the same of the other side"},
}
_ENDS = {
    "low": {**_NUMBERS, "description": "lower end of the 95 % interval of new - base"},
    "high": {
        **_NUMBERS,
        "description": "upper end; null without 2 runs a side, or where none varies",
    },
    "changed": {**array(_FRAMES), "description": "places in these lists with q < 0.05"},
}
_Q: Schema = {
    **_NUMBERS,
    "description": "p after Benjamini and Hochberg's correction over all that was tested",
}
_CHANGES = record(**_VALUES, **_ENDS, q=_Q)
_WHOLE = {"inclusive": _CHANGES, "self": _CHANGES, "functions": _CHANGES}
_MARGIN = {
    "margin": {
        **_NUMBERS,
        "description": "the 95 % interval is the change and as much either way; null without 2 "
        "runs a side, or where none varies",
    },
    "changed": _ENDS["changed"],
}
# Of a part, the time with all that a frame called is the sum of the own times of these frames. Its
# times have three digits and its margins two, one less than those of the whole.
_OF_PART = {
    "inclusive": record(**_MARGIN),
    "self": record(**_VALUES),
    "functions": record(**_VALUES, **_MARGIN),
}


def _measures(extents: Mapping[str, Schema]) -> Schema:
    meanings = {
        "inclusive": "of each frame, with all that it called",
        "self": "of each frame alone",
        "functions": "of each name alone, on all paths together",
    }
    described = {
        name: {**extent, "description": meanings[name]} for name, extent in extents.items()
    }
    return array(
        record(
            measure={"enum": ["share", "operation"]},
            operation={"type": ["string", "null"], "description": "message; null of a share"},
            **described,
        )
    )


_LISTED: Schema = {**array(_FRAMES), "description": "frames, largest first"}
_LISTS = record(
    vanished={**_LISTED, "description": "outermost frames that only base has, largest first"},
    appeared={**_LISTED, "description": "outermost frames that only new has, largest first"},
    changed={**_LISTED, "description": "frames whose own time changed, largest change first"},
    counts=record(vanished=COUNT, appeared=COUNT, changed=COUNT),
    sampled={
        **record(vanished=array(COUNT), appeared=array(COUNT)),
        "description": "in how many runs (or boots) of its side",
    },
)
_TREE = record(
    event=TEXT,
    place={**TEXT, "description": "event, workload and point; empty where there is one only"},
    unit={**TEXT, "description": "what the periods of its samples count"},
    labels={**TEXTS, "description": "of base and new"},
    independent={"enum": ["runs", "boots"], "description": "what the intervals count"},
    counts={**array(COUNT), "description": "how many of them base and new have"},
    took_turns={**FLAG, "description": "false: a drift of the machine may look like a change"},
    totals={**_NUMBERS, "description": "all that was sampled in a run, mean of a side, in unit"},
    least_share={
        "type": "number",
        "description": "of all time; smaller frames are together in a remainder of their caller",
    },
    names=array(
        record(symbol=TEXT, dso=TEXT, **{"class": {"type": ["string", "null"]}}),
    ),
    parent={**array({"type": "integer", "minimum": -1}), "description": "-1 is of the root"},
    name={
        **array({"type": "integer", "minimum": -2}),
        "description": "place in names; -1 is the root, -2 a remainder",
    },
    hidden={**array(COUNT), "description": "how many frames a remainder stands for"},
    measures=_measures(_WHOLE),
    parts={
        **array(
            record(kind={"enum": ["node", "cpu", "comm"]}, name=TEXT, measures=_measures(_OF_PART))
        ),
        "description": "the same tree with the samples of a part; shares stay of all time",
    },
    lists=_LISTS,
)
SCHEMA = record(
    comparisons=array(
        record(
            side=TEXT,
            events=array(_TREE),
            left_out={**TEXTS, "description": "events and points without a tree"},
        )
    ),
    missing=array(
        record(side=TEXT, reason={**TEXT, "description": "why, with the side's name in front"})
    ),
)
